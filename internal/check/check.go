// Package check holds the invariants of the whole system, written once (D12): for tests, for `chorus verify` and for the console.
//
// It is pure. It judges what others have collected: the states of the services, the providers' ledger, the counts of stock and
// the facts in the topics. Six databases share no snapshot, so what it finds in rows that were read one after another is
// a suspicion; package live reads a suspect again before it calls it a violation.
package check

import (
	"fmt"

	"chorus/internal/event"
)

// Name is the name of an invariant.
type Name string

// The invariants, in the order in which they are reported.
const (
	Ends      Name = "ends"
	Fulfilled Name = "fulfilled"
	Undone    Name = "undone"
	Once      Name = "once"
	Told      Name = "told"
	Strangers Name = "strangers"
	Money     Name = "money"
	Stock     Name = "stock"
	Story     Name = "story"
	Published Name = "published"
	Feeds     Name = "feeds"
)

// Names lists the invariants in the order in which they are reported.
func Names() []Name {
	return []Name{Ends, Fulfilled, Undone, Once, Told, Strangers, Money, Stock, Story, Published, Feeds}
}

// Says is the invariant in words.
func (n Name) Says() string {
	switch n {
	case Ends:
		return "every order ends in time, or visibly needs a person (G8, G10)"
	case Fulfilled:
		return "a confirmed order holds its goods once, is booked with one carrier and is paid exactly (G8)"
	case Undone:
		return "a rejected, failed or cancelled order holds nothing, has no shipment and a net charge of zero (G8)"
	case Once:
		return "no step has had its effect twice (G4, G7)"
	case Told:
		return "the customer was told each status of an order, and once (G4, G10)"
	case Strangers:
		return "nobody knows an order that the orders service does not know (G1)"
	case Money:
		return "the money taken is the sum of the orders' totals, and the processors' accounts agree"
	case Stock:
		return "what inventory holds of each product is what its orders hold, and no more than there is"
	case Story:
		return "the facts of an order contradict neither each other nor the map (G4, G9)"
	case Published:
		return "what a service has decided stands in its topic (G1, G2)"
	case Feeds:
		return "each row of the outboxes is in its topic, those of an order in one partition in the order of their commits (G2, G3)"
	}
	return ""
}

// Violation is one thing that must not be.
type Violation struct {
	Check Name          `json:"-"`
	Order event.OrderNo `json:"order,omitempty"` // 0 when it is about no single order
	What  string        `json:"what"`
}

func (v Violation) String() string {
	if v.Order == 0 {
		return v.What
	}
	return fmt.Sprintf("order %s: %s", v.Order, v.What)
}

// Figure is a number that a check has come to.
type Figure struct {
	Name     string `json:"name"`
	Value    int64  `json:"value"`
	Currency string `json:"currency,omitempty"` // of a value in minor units
}

// findings collects the violations of one order.
type findings struct {
	order event.OrderNo
	found []Violation
}

func (f *findings) add(n Name, format string, args ...any) {
	f.found = append(f.found, Violation{n, f.order, fmt.Sprintf(format, args...)})
}
