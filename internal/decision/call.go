package decision

// Call is the life of one intent at a provider, as a pure state machine (D7): what to
// send next, and what an exchange means. internal/intent stores it and carries it out;
// explore runs the same functions against every behaviour of a provider.
//
//	PLANNED -> attempt -> SUCCEEDED | DECLINED | wait | UNKNOWN
//	UNKNOWN -> ask by key -> SUCCEEDED | DECLINED | absent -> attempt, with the same key
//	out of attempts or time with an unknown outcome -> cancel by key -> FAILED
//	an undo, look-up or cancel by key that uses up its tries -> STUCK
type Call struct {
	Op      Op        `json:"op"`
	Phase   CallPhase `json:"phase"`
	Tries   int       `json:"tries"` // exchanges of the phase's own kind so far: each kind has a budget of its own
	Asks    int       `json:"asks,omitempty"`
	Ends    int       `json:"ends,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // some attempt may have had its effect, or may have it still
	Outcome Outcome   `json:"outcome,omitzero"`  // when Phase is Over
}

// CallPhase says what a call does next.
type CallPhase string

const (
	Attempting CallPhase = "ATTEMPT" // send the request
	Asking     CallPhase = "ASK"     // ask by key what became of it
	Ending     CallPhase = "END"     // cancel by key, so that it can never take effect
	Over       CallPhase = "OVER"    // Outcome says how it ended
)

// Policy bounds a call: how often each kind of exchange is tried.
type Policy struct {
	Tries int // attempts of a do, look or tell
	Undos int // attempts of an undo; far more
	Asks  int
	Ends  int
}

// ResultKind is what one exchange means, by the provider's rules.
type ResultKind string

const (
	OK      ResultKind = "ok"      // done, found, or (for an end) certainly nothing there
	Refusal ResultKind = "refused" // a definite no: nothing was done under this key
	Busy    ResultKind = "busy"    // not taken up; try again later
	Lost    ResultKind = "lost"    // no telling whether it was taken up: timeout, crash, unreadable answer
	Absent  ResultKind = "absent"  // the provider knows no such key (yet)
)

// Result is one exchange with a provider.
type Result struct {
	Kind      ResultKind
	Reference string
	Score     int
	Reason    string
}

// NewCall returns the call of an intent that has not been tried.
func NewCall(op Op) Call { return Call{Op: op, Phase: Attempting} }

// Expire is told that the order's deadline has passed before the next exchange. It ends attempts that
// cannot matter any more; an unknown outcome is still resolved.
func (c Call) Expire() Call {
	if c.Phase != Attempting || c.Op == Undo {
		return c
	}
	return c.giveUp("DEADLINE")
}

// Record takes the result of the exchange that the phase asked for.
func (c Call) Record(p Policy, r Result) Call {
	switch c.Phase {
	case Attempting:
		c.Tries++
		return c.attempted(p, r)
	case Asking:
		c.Asks++
		return c.asked(p, r)
	case Ending:
		c.Ends++
		switch {
		case r.Kind == OK:
			return c.over(Outcome{Kind: Failed, Reason: c.Outcome.Reason})
		case c.Ends >= p.Ends || r.Kind == Refusal:
			return c.over(Outcome{Kind: Stuck, Reason: "cancel by key: " + r.Reason})
		}
	}
	return c
}

func (c Call) attempted(p Policy, r Result) Call {
	switch r.Kind {
	case OK:
		return c.over(Outcome{Kind: Succeeded, Reference: r.Reference, Score: r.Score})
	case Refusal:
		if c.Op == Undo {
			return c.over(Outcome{Kind: Stuck, Reason: r.Reason})
		}
		if c.Unknown {
			// An earlier attempt may still take effect. Make sure that it cannot.
			return c.giveUp(r.Reason)
		}
		return c.over(Outcome{Kind: Declined, Reason: r.Reason})
	case Lost:
		if c.Op == Do {
			c.Unknown = true
			c.Phase = Asking
			return c
		}
	}
	// Busy, or a lost undo, look or tell, which is safe to repeat.
	budget := p.Tries
	if c.Op == Undo {
		budget = p.Undos
	}
	if c.Tries < budget {
		return c
	}
	if c.Op == Undo {
		return c.over(Outcome{Kind: Stuck, Reason: r.Reason})
	}
	return c.giveUp(r.Reason)
}

func (c Call) asked(p Policy, r Result) Call {
	switch r.Kind {
	case OK:
		return c.over(Outcome{Kind: Succeeded, Reference: r.Reference})
	case Refusal:
		return c.over(Outcome{Kind: Declined, Reason: r.Reason})
	case Absent:
		c.Asks = 0
		if c.Tries < p.Tries {
			c.Phase = Attempting
			return c
		}
		return c.giveUp("no answer")
	}
	if c.Asks >= p.Asks {
		return c.over(Outcome{Kind: Stuck, Reason: "look-up: " + r.Reason})
	}
	return c
}

// giveUp ends a forward call: at once when nothing can have happened, else by cancel by key.
func (c Call) giveUp(reason string) Call {
	if !c.Unknown {
		return c.over(Outcome{Kind: Failed, Reason: reason})
	}
	c.Phase = Ending
	c.Outcome = Outcome{Reason: reason}
	return c
}

func (c Call) over(o Outcome) Call {
	c.Phase, c.Outcome = Over, o
	return c
}

// Again gives a stuck call a fresh budget. A forward call is not begun anew, since no forward fact may follow
// its UndoStuck: it is cancelled by key, which takes back whatever it did.
func (c Call) Again() Call {
	if c.Op == Do {
		return Call{Op: Do, Phase: Ending, Unknown: true, Outcome: Outcome{Reason: c.Outcome.Reason}}
	}
	return NewCall(c.Op)
}
