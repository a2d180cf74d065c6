// Package decision is the form in which every participant decides: a total function without
// I/O, clock or randomness from a state and an input to a Decision (D5). What a decision
// asks for (facts, calls, holds) is data; internal/participant carries it out in one
// transaction, internal/explore carries it out in every possible order.
package decision

import (
	"time"

	"chorus/internal/event"
)

// Input is what a participant is told. The types of this file are all there are.
type Input interface{ input() }

// Delivered is a fact that was read from a topic.
type Delivered struct{ event.Envelope }

// Requested is what a person or a customer's program asks of an order.
type Requested struct {
	ID      event.ID  // derived by the door it came through
	At      time.Time // when it was asked
	Request Request
}

// Answered is how a call ended. It comes once for each intent, unless the step is stuck: a
// person may then have it tried again.
type Answered struct {
	Step    event.Step
	Op      Op
	Outcome Outcome
}

// Weighed answers a Hold: whether the shelf had everything.
type Weighed struct {
	Held  bool
	Short string // the goods that were missing
}

// Elapsed says that the instant at which a state asked to be woken has come.
type Elapsed struct{ At time.Time }

func (Delivered) input() {}
func (Requested) input() {}
func (Answered) input()  {}
func (Weighed) input()   {}
func (Elapsed) input()   {}

// Request is one of the requests of this package, or order.Place.
type Request any

// Cancel asks for the order to be undone.
type Cancel struct {
	By  event.CancelReason
	Why string // an operator's reason, for operators
}

// Ship hands the order over; there is no way back.
type Ship struct{}

// Deliver says that the order has arrived.
type Deliver struct{}

// Resolve ends a stuck step: a person has evidence that nothing is held or charged any more.
type Resolve struct {
	Step       event.Step
	Evidence   string
	MoneyMoved bool // a stuck charge had been taken and was paid back by hand
}

// Retry has a stuck step's call tried again with a fresh budget.
type Retry struct{ Step event.Step }

// Verdict says what became of an input.
type Verdict string

const (
	Applied    Verdict = "applied"    // it changed the order's course: facts or calls follow
	Remembered Verdict = "remembered" // it was noted, something else has to happen first
	Ignored    Verdict = "ignored"    // it cannot matter any more; Why says so
	Refused    Verdict = "refused"    // a request that this state does not allow
)

// Emission is a fact to be stated. Generation is 0 unless the participant has stated the type about this
// order before; it keeps the derived ids apart.
type Emission struct {
	Fact       event.Fact
	Generation int
}

// Decision is the answer to an input. The zero value of everything but State and Verdict means "nothing".
type Decision[S any] struct {
	State   S
	Verdict Verdict
	Why     string // one short clause for people, always set
	Facts   []Emission
	Intents []Intent
	Hold    HoldOp // carried out at once in the same transaction; Take is answered by Weighed
}

// HoldOp is what inventory does to the counts in its own database (D4 "Stock").
type HoldOp string

const (
	Take     HoldOp = "take"      // hold all lines or nothing; Weighed follows
	GiveBack HoldOp = "give back" // end the order's hold, if there is one
)

// Op is what a call does.
type Op string

const (
	Do   Op = "do"   // has an effect that must be undone if the order ends badly
	Undo Op = "undo" // takes an effect back
	Look Op = "look" // only reads
	Tell Op = "tell" // passes something on: nothing takes it back, and whoever hears it twice under one key hears it once
)

// Intent is a call to a provider that the participant owes (D7).
type Intent struct {
	Step      event.Step
	Op        Op
	Provider  string // the route: a provider's name in the configuration
	Reference string // for Undo: the effect that is taken back
	Reason    string // for Undo: why, it travels to the provider
	Body      any    // for Do and Look: marshalled to JSON once, the same bytes on every attempt
	Deadline  time.Time
	Again     bool // a stuck call is tried again with a fresh budget and the same key
}

// OutcomeKind is how a call ended, once and for all or until a person steps in.
type OutcomeKind string

const (
	Succeeded OutcomeKind = "SUCCEEDED"
	Declined  OutcomeKind = "DECLINED" // the provider refused; nothing was done
	Failed    OutcomeKind = "FAILED"   // attempts or time ran out; it is certain that nothing is done
	Stuck     OutcomeKind = "STUCK"    // what happened could not be learned, or the undo did not get through
)

// Outcome is what the result table says at the end of a call.
type Outcome struct {
	Kind      OutcomeKind
	Reference string // the provider's name for the effect
	Score     int    // the bureau's answer
	Reason    string
}
