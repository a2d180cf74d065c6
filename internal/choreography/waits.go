package choreography

import (
	"slices"
	"strings"
	"time"

	"chorus/internal/event"
)

// Known is what has been stated about an order: each fact's type and when it occurred. UndoStuck stands under
// StuckKey of its step, since any step may be stuck.
type Known map[event.Type]time.Time

// StuckKey is the name under which the UndoStuck of a step stands in Known and in Debts.
func StuckKey(step event.Step) event.Type { return stuck + event.Type(":"+string(step)) }

// Note adds a fact. Of a type that is stated again the first instant stays: a wait does not begin anew.
func (k Known) Note(f event.Fact, at time.Time) {
	t := f.Type()
	if u, ok := f.(event.UndoStuck); ok {
		t = StuckKey(u.Step)
	}
	if _, there := k[t]; !there {
		k[t] = at
	}
}

// Wait is what an order waits for at present (G10).
type Wait struct {
	Owner   event.Participant // whose step or fact it is
	Step    event.Step        // empty when it is not of a step
	Person  bool              // the step is stuck: a person must resolve or retry it
	Expects []event.Type      // any of these ends the wait
	Since   time.Time
	Until   time.Time // later the wait is overdue
}

// Waits lists what an order waits for when these facts are known, the most telling first. None means that the order
// has ended, or is confirmed or shipped and rests. A stuck step waits for a person and for nobody
// else, and while one is stuck orders owes no ending.
func Waits(known Known, d Durations) []Wait {
	waits := personal(known, d)
	stuckAnywhere := len(waits) > 0
	for _, debt := range Debts(d) {
		since, open := debt.since(known)
		switch {
		case !open, debt.Step == "" && stuckAnywhere:
			continue
		case slices.ContainsFunc(waits, func(w Wait) bool { return w.Owner == debt.Owner && w.Step == debt.Step }):
			continue
		}
		waits = append(waits, Wait{
			Owner: debt.Owner, Step: debt.Step, Expects: debt.Owes, Since: since, Until: since.Add(debt.Allowed),
		})
	}
	return waits
}

// personal lists the waits for people.
func personal(known Known, d Durations) []Wait {
	var waits []Wait
	for _, step := range undoable() {
		since, isStuck := known[StuckKey(step)]
		if isStuck && !known.any(closers(step)) {
			waits = append(waits, Wait{
				Owner: step.Owner(), Step: step, Person: true, Expects: resolutions(step),
				Since: since, Until: since.Add(d.Person),
			})
		}
	}
	return waits
}

// since reports whether the debt is open, and from when: the last of the facts that it comes after.
func (d Debt) since(known Known) (time.Time, bool) {
	var last time.Time
	for _, t := range d.After {
		at, there := known[t]
		if !there {
			return time.Time{}, false
		}
		if at.After(last) {
			last = at
		}
	}
	return last, !known.any(d.Owes) && !known.any(d.Unless)
}

func (k Known) any(types []event.Type) bool {
	return slices.ContainsFunc(types, func(t event.Type) bool { _, there := k[t]; return there })
}

// String says who is waited for and why, for people.
func (w Wait) String() string {
	var what []string
	for _, t := range w.Expects {
		what = append(what, string(t))
	}
	who := string(w.Owner)
	if w.Person {
		who = "a person, for " + who
	}
	return who + ": " + strings.Join(what, " or ")
}
