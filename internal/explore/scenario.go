package explore

import (
	"slices"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Scenario says what may happen in a run. Everything that is enabled is tried at every moment.
type Scenario struct {
	Name    string
	Policy  decision.Policy // small budgets: a counter that works for 2 works for 8
	Faulty  []event.Step    // whose provider misbehaves in every way; the others answer, yes or no
	Scores  []int           // that the bureau may give
	Short   bool            // the shelf may be empty
	Cancel  bool            // the customer may cancel, at any moment and as often as he likes
	Ship    bool            // so with ship and deliver
	Timers  bool            // the order's deadline and that of its way back may pass at any moment
	Expiry  bool            // a call may find the deadline passed before any attempt
	Person  bool            // a stuck step may be resolved, or retried any number of times
	Gift    bool            // the total is zero
	Silent  bool            // providers give no reasons
	NoInbox bool            // the inbox is off: every fact may be delivered again at any moment, and is decided again
	Cap     int             // states; reaching it fails the run
}

func (s Scenario) faulty(step event.Step) bool { return slices.Contains(s.Faulty, step) }

// Budgets are small and more than one, so that every counter is seen to count.
func Budgets() decision.Policy { return decision.Policy{Tries: 2, Undos: 2, Asks: 2, Ends: 2} }
