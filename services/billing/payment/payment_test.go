package payment_test

import (
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/services/billing/payment"
)

const order event.OrderNo = 8842

// to is a route that sends everything to one processor.
func to(processor string) outside.Route {
	return func(outside.Known) (string, bool) { return processor, processor != "" }
}

func fact(owner event.Participant, f event.Fact) decision.Delivered {
	return decision.Delivered{Envelope: event.Envelope{Order: order, Owner: owner, Fact: f}}
}

func placed(total int64) event.OrderPlaced {
	return event.OrderPlaced{Customer: "ada", Currency: "GBP", Total: total, Shipping: event.Domestic, Deadline: time.Unix(1, 0),
		Lines: []event.Line{{SKU: "A", Quantity: 2, UnitPrice: "1.25"}, {SKU: "GIFT", Quantity: 1, UnitPrice: "0"}}}
}

// play decides the inputs one after the other and returns what was said and called.
func play(t *testing.T, r payment.Rules, s *payment.State, inputs ...decision.Input) (facts []event.Fact, calls []decision.Intent) {
	t.Helper()
	for _, in := range inputs {
		d := r.Decide(order, *s, in)
		*s = d.State
		for _, e := range d.Facts {
			facts = append(facts, e.Fact)
		}
		calls = append(calls, d.Intents...)
	}
	return facts, calls
}

func ready(total int64) []decision.Input {
	return []decision.Input{
		fact(event.Orders, placed(total)), fact(event.Fraud, event.OrderScreened{Score: 10, Verdict: event.Clear}),
		fact(event.Shipping, event.ShipmentScheduled{Shipment: "s", Carrier: "carrier-domestic"}),
	}
}

// TestNoRouteIsADecline: a configuration without a route for an order is an error that people see, never a skip (D7).
func TestNoRouteIsADecline(t *testing.T) {
	t.Parallel()
	var s payment.State
	facts, calls := play(t, payment.Rules{Route: to("")}, &s, ready(250)...)
	if len(calls) != 0 || len(facts) != 1 || facts[0] != (event.PaymentDeclined{Reason: outside.NoRoute}) {
		t.Errorf("%v, %v", facts, calls)
	}
}

// TestUndoGoesWhereTheChargeWent: the routes changed between the two (A65).
func TestUndoGoesWhereTheChargeWent(t *testing.T) {
	t.Parallel()
	var s payment.State
	_, calls := play(t, payment.Rules{Route: to("pay-a")}, &s, ready(250)...)
	if len(calls) != 1 || calls[0].Provider != "pay-a" {
		t.Fatalf("%v", calls)
	}
	for _, route := range []outside.Route{to("pay-b"), to("")} {
		later := s
		_, calls = play(t, payment.Rules{Route: route}, &later,
			decision.Answered{Step: event.PaymentStep, Op: decision.Do, Outcome: decision.Outcome{Kind: decision.Succeeded, Reference: "p"}},
			fact(event.Orders, event.OrderCancellationRequested{Reason: event.ByCustomer}))
		if len(calls) != 1 || calls[0].Op != decision.Undo || calls[0].Provider != "pay-a" {
			t.Errorf("%v", calls)
		}
	}
}

// TestPRV12NothingToPay: a zero total skips the charge and its undo, whatever the routes say; a free line among others is charged as 0.
func TestPRV12NothingToPay(t *testing.T) {
	t.Parallel()
	var s payment.State
	r := payment.Rules{Route: to("")}
	facts, calls := play(t, r, &s, append(ready(0), fact(event.Orders, event.OrderCancellationRequested{Reason: event.ByCustomer}))...)
	if len(calls) != 0 || len(facts) != 2 || facts[0] != (event.PaymentTaken{Currency: "GBP"}) || facts[1] != (event.PaymentRefunded{Currency: "GBP", Reason: "CUSTOMER"}) {
		t.Errorf("%v, %v", facts, calls)
	}
	s = payment.State{}
	_, calls = play(t, payment.Rules{Route: to("pay")}, &s, ready(250)...)
	charge, _ := calls[0].Body.(outside.Charge)
	if charge.Amount != 250 || len(charge.Lines) != 2 || charge.Lines[0].Amount != 250 || charge.Lines[1].Amount != 0 {
		t.Errorf("%+v", charge)
	}
}

// TestRoutesKnowWhatTheyMay: the request, the earlier facts and the earlier answers are what the configuration was told.
func TestRoutesKnowWhatTheyMay(t *testing.T) {
	t.Parallel()
	var s payment.State
	var known outside.Known
	play(t, payment.Rules{Route: func(k outside.Known) (string, bool) { known = k; return "pay", true }}, &s, ready(250)...)
	for _, shape := range outside.Shapes() {
		if shape.Step != event.PaymentStep {
			continue
		}
		for name := range shape.Facts {
			if known.Facts[name] == nil {
				t.Errorf("the route does not know %s", name)
			}
		}
	}
	if known.Facts["OrderScreened"] != (outside.Screened{Score: 10, Verdict: event.Clear}) || known.Facts["ShipmentScheduled"] != (outside.Scheduled{Carrier: "carrier-domestic"}) ||
		known.Facts["OrderPlaced"] != (outside.Placed{Customer: "ada", Currency: "GBP", Total: 250, Shipping: event.Domestic}) {
		t.Errorf("%+v", known.Facts)
	}
}
