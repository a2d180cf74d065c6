package explore

// ledger is what one provider knows about the order's one effect: the truth that the participants have to learn.
// A provider applies a key once, replays its answer from then on, and refuses a key that was cancelled.
type ledger struct {
	keys       [2]keyState // by key generation; a participant that behaves uses the first alone
	flying     [2]bool     // an attempt was lost on its way and may still land
	undoFlying bool        // so was an undo
	endFlying  bool        // so was a cancel by key
	applied    uint8       // how often the effect was applied
	takenBack  uint8       // how often it was taken back
}

type keyState uint8

const (
	unseen  keyState = iota
	active           // applied and standing
	refused          // a definite no, recorded
	barred           // cancelled by key, or by hand, before anything was done
	undone           // applied and taken back
)

// attempt applies a key that was not seen before; it reports whether the effect of the key stands.
func (l *ledger) attempt(key int) {
	if l.keys[key] == unseen {
		l.keys[key] = active
		l.applied++
	}
}

// undo takes back whatever stands. A second undo finds nothing.
func (l *ledger) undo() {
	for key := range l.keys {
		if l.keys[key] == active {
			l.keys[key] = undone
			l.takenBack++
		}
	}
}

// end cancels by key: what was applied is taken back, what was not never will be.
func (l *ledger) end(key int) {
	switch l.keys[key] {
	case active:
		l.keys[key] = undone
		l.takenBack++
	case unseen:
		l.keys[key] = barred
	}
}

// byHand is a person at the provider's desk: nothing is held or charged any more, and nothing will be.
func (l *ledger) byHand() {
	for key := range l.keys {
		l.end(key)
	}
}

// tidy drops what can no longer do anything: an attempt whose key is known is only replayed, an undo finds nothing
// to undo. It is what makes two ledgers with the same future equal.
func (l *ledger) tidy() {
	for key := range l.keys {
		if l.keys[key] != unseen {
			l.flying[key] = false
		}
	}
	if l.standing() == 0 {
		l.undoFlying = false
	}
	if l.keys[0] != active && l.keys[0] != unseen {
		l.endFlying = false
	}
}

// standing counts the effects that are in force.
func (l *ledger) standing() int {
	n := 0
	for _, k := range l.keys {
		if k == active {
			n++
		}
	}
	return n
}
