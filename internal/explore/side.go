package explore

import (
	"fmt"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// side is what one step has outside its participant's state: its calls, as internal/intent keeps them, the
// provider's ledger, and for the stock the shelf.
type side struct {
	do, undo leg // the screening's look is its do
	ledger   ledger
	held     bool // the counts in inventory's own database are taken
}

// leg is one call.
type leg struct {
	planned  bool
	told     bool // its outcome went through the door
	provider string
	call     decision.Call
}

// sideMove is one exchange with a provider, or the landing of a request that was thought lost.
type sideMove struct {
	to    side
	label string
	wrong string
}

// wrong says what no provider may ever see.
func (s side) wrong() string {
	switch {
	case s.ledger.standing() > 1:
		return "two effects stand at the provider at once"
	case s.ledger.applied > 1:
		return "the effect was applied twice"
	case s.ledger.takenBack > s.ledger.applied:
		return "more was taken back than was done"
	}
	return ""
}

// plan writes down an intent.
func (s side) plan(sys System, in decision.Intent) (side, string) {
	l := &s.do
	if in.Op == decision.Undo {
		l = &s.undo
		if s.do.planned && s.do.provider != in.Provider {
			return s, fmt.Sprintf("the %s goes to %s, the do went to %s", in.Op, in.Provider, s.do.provider)
		}
		if in.Reference == "" {
			return s, "the undo does not say what it takes back"
		}
	}
	if in.Again {
		if !l.planned {
			return s, "a call that was never planned is to be tried again"
		}
		l.call, l.told = hushCall(sys.Again(l.call)), false
		return s, ""
	}
	if l.planned {
		return s, fmt.Sprintf("the %s of the %s is planned twice", in.Op, in.Step)
	}
	*l = leg{planned: true, provider: in.Provider, call: sys.NewCall(in.Op)}
	return s, ""
}

// hushCall drops what a call will not look at again, so that two calls with the same future are equal: its counts of
// other phases, and everything but the outcome once it is over.
func hushCall(c decision.Call) decision.Call {
	hush(&c.Outcome.Reason)
	switch c.Phase {
	case decision.Ending:
		c.Tries, c.Asks = 0, 0
	case decision.Over:
		c = decision.Call{Op: c.Op, Phase: c.Phase, Outcome: c.Outcome}
	}
	return c
}

// tell marks the outcome as told. Only a retry looks at the call again, and it starts anew.
func (l *leg) tell() {
	l.told = true
	l.call.Outcome = decision.Outcome{Reason: l.call.Outcome.Reason}
}

// exchanger lists the moves of one step's side under a scenario.
type exchanger struct {
	sys    System
	sc     Scenario
	step   event.Step
	faulty bool // the provider misbehaves in every way
	moves  []sideMove
}

func (x *exchanger) list(s side) []sideMove {
	x.moves = nil
	if s.do.planned && s.do.call.Phase != decision.Over {
		x.forward(s)
	}
	if s.undo.planned && s.undo.call.Phase != decision.Over {
		x.backward(s)
	}
	x.landings(s)
	return x.moves
}

// add records result r of an exchange of the leg that pick names, after the provider did what change says.
func (x *exchanger) add(s side, pick func(*side) *leg, what string, r decision.Result, change func(*ledger)) {
	if change != nil {
		change(&s.ledger)
		s.ledger.tidy()
	}
	if x.sc.Silent {
		r.Reason = ""
	}
	l := pick(&s)
	op, phase := l.call.Op, l.call.Phase
	l.call = hushCall(x.sys.Record(l.call, x.sc.Policy, r))
	x.push(s, fmt.Sprintf("%s %s: %s", op, word(phase), what))
}

func (x *exchanger) push(s side, label string) {
	for _, m := range x.moves {
		if m.to == s {
			return
		}
	}
	x.moves = append(x.moves, sideMove{to: s, label: string(x.step) + ": " + label, wrong: s.wrong()})
}

func word(p decision.CallPhase) string {
	switch p {
	case decision.Asking:
		return "look-up"
	case decision.Ending:
		return "cancel by key"
	}
	return "attempt"
}

func theDo(s *side) *leg   { return &s.do }
func theUndo(s *side) *leg { return &s.undo }

func (x *exchanger) forward(s side) {
	c := s.do.call
	if c.Phase == decision.Attempting && x.sc.Expiry {
		late := s
		late.do.call = hushCall(x.sys.Expire(c))
		if late.do.call != c {
			x.push(late, string(c.Op)+": the deadline has passed")
		}
	}
	switch {
	case c.Op == decision.Look:
		x.score(s)
	case c.Phase == decision.Attempting:
		x.attempt(s, x.sys.Key(c))
	case c.Phase == decision.Asking:
		x.ask(s, x.sys.Key(c))
	case c.Phase == decision.Ending:
		x.end(s, x.sys.Key(c))
	}
}

func (x *exchanger) score(s side) {
	for _, score := range x.sc.Scores {
		x.add(s, theDo, fmt.Sprintf("score %d", score), decision.Result{Kind: decision.OK, Score: score}, nil)
	}
	if x.faulty {
		x.add(s, theDo, "refused", no("refused"), nil)
		x.add(s, theDo, "busy", busy, nil)
		x.add(s, theDo, "no answer", lost, nil)
	}
}

var (
	busy = decision.Result{Kind: decision.Busy, Reason: "busy"}
	lost = decision.Result{Kind: decision.Lost, Reason: "no answer"}
)

func no(reason string) decision.Result {
	return decision.Result{Kind: decision.Refusal, Reason: reason}
}

func (x *exchanger) attempt(s side, key int) {
	apply := func(l *ledger) { l.attempt(key) }
	yes := decision.Result{Kind: decision.OK, Reference: "ref"}
	switch s.ledger.keys[key] {
	case unseen:
		x.add(s, theDo, "ok", yes, apply)
		x.add(s, theDo, "refused", no("refused"), func(l *ledger) { l.keys[key] = refused })
		if x.faulty {
			x.add(s, theDo, "refused, and forgotten by the provider", no("refused"), nil)
			x.add(s, theDo, "refused, but the answer is lost", lost, func(l *ledger) { l.keys[key] = refused })
			x.add(s, theDo, "done, but the answer is lost", lost, apply)
			x.add(s, theDo, "lost on the way, it may still land", lost, func(l *ledger) { l.flying[key] = true })
		}
	case active, undone:
		x.add(s, theDo, "ok (replayed)", yes, nil)
	case refused, barred:
		x.add(s, theDo, "refused (replayed)", no("refused"), nil)
	}
	if x.faulty {
		x.add(s, theDo, "busy", busy, nil)
		x.add(s, theDo, "no answer", lost, nil)
	}
}

func (x *exchanger) ask(s side, key int) {
	switch s.ledger.keys[key] {
	case unseen:
		x.add(s, theDo, "not known", decision.Result{Kind: decision.Absent}, nil)
	case active, undone:
		x.add(s, theDo, "found", decision.Result{Kind: decision.OK, Reference: "ref"}, nil)
	case refused, barred:
		x.add(s, theDo, "it was refused", no("refused"), nil)
	}
	if x.faulty {
		x.add(s, theDo, "busy", busy, nil)
		x.add(s, theDo, "no answer", lost, nil)
	}
}

func (x *exchanger) end(s side, key int) {
	end := func(l *ledger) { l.end(key) }
	x.add(s, theDo, "ok, nothing stands", decision.Result{Kind: decision.OK}, end)
	if x.faulty {
		x.add(s, theDo, "done, but the answer is lost", lost, end)
		x.add(s, theDo, "busy", busy, nil)
		x.add(s, theDo, "refused", no("refused"), nil)
		x.add(s, theDo, "lost on the way, it may still land", lost, func(l *ledger) { l.endFlying = true })
	}
}

func (x *exchanger) backward(s side) {
	x.add(s, theUndo, "ok", decision.Result{Kind: decision.OK}, (*ledger).undo)
	if x.faulty {
		x.add(s, theUndo, "done, but the answer is lost", lost, (*ledger).undo)
		x.add(s, theUndo, "busy", busy, nil)
		x.add(s, theUndo, "refused", no("refused"), nil)
		x.add(s, theUndo, "lost on the way, it may still land", lost, func(l *ledger) { l.undoFlying = true })
	}
}

// landings are requests that were lost and arrive after all, at any later moment.
func (x *exchanger) landings(s side) {
	land := func(what string, change func(*ledger)) {
		to := s
		change(&to.ledger)
		to.ledger.tidy()
		x.push(to, what)
	}
	for key, flying := range s.ledger.flying {
		if flying {
			land("a lost attempt lands after all", func(l *ledger) { l.attempt(key) })
		}
	}
	if s.ledger.undoFlying {
		land("a lost undo lands after all", (*ledger).undo)
	}
	if s.ledger.endFlying {
		land("a lost cancel by key lands after all", func(l *ledger) { l.end(0) })
	}
}
