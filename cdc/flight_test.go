package cdc

import (
	"testing"
	"time"
)

// An idle stream sends at once, one that waits for an acknowledgement gathers
// until it is there, and a busy one for as long as the client lets it linger.
func TestWhatLeaves(t *testing.T) {
	t.Parallel()
	f := newFlight(0)
	tx := f.begin()
	sent := func(n int) {
		t.Helper()
		for range n {
			if !f.tryAdd(1) {
				t.Fatal("no room")
			}
		}
	}
	step := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: leaves %t, want %t", what, got, want)
		}
	}
	step("nothing", f.leaves(false), false)
	sent(1)
	step("the first", f.leaves(false), true)
	sent(2)
	step("behind it", f.leaves(false), false)
	step("when it is acknowledged", f.acked(tx, 1, 1, time.Now()), true)
	step("half of them acknowledged", f.acked(tx, 1, 1, time.Now()), false)
	sent(5)
	step("busy", f.leaves(true), false)
	step("busy, and nothing on its way", f.acked(tx, 1, 1, time.Now()), false)
	step("busy, and the client has sent some by itself", f.acked(tx, 3, 3, time.Now()), false)
	step("no longer", f.leaves(false), true)
	step("the last ones", f.acked(tx, 2, 2, time.Now()), false)
	if f.held != 0 || f.away != 0 || f.unacked() != 0 {
		t.Errorf("%d held, %d away, %d unacknowledged", f.held, f.away, f.unacked())
	}
}
