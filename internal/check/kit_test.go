package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chorus/internal/check"
	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/billing/payment"
	"chorus/services/fraud/screening"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

var (
	now   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	rules = check.Rules{Grace: time.Minute, Waits: choreography.DefaultDurations()}
	lines = []event.Line{{SKU: "A@2.5", Quantity: 2, UnitPrice: "2.5"}, {SKU: "A@2.5", Quantity: 1, UnitPrice: "2.5"}}
)

const (
	no    = event.OrderNo(8842)
	total = 750
)

func at(seconds int) time.Time { return now.Add(time.Duration(seconds-600) * time.Second) }

func id(owner event.Participant, kind event.Type, generation int) event.ID {
	return event.Derive(at(0), owner, no, string(kind), generation)
}

var request = event.Derive(at(0), event.Orders, no, "request", 0)

// told is a fact with the type of what caused it; "" for a request.
type told struct {
	cause event.Type
	owner event.Participant
	fact  event.Fact
}

// ownerOf finds who states a type. UndoStuck is billing's here.
func ownerOf(kind event.Type) event.Participant {
	for _, r := range choreography.Table() {
		if slices.Contains(r.States, kind) && (kind != "UndoStuck" || r.Who == event.Billing) {
			return r.Who
		}
	}
	return ""
}

func record(n int, s told) check.Record {
	cause := request
	if s.cause != "" {
		cause = id(ownerOf(s.cause), s.cause, 0)
	}
	return check.Record{
		Topic: s.owner.Topic(), Partition: 1, Offset: int64(n), Value: []byte(fmt.Sprintf("%#v", s.fact)),
		Envelope: event.Envelope{
			ID: id(s.owner, s.fact.Type(), 0), Order: no, Owner: s.owner, OccurredAt: at(n), CausationID: cause, Hop: n, Fact: s.fact,
		},
	}
}

func feed(stories ...told) *check.Feed {
	f := check.NewFeed()
	for n, s := range stories {
		f.Add(record(n, s))
	}
	return f
}

func placed() event.OrderPlaced {
	return event.OrderPlaced{Customer: "ada", Currency: "GBP", Lines: lines, Total: total, Shipping: event.Domestic, Deadline: at(900)}
}

func confirmedStory() []told {
	return []told{
		{"", event.Orders, placed()},
		{"OrderPlaced", event.Inventory, event.StockReserved{Reservation: "R"}},
		{"OrderPlaced", event.Fraud, event.OrderScreened{Verdict: event.Clear}},
		{"StockReserved", event.Shipping, event.ShipmentScheduled{Shipment: "S", Carrier: "carrier-domestic"}},
		{"ShipmentScheduled", event.Billing, event.PaymentTaken{Payment: "P", Amount: total, Currency: "GBP"}},
		{"PaymentTaken", event.Orders, event.OrderConfirmed{}},
	}
}

func cancelledStory() []told {
	return append(confirmedStory(),
		told{"", event.Orders, event.OrderCancellationRequested{Reason: event.ByCustomer}},
		told{"OrderCancellationRequested", event.Billing, event.PaymentRefunded{Payment: "P", Amount: total, Currency: "GBP"}},
		told{"PaymentRefunded", event.Shipping, event.ShipmentCancelled{Shipment: "S"}},
		told{"ShipmentCancelled", event.Inventory, event.StockReleased{Reservation: "R"}},
		told{"StockReleased", event.Orders, event.OrderCancelled{Reason: event.ByCustomer}},
	)
}

// confirmed is an order with which everything is right.
func confirmed() check.Order {
	done := func(ref string) decision.Effect { return decision.Effect{Phase: decision.Done, Reference: ref} }
	return check.Order{
		No:        no,
		Orders:    &order.State{Status: order.Confirmed, Deadline: at(900)},
		Inventory: &stock.State{Effect: done("R"), Lines: lines, Held: true},
		Fraud:     &screening.State{Phase: screening.Screened, Verdict: event.Clear},
		Shipping:  &shipment.State{Effect: done("S"), Placed: true, Reserved: true, Units: 3, Shipping: event.Domestic},
		Billing:   &payment.State{Effect: done("P"), Placed: true, Scheduled: true, Currency: "GBP", Total: total},
		Ledger: []check.Entry{
			{Provider: stock.Warehouse, Active: 1, ActiveKeys: 1, Units: 3},
			{Provider: screening.Bureau, Active: 1, ActiveKeys: 1},
			{Provider: "carrier-domestic", Active: 1, ActiveKeys: 1, Units: 3},
			{Provider: payment.Standard, Currency: "GBP", Active: 1, ActiveKeys: 1, Charged: total, Net: total},
		},
		Facts: feed(confirmedStory()...).Of(no), Topics: check.Whole,
	}
}

// cancelled is an order that was confirmed and taken back.
func cancelled() check.Order {
	closed := decision.Effect{Phase: decision.Closed}
	o := confirmed()
	o.Orders = &order.State{
		Status: order.Cancelled, Cause: order.Cancelled,
		Payment: order.Part{Closed: true}, Shipment: order.Part{Closed: true}, Stock: order.Part{Closed: true},
	}
	o.Inventory = &stock.State{Effect: closed, Lines: lines}
	o.Shipping.Effect, o.Billing.Effect = closed, closed
	o.Ledger = []check.Entry{
		{Provider: stock.Warehouse, Undone: 1},
		{Provider: screening.Bureau, Active: 1, ActiveKeys: 1}, // a score is not held
		{Provider: "carrier-domestic", Undone: 1},
		{Provider: payment.Standard, Currency: "GBP", Undone: 1, Charged: total},
	}
	o.Facts = feed(cancelledStory()...).Of(no)
	return o
}

// under is an order that was placed and is on its way.
func under() check.Order {
	return check.Order{
		No: no, Orders: &order.State{Status: order.Placed, Deadline: now.Add(time.Minute)},
		Inventory: &stock.State{Effect: decision.Effect{Phase: decision.Doing}, Lines: lines, Held: true},
		Facts:     feed(confirmedStory()[:1]...).Of(no), Topics: check.Whole,
	}
}

// wants fails unless the violations are all of one check and one of them says what is wanted.
func wants(t *testing.T, found []check.Violation, name check.Name, what string) {
	t.Helper()
	if len(found) == 0 {
		t.Fatalf("nothing is found; want %s: %s", name, what)
	}
	if !slices.ContainsFunc(found, func(v check.Violation) bool { return v.Check == name && strings.Contains(v.What, what) }) {
		t.Errorf("want %s: %s; got %v", name, what, found)
	}
	for _, v := range found {
		if v.Check != name {
			t.Errorf("want %s only; got %s: %s", name, v.Check, v)
		}
	}
}

func clean(t *testing.T, found []check.Violation) {
	t.Helper()
	for _, v := range found {
		t.Errorf("a sound order: %s: %s", v.Check, v)
	}
}
