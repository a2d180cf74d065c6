package cdc

import (
	"syscall"
	"time"
)

// pause sleeps to some ten microseconds; the runtime's timers wait for a millisecond in an idle process.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // one that a signal ends is short, and that is all
}
