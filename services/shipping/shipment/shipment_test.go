package shipment_test

import (
	"testing"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/services/shipping/shipment"
)

func to(carrier string) outside.Route {
	return func(outside.Known) (string, bool) { return carrier, carrier != "" }
}

func decide(r shipment.Rules, s *shipment.State, in decision.Input) decision.Decision[shipment.State] {
	d := r.Decide(8842, *s, in)
	*s = d.State
	return d
}

func fact(owner event.Participant, f event.Fact) decision.Delivered {
	return decision.Delivered{Envelope: event.Envelope{Order: 8842, Owner: owner, Fact: f}}
}

// TestNoRouteIsARejection: an order that no carrier is configured for is refused in the open (D7).
func TestNoRouteIsARejection(t *testing.T) {
	t.Parallel()
	var s shipment.State
	decide(shipment.Rules{Route: to("")}, &s, fact(event.Orders, event.OrderPlaced{Shipping: "drone"}))
	d := decide(shipment.Rules{Route: to("")}, &s, fact(event.Inventory, event.StockReserved{}))
	if len(d.Intents) != 0 || len(d.Facts) != 1 || d.Facts[0].Fact != (event.ShipmentRejected{Reason: outside.NoRoute}) {
		t.Errorf("%+v", d)
	}
}

// TestUndoGoesWhereTheBookingWent: the routes changed between the two.
func TestUndoGoesWhereTheBookingWent(t *testing.T) {
	t.Parallel()
	var s shipment.State
	decide(shipment.Rules{Route: to("a")}, &s, fact(event.Orders, event.OrderPlaced{}))
	decide(shipment.Rules{Route: to("a")}, &s, fact(event.Inventory, event.StockReserved{}))
	changed := shipment.Rules{Route: to("b")}
	d := decide(changed, &s, decision.Answered{Step: event.ShipmentStep, Op: decision.Do, Outcome: decision.Outcome{Kind: decision.Succeeded, Reference: "r"}})
	if d.Facts[0].Fact != (event.ShipmentScheduled{Shipment: "r", Carrier: "a"}) {
		t.Errorf("%+v", d.Facts)
	}
	d = decide(changed, &s, fact(event.Billing, event.PaymentDeclined{Reason: "x"}))
	if len(d.Intents) != 1 || d.Intents[0].Provider != "a" {
		t.Errorf("%+v", d.Intents)
	}
}
