package decision

import "cmp"

// NoReason stands where a provider gave none: whoever reads a refusal or a stuck step is told that much.
const NoReason = "no reason given"

// Effect is the state of one step that has an effect in the outside world and can be undone. The
// three participants with such a step share it, so that the rules of D4 for
// races stand in one place: undo before do, undo during do, undo twice, late success, stuck and
// resolved. Each undo is answered exactly once, whatever triggers it.
type Effect struct {
	Phase     Phase  `json:"phase,omitempty"`
	UndoAsked bool   `json:"undo_asked,omitempty"` // an undo came while the call was under way
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"` // of the undo, or of the refusal
	Stucks    int    `json:"stucks,omitempty"` // UndoStuck facts stated so far: the next one's generation
	Late      bool   `json:"late,omitempty"`   // it was found to stand after its UndoStuck: nobody has heard or will hear of it
}

// Phase is how far an effect is.
type Phase string

const (
	Open         Phase = ""              // nothing has been tried
	Doing        Phase = "DOING"         // the forward call is planned or under way
	Done         Phase = "DONE"          // the effect stands
	Undoing      Phase = "UNDOING"       // the undo call is planned or under way
	Closed       Phase = "CLOSED"        // nothing is held and nothing will be: refused, undone, or a tombstone
	StuckDoing   Phase = "STUCK_DOING"   // nobody knows whether the effect stands; a person must say
	StuckUndoing Phase = "STUCK_UNDOING" // the effect stands and could not be taken back
)

// Move is what the participant must do after a transition.
type Move int

const (
	Rest       Move = iota // nothing; the transition's clause says why
	Wait                   // nothing yet: it was noted, and a call's outcome will answer
	CallDo                 // plan the forward call
	CallUndo               // plan the undo call
	SayDone                // state the forward fact
	SayRefused             // state the refusal; it answers any undo
	SayUndone              // state the closing fact
	SayNone                // state the closing fact with "there was nothing"
	SayStuck               // state UndoStuck
	CallAgain              // have the stuck call tried again
)

// Do begins the forward call. After a tombstone it does nothing: the undo's fact has said "none".
func (e Effect) Do() (Effect, Move, string) {
	if e.Phase != Open {
		return e, Rest, "already " + e.word()
	}
	e.Phase = Doing
	return e, CallDo, "begin"
}

// Begun reports whether the forward call was begun or can never be, and says so in a clause. What only prepares
// the call matters no more then.
func (e Effect) Begun() (string, bool) { return "already " + e.word(), e.Phase != Open }

// Refuse closes the effect without a call.
func (e Effect) Refuse(reason string) (Effect, Move, string) {
	if e.Phase != Open {
		return e, Rest, "already " + e.word()
	}
	e.Phase, e.Reason = Closed, reason
	return e, SayRefused, reason
}

// Undo takes a trigger for the undo.
func (e Effect) Undo(reason string) (Effect, Move, string) {
	switch e.Phase {
	case Open: // undo before do: a tombstone
		e.Phase, e.Reason = Closed, reason
		return e, SayNone, "nothing was done; a later do is ignored"
	case Doing:
		if e.UndoAsked {
			return e, Rest, "the undo already waits for the call"
		}
		e.UndoAsked, e.Reason = true, reason
		return e, Wait, "the call is under way; its outcome answers"
	case Done:
		e.Phase, e.Reason = Undoing, reason
		return e, CallUndo, "undo: " + reason
	case StuckDoing, StuckUndoing:
		return e, Rest, "stuck; the resolution answers"
	}
	return e, Rest, "already " + e.word()
}

// Answer takes the end of a call.
func (e Effect) Answer(op Op, o Outcome) (Effect, Move, string) {
	o.Reason = cmp.Or(o.Reason, NoReason)
	switch {
	case op == Do && (e.Phase == Doing || e.Phase == StuckDoing):
		return e.answerDo(o)
	case op == Undo && (e.Phase == Undoing || e.Phase == StuckUndoing):
		if o.Kind == Succeeded {
			return e.undone("undone")
		}
		return e.stuck(StuckUndoing, o.Reason)
	}
	return e, Rest, "no such call is awaited: " + string(op) + " while " + e.word()
}

func (e Effect) answerDo(o Outcome) (Effect, Move, string) {
	switch o.Kind {
	case Succeeded:
		e.Reference = o.Reference
		if e.UndoAsked || e.Phase == StuckDoing {
			// A late success is undone first; no forward fact follows an UndoStuck (D4).
			e.Late = e.Phase == StuckDoing
			e.Phase = Undoing
			return e, CallUndo, "late success is undone"
		}
		e.Phase = Done
		return e, SayDone, "done"
	case Declined, Failed:
		e.Phase, e.Reason = Closed, o.Reason
		return e, SayRefused, o.Reason
	}
	return e.stuck(StuckDoing, o.Reason)
}

// undone closes the effect. One that nobody has heard of is answered as a refusal: the later steps were
// never begun, so the fact that closes this one must close them too.
func (e Effect) undone(why string) (Effect, Move, string) {
	e.Phase = Closed
	if e.Late {
		return e, SayRefused, why
	}
	return e, SayUndone, why
}

func (e Effect) stuck(phase Phase, reason string) (Effect, Move, string) {
	if e.Phase == phase {
		return e, Rest, "still stuck: " + reason
	}
	e.Phase, e.Reason = phase, reason
	e.Stucks++
	return e, SayStuck, "stuck: " + reason
}

// Resolve takes a person's word, with evidence, that nothing is held any more. It may come while a retried call is under way: then the word counts, and
// the end of that call is ignored. That does no harm: a retried forward call can only end by being cancelled under its key (Call.Again), so nothing comes to
// stand; a retried undo takes back what the person says is taken back, under a key that its provider honours once, and "already undone" is its success.
func (e Effect) Resolve(evidence string) (Effect, Move, string) {
	switch e.Phase {
	case StuckDoing:
		e.Phase, e.Reason = Closed, evidence
		return e, SayRefused, "resolved: " + evidence
	case StuckUndoing:
		return e.undone("resolved: " + evidence)
	}
	return e, Rest, "the step is not stuck: " + e.word()
}

// Retry has the stuck call tried again.
func (e Effect) Retry() (Effect, Move, string) {
	if !e.IsStuck() {
		return e, Rest, "the step is not stuck: " + e.word()
	}
	if e.StuckOp() == Undo {
		return e, CallAgain, "the undo is sent again, under its own key"
	}
	return e, CallAgain, "the call is cancelled by its key: what it may have done is taken back"
}

// IsStuck reports whether the step waits for a person.
func (e Effect) IsStuck() bool { return e.Phase == StuckDoing || e.Phase == StuckUndoing }

// StuckOp is the call that is stuck.
func (e Effect) StuckOp() Op {
	if e.Phase == StuckUndoing {
		return Undo
	}
	return Do
}

func (e Effect) word() string {
	if e.Phase == Open {
		return "not begun"
	}
	return map[Phase]string{
		Doing: "under way", Done: "done", Undoing: "being undone", Closed: "closed",
		StuckDoing: "stuck", StuckUndoing: "stuck in its undo",
	}[e.Phase]
}
