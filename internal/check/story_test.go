package check_test

import (
	"slices"
	"testing"

	"chorus/internal/check"
	"chorus/internal/event"
)

// What the topics say is judged for an order that is under way, so that nothing but the story can be wrong.
func TestBrokenStories(t *testing.T) {
	t.Parallel()
	all := cancelledStory()
	without := func(kind event.Type) []told {
		return slices.DeleteFunc(slices.Clone(all), func(s told) bool { return s.fact.Type() == kind })
	}
	with := func(more ...told) []told { return append(slices.Clone(all), more...) }
	caused := func(kind, cause event.Type) []told {
		s := slices.Clone(all)
		for i := range s {
			if s[i].fact.Type() == kind {
				s[i].cause = cause
			}
		}
		return s
	}
	second := func(n int, change func(r *check.Record)) func(f *check.Feed) {
		return func(f *check.Feed) {
			r := record(n, all[n])
			change(&r)
			f.Add(r)
		}
	}
	tests := []struct {
		name  string
		story []told
		then  func(f *check.Feed)
		what  string
	}{
		{"the same type under two ids", all, second(4, func(r *check.Record) { r.ID = id(event.Billing, "PaymentTaken", 1) }), "billing stated PaymentTaken twice"},
		{"one id, two contents", all, second(4, func(r *check.Record) { r.Value = []byte("other") }), "one id stands for two contents"},
		{"one id, two types", all, second(4, func(r *check.Record) { r.ID = id(event.Fraud, "OrderScreened", 0) }), "one id stands for two contents"},
		{"in the wrong topic", all, second(4, func(r *check.Record) { r.ID, r.Topic = id(event.Billing, "X", 0), "orders.events" }), "PaymentTaken of billing stands in orders.events"},
		{"in two partitions", all, second(4, func(r *check.Record) { r.Partition = 2 }), "stand in two partitions of one topic"},
		{"an undo answered twice", with(told{"OrderCancellationRequested", event.Billing, event.PaymentVoided{}}), nil, "billing stated PaymentVoided after PaymentRefunded"},
		{"two endings", with(told{"StockReleased", event.Orders, event.OrderFailed{}}), nil, "orders stated OrderFailed after OrderCancelled"},
		{"forward after stuck", append([]told{
			all[0], all[1], all[2], all[3], {"ShipmentScheduled", event.Billing, event.UndoStuck{Step: event.PaymentStep}}}, all[4:]...), nil,
			"billing went on with PaymentTaken after it was stuck"},
		{"shipped and taken back", with(told{"", event.Orders, event.OrderShipped{}}), nil, "it was shipped and taken back"},
		{"charged before it was booked", without("ShipmentScheduled"), nil, "billing stated PaymentTaken without ShipmentScheduled"},
		{"charged before it was screened", without("OrderScreened"), nil, "billing stated PaymentTaken without OrderScreened"},
		{"confirmed without money", without("PaymentTaken"), nil, "orders stated OrderConfirmed without PaymentTaken"},
		// G9: last to first.
		{"shipment undone before the payment", without("PaymentRefunded"), nil, "shipping stated ShipmentCancelled without UndoStuck:payment or PaymentDeclined"},
		{"stock undone before the shipment", without("ShipmentCancelled"), nil, "inventory stated StockReleased without ShipmentCancelled"},
		{"no cause", caused("StockReserved", ""), nil, "which is no fact of the order"},
		{"a cause that its owner does not hear", caused("StockReleased", "OrderScreened"), nil, "caused by OrderScreened, to which inventory does not listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := feed(tt.story...)
			if tt.then != nil {
				tt.then(f)
			}
			o := under()
			o.Facts = f.Of(no)
			wants(t, o.Judge(now, rules), check.Story, tt.what)
		})
	}
}

// At-least-once delivery repeats records; that is counted and nothing else (G2).
func TestRepeatedRecords(t *testing.T) {
	t.Parallel()
	f := feed(append(cancelledStory(), cancelledStory()...)...)
	o := cancelled()
	o.Facts = f.Of(no)
	clean(t, o.Judge(now, rules))
	if f.Duplicates != 11 || f.Records != 22 {
		t.Errorf("%d of %d records are duplicates; want 11 of 22", f.Duplicates, f.Records)
	}
}

func TestIDOfAnotherOrder(t *testing.T) {
	t.Parallel()
	f := feed(confirmedStory()...)
	r := record(0, confirmedStory()[0])
	r.Order = 9
	f.Add(r)
	o := check.Order{No: 9, Orders: under().Orders, Facts: f.Of(9), Topics: check.Truncated}
	wants(t, o.Judge(now, rules), check.Story, "OrderPlaced has the id of a fact of order 8842")
}

// A person's resolution is caused by a request, and an UndoStuck may be repeated.
func TestResolvedStoryIsSound(t *testing.T) {
	t.Parallel()
	s := confirmedStory()[:4]
	f := feed(append(s,
		told{"ShipmentScheduled", event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "look-up: 503"}},
		told{"", event.Billing, event.PaymentDeclined{Reason: "the bank says no"}},
		told{"UndoStuck", event.Shipping, event.ShipmentCancelled{Shipment: "S"}},
		told{"ShipmentCancelled", event.Inventory, event.StockReleased{Reservation: "R"}},
	)...)
	again := record(9, told{"ShipmentScheduled", event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "look-up: 500"}})
	again.ID = id(event.Billing, "UndoStuck", 1)
	f.Add(again)
	o := under()
	o.Facts = f.Of(no)
	clean(t, o.Judge(now, rules))
}

// Where retention has taken the beginning, nothing is said to be missing.
func TestTruncatedTopics(t *testing.T) {
	t.Parallel()
	o := confirmed()
	o.Facts, o.Topics = feed(confirmedStory()[3:]...).Of(no), check.Truncated
	clean(t, o.Judge(now, rules))
}
