package cdc

import "time"

// pace has a busy reader wait for a moment before it reads on. A walsender
// writes each message by itself and wakes a reader that waits for it; one that
// comes later finds many, and neither is woken for each. A stream that is not
// busy is read at once.
type pace struct {
	began    time.Time // of the present window
	messages int       // in it
	busy     bool
}

const (
	paceWindow = time.Millisecond
	busyStream = 24 // messages in a window: that of eight transactions of one row
	busyPause  = 250 * time.Microsecond
)

// due tells whether the reader should pause before the read that it begins now.
func (p *pace) due(now time.Time) bool {
	if took := now.Sub(p.began); took >= paceWindow {
		p.busy = int64(p.messages) >= busyStream*int64(took/paceWindow)
		p.began, p.messages = now, 0
	}
	return p.busy
}
