package explore

import (
	"encoding/json"
	"fmt"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/billing/payment"
	"chorus/services/fraud/screening"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// The participants by index.
const (
	orders = iota
	inventory
	fraud
	shipping
	billing
	actorCount
)

// actor is a participant whose state is JSON, as in its database: what is not stored is forgotten here too.
type actor struct {
	name   event.Participant
	step   event.Step // empty for orders
	zero   string
	decide func(state string, in decision.Input) turn
	look   func(state string) facets
}

// turn is what a participant does about one input at its door: one decision, or two when the shelf is asked between.
type turn struct {
	state   string
	verdict decision.Verdict
	why     string
	facts   []decision.Emission
	intents []decision.Intent
	hold    decision.HoldOp
	wrong   string // the decision contradicts itself
}

// facets are what the judge wants to know of a state.
type facets struct {
	phase  decision.Phase // of the effect
	status order.Status   // of the order
	stuck  []event.Step   // that orders shows to people
	due    time.Time
	timed  bool // the state is one that must not last, so it has to have a timer
	atRest bool // nothing can change it any more: it only ignores
}

func actors(sys System) [actorCount]actor {
	effect := func(e decision.Effect) facets {
		return facets{phase: e.Phase, atRest: e.Phase == decision.Closed}
	}
	return [actorCount]actor{
		orders: adapt(event.Orders, "", sys.Order, hushOrder, func(s order.State) facets {
			return facets{
				status: s.Status, stuck: s.StuckSteps(), due: s.Due(), atRest: s.Status.Ended(),
				timed: s.Status == order.Placed || s.Status.Undoing() && !s.Overdue,
			}
		}),
		inventory: adapt(event.Inventory, event.StockStep, sys.Stock,
			func(s *stock.State) { hush(&s.Effect.Reason) },
			func(s stock.State) facets { return effect(s.Effect) }),
		fraud: adapt(event.Fraud, event.ScreeningStep, sys.Screening,
			func(*screening.State) {},
			func(s screening.State) facets { return facets{atRest: s.Phase == screening.Screened} }),
		shipping: adapt(event.Shipping, event.ShipmentStep, sys.Shipment,
			func(s *shipment.State) { hush(&s.Effect.Reason) },
			func(s shipment.State) facets { return effect(s.Effect) }),
		billing: adapt(event.Billing, event.PaymentStep, sys.Payment,
			func(s *payment.State) { hush(&s.Effect.Reason) },
			func(s payment.State) facets { return effect(s.Effect) }),
	}
}

func adapt[S any](name event.Participant, step event.Step,
	decide func(event.OrderNo, S, decision.Input) decision.Decision[S], quiet func(*S), look func(S) facets,
) actor {
	read := func(state string) (s S) {
		if err := json.Unmarshal([]byte(state), &s); err != nil {
			panic(fmt.Sprintf("state of %s: %v", name, err))
		}
		return s
	}
	write := func(s S) string {
		quiet(&s)
		raw, err := json.Marshal(s)
		if err != nil {
			panic(fmt.Sprintf("state of %s: %v", name, err))
		}
		return string(raw)
	}
	return actor{
		name: name, step: step, zero: write(*new(S)),
		look: func(state string) facets { return look(read(state)) },
		decide: func(state string, in decision.Input) turn {
			d := decide(orderNo, read(state), in)
			t := turn{
				state: write(d.State), verdict: d.Verdict, why: d.Why,
				facts: d.Facts, intents: d.Intents, hold: d.Hold,
			}
			for i := range t.facts {
				t.facts[i].Fact = hushFact(t.facts[i].Fact)
			}
			t.check(state)
			return t
		},
	}
}

// check holds a decision to its verdict, as the door does: it saves nothing of what is ignored or refused.
func (t *turn) check(before string) {
	acts := len(t.facts) > 0 || len(t.intents) > 0 || t.hold != ""
	switch t.verdict {
	case decision.Ignored, decision.Refused:
		if t.state != before || acts {
			t.wrong = "it changes something and calls itself " + string(t.verdict)
		}
		t.state = before
	case decision.Remembered:
		if acts {
			t.wrong = "it acts and calls itself remembered"
		}
	case decision.Applied:
		if t.state == before && !acts {
			t.wrong = "it changes nothing and calls itself applied"
		}
	default:
		t.wrong = "it has no verdict"
	}
	if t.why == "" {
		t.wrong = "it does not say why"
	}
}

// Reasons are for people. No rule reads them, so all of them are one reason here: states that differ in
// nothing else are the same state. That a reason is there at all does matter, and stays.
func hush(reason *string) {
	if *reason != "" {
		*reason = "reason"
	}
}

func hushOrder(s *order.State) {
	hush(&s.Reason)
	hush(&s.Payment.Stuck)
	hush(&s.Shipment.Stuck)
	hush(&s.Stock.Stuck)
}

func hushFact(f event.Fact) event.Fact {
	switch f := f.(type) {
	case event.OrderRejected:
		hush(&f.Reason)
		return f
	case event.OrderFailed:
		hush(&f.Reason)
		return f
	case event.StockRejected:
		hush(&f.Reason)
		return f
	case event.OrderScreened:
		hush(&f.Reason)
		return f
	case event.ShipmentRejected:
		hush(&f.Reason)
		return f
	case event.PaymentDeclined:
		hush(&f.Reason)
		return f
	case event.PaymentRefunded:
		hush(&f.Reason)
		return f
	case event.PaymentVoided:
		hush(&f.Reason)
		return f
	case event.UndoStuck:
		hush(&f.Reason)
		return f
	}
	return f
}
