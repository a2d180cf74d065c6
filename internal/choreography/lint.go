package choreography

import (
	"fmt"
	"slices"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Lint lists what is wrong with a table of reactions and its debts; nothing when all is well. It sees the table alone:
// that the rules do what the table says is seen by explore.
func Lint(table []Reaction, debts []Debt) []string {
	var l lint
	l.facts(table)
	l.steps(table, debts)
	l.debts(table, debts)
	return l.faults
}

type lint struct{ faults []string }

func (l *lint) add(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func stated(table []Reaction, t event.Type) bool {
	return slices.ContainsFunc(table, func(r Reaction) bool { return slices.Contains(r.States, t) })
}

// facts: each is stated by somebody and heard by somebody else, and nobody speaks of one that there is not.
func (l *lint) facts(table []Reaction) {
	for _, f := range event.Catalogue() {
		if !stated(table, f.Type()) {
			l.add("%s is stated by nobody", f.Type())
		}
		if !slices.ContainsFunc(table, func(r Reaction) bool { return r.On == f.Type() }) {
			l.add("%s is heard by nobody", f.Type())
		}
	}
	for _, r := range table {
		for _, t := range append([]event.Type{r.On}, r.States...) {
			if t != "" && !event.Known(t) {
				l.add("%s: %s is in no catalogue", r.Who, t)
			}
		}
		if (r.On == "") == (r.Asked == "") {
			l.add("%s: a reaction is to a fact or to a request: %q, %q", r.Who, r.On, r.Asked)
		}
		tells := slices.ContainsFunc(r.Calls, func(c Call) bool { return c.Op == decision.Tell }) // nobody waits for its end
		if len(r.Calls) > 0 && len(r.States) == 0 && !tells {
			l.add("%s on %s%s: the end of a call is told to nobody", r.Who, r.On, r.Asked)
		}
	}
}

// steps: what is done can be undone, belongs to its owner, is owed by it, and has a button when it is stuck.
func (l *lint) steps(table []Reaction, debts []Debt) {
	calls := map[Call]event.Participant{}
	asked := map[event.Participant][]string{}
	for _, r := range table {
		for _, c := range r.Calls {
			calls[c] = r.Who
			if r.Who != c.Step.Owner() {
				l.add("%s calls for the %s, which is %s's", r.Who, c.Step, c.Step.Owner())
			}
		}
		asked[r.Who] = append(asked[r.Who], r.Asked)
	}
	for _, step := range []event.Step{event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep} {
		_, does := calls[Call{step, decision.Do}]
		_, undoes := calls[Call{step, decision.Undo}]
		_, looks := calls[Call{step, decision.Look}]
		owner := step.Owner()
		switch {
		case !does && !looks:
			l.add("the %s is done by nobody", step)
		case does && !undoes:
			l.add("the %s has no undo", step)
		case does && !(slices.Contains(asked[owner], "resolve") && slices.Contains(asked[owner], "retry")):
			l.add("the %s has no button for when it is stuck", step)
		}
		owed := 0
		for _, d := range debts {
			if d.Step == step {
				owed++
			}
		}
		if owed == 0 || does && owed < 2 {
			l.add("nobody owes the %s or its undo", step)
		}
	}
}

// debts: each has an owner who can pay it, a deadline, and a beginning that comes about.
func (l *lint) debts(table []Reaction, debts []Debt) {
	real := func(t event.Type) event.Type {
		for _, step := range undoable() {
			if t == StuckKey(step) {
				return stuck
			}
		}
		return t
	}
	for _, d := range debts {
		name := fmt.Sprintf("the debt of %v after %v", d.Owes, d.After)
		if d.Allowed <= 0 {
			l.add("%s has no deadline", name)
		}
		pays := slices.ContainsFunc(table, func(r Reaction) bool {
			return r.Who == d.Owner && slices.ContainsFunc(r.States, func(t event.Type) bool { return slices.Contains(d.Owes, t) })
		})
		if !pays {
			l.add("%s has no owner who can pay it: %q", name, d.Owner)
		}
		if d.Step != "" && d.Step.Owner() != d.Owner {
			l.add("%s is %s's, and the step is %s's", name, d.Owner, d.Step.Owner())
		}
		if len(d.After) == 0 {
			l.add("%s has no beginning", name)
		}
		for _, t := range slices.Concat(d.After, d.Owes, d.Unless) {
			if !stated(table, real(t)) {
				l.add("%s: %s is stated by nobody", name, t)
			}
		}
	}
}
