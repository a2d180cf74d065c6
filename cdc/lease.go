package cdc

import (
	"errors"
	"time"
)

// lease is how long the slot is certainly ours: the server gives it to nobody
// else before wal_sender_timeout has passed since it heard from us. A process
// that stood still for longer (a frozen container, a paused machine) must not
// publish what it has received before, since another one may have gone on.
//
// Both clocks are asked: the monotonic one may stand still while the machine
// sleeps, and the other one may be set.
type lease struct {
	timeout time.Duration // 0: no limit
	told    time.Time     // before the last confirmation was sent
}

// errFrozen ends the session of a process that stood still.
var errFrozen = errors.New("this process stood still for longer than wal_sender_timeout, so that another one may have taken the slot")

func (l lease) check(now time.Time) error {
	if l.timeout > 0 && (now.Sub(l.told) > l.timeout || now.Round(0).Sub(l.told.Round(0)) > l.timeout) {
		return errFrozen
	}
	return nil
}
