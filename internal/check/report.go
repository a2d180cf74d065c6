package check

import (
	"fmt"
	"time"

	"chorus/internal/event"
)

// Report is the outcome of all checks.
type Report struct {
	At        time.Time   `json:"at"`
	Took      string      `json:"took"`
	OK        bool        `json:"ok"`
	Checks    []Result    `json:"checks"`
	Attention []Attention `json:"attention,omitempty"` // orders that need a person: listed, no violations
}

// Result is the outcome of one check.
type Result struct {
	Name       Name        `json:"name"`
	Says       string      `json:"says"`
	Figures    []Figure    `json:"figures,omitempty"`
	Found      int         `json:"found"`                // violations, all of them
	Violations []Violation `json:"violations,omitempty"` // the first
	Unseen     []string    `json:"unseen,omitempty"`     // what this check could not see
}

// Attention is an order that needs a person.
type Attention struct {
	Order event.OrderNo `json:"order"`
	Steps []event.Step  `json:"steps,omitempty"` // stuck ones
	Why   string        `json:"why"`
}

// MostShown bounds the violations that a result carries, and the orders that are listed.
const MostShown = 100

// NewReport returns a report in which every check is still clean.
func NewReport(at time.Time) *Report {
	r := &Report{At: at, OK: true}
	for _, n := range Names() {
		r.Checks = append(r.Checks, Result{Name: n, Says: n.Says()})
	}
	return r
}

// Add takes violations.
func (r *Report) Add(found ...Violation) {
	for _, v := range found {
		res := r.of(v.Check)
		r.OK = false
		if res.Found++; len(res.Violations) < MostShown {
			res.Violations = append(res.Violations, v)
		}
	}
}

// Figures adds figures to a check.
func (r *Report) Figures(n Name, figures ...Figure) {
	res := r.of(n)
	res.Figures = append(res.Figures, figures...)
}

// Unseen says what a check could not see.
func (r *Report) Unseen(n Name, format string, args ...any) {
	res := r.of(n)
	res.Unseen = append(res.Unseen, fmt.Sprintf(format, args...))
}

// Needs lists an order that needs a person.
func (r *Report) Needs(o Order) {
	if len(r.Attention) < MostShown {
		r.Attention = append(r.Attention, Attention{Order: o.No, Steps: o.Orders.StuckSteps(), Why: o.Orders.Reason})
	}
}

func (r *Report) of(n Name) *Result {
	for i := range r.Checks {
		if r.Checks[i].Name == n {
			return &r.Checks[i]
		}
	}
	r.Checks = append(r.Checks, Result{Name: n, Says: n.Says()})
	return &r.Checks[len(r.Checks)-1]
}

// InAWord says in a line that all is well, or what the first violation is.
func (r *Report) InAWord() string {
	if r.OK {
		return "all is well (" + r.Took + ")"
	}
	for _, res := range r.Checks {
		if len(res.Violations) > 0 {
			return fmt.Sprintf("VIOLATED: %s, %d times; first: %s", res.Name, res.Found, res.Violations[0])
		}
	}
	return "VIOLATED"
}
