package decision

import "chorus/internal/event"

// Terms says what a participant states and calls at each turn of its effect.
type Terms struct {
	Step    event.Step
	Do      Intent
	Undo    Intent
	Done    event.Fact // the forward fact
	Refused event.Fact // it counts as the answer to any undo
	Undone  event.Fact // the closing fact
	None    event.Fact // the closing fact when there was nothing
}

// Carry turns a move of the effect into a decision. s already holds the effect e.
func Carry[S any](s S, e Effect, move Move, why string, t Terms) Decision[S] {
	d := Decision[S]{State: s, Verdict: Applied, Why: why}
	switch move {
	case Rest:
		d.Verdict = Ignored
	case Wait:
		d.Verdict = Remembered
	case CallDo:
		d.Intents = []Intent{t.call(Do)}
	case CallUndo:
		d.Intents = []Intent{t.call(Undo)}
	case CallAgain:
		again := t.call(e.StuckOp())
		again.Again = true
		d.Intents = []Intent{again}
	case SayDone:
		d.Facts = []Emission{{Fact: t.Done}}
	case SayRefused:
		d.Facts = []Emission{{Fact: t.Refused}}
	case SayUndone:
		d.Facts = []Emission{{Fact: t.Undone}}
	case SayNone:
		d.Facts = []Emission{{Fact: t.None}}
	case SayStuck:
		d.Facts = []Emission{{Fact: event.UndoStuck{Step: t.Step, Reason: e.Reason}, Generation: e.Stucks - 1}}
	}
	return d
}

func (t Terms) call(op Op) Intent {
	i := t.Do
	if op == Undo {
		i = t.Undo
	}
	i.Step, i.Op = t.Step, op
	return i
}

// OrRefuse turns "nothing to do" into a refusal: a person who asked must be told.
func OrRefuse[S any](d Decision[S]) Decision[S] {
	if d.Verdict == Ignored {
		d.Verdict = Refused
	}
	return d
}

// Ignore is the decision that changes nothing.
func Ignore[S any](s S, why string) Decision[S] {
	return Decision[S]{State: s, Verdict: Ignored, Why: why}
}

// Note is the decision that only remembers.
func Note[S any](s S, why string) Decision[S] {
	return Decision[S]{State: s, Verdict: Remembered, Why: why}
}
