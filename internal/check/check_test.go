package check_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/check"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

func TestSoundOrders(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]check.Order{"confirmed": confirmed(), "cancelled": cancelled(), "under way": under()} {
		t.Run(name, func(t *testing.T) { clean(t, o.Judge(now, rules)) })
	}
}

// Each way in which an order can be wrong is found, under its own name (G8).
func TestBrokenOrders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		order check.Order
		spoil func(o *check.Order)
		check check.Name
		what  string
	}{
		{"late", under(), func(o *check.Order) { o.Orders.Deadline = now.Add(-5 * time.Minute) },
			check.Ends, "it is PLACED, 5m0s past its deadline; the stock is inventory's to do"},
		{"late without topics", under(), func(o *check.Order) {
			o.Orders.Deadline, o.Facts, o.Topics = now.Add(-5*time.Minute), nil, check.Unread
			o.Inventory.Effect.Phase = decision.Done
		}, check.Ends, "the shipment is shipping's to do"},
		{"stays on its way back", cancelled(), func(o *check.Order) {
			*o.Orders = order.State{Status: order.Cancelling, BackBy: now.Add(-2 * time.Minute), Payment: order.Part{Closed: true}}
			o.Facts, o.Topics = nil, check.Unread
		}, check.Ends, "the shipment is shipping's to do"},

		{"confirmed and nothing on the shelf", confirmed(), func(o *check.Order) { o.Inventory.Held = false }, check.Fulfilled, "own counts hold nothing"},
		{"confirmed and inventory does not know it", confirmed(), func(o *check.Order) { o.Inventory = nil }, check.Fulfilled, "the stock is not begun"},
		{"confirmed and not reserved", confirmed(), func(o *check.Order) { o.Ledger[0] = check.Entry{Provider: "warehouse", Undone: 1} }, check.Fulfilled, "0 reservations"},
		{"confirmed and not booked", confirmed(), func(o *check.Order) { o.Ledger[2].Provider = "warehouse-of-another" }, check.Fulfilled, "0 shipments"},
		{"confirmed and shipment undone", confirmed(), func(o *check.Order) { o.Shipping.Effect.Phase = decision.Undoing }, check.Fulfilled, "for shipping the shipment is UNDOING"},
		{"with the wrong carrier", confirmed(), func(o *check.Order) { o.Ledger[2].Provider = shipment.Carrier(event.International) }, check.Fulfilled, "booked with carrier-international"},
		{"other units", confirmed(), func(o *check.Order) { o.Ledger[2].Units = 2 }, check.Fulfilled, "3 units are ordered, 3 reserved, 2 booked"},
		{"confirmed and not paid", confirmed(), func(o *check.Order) { o.Ledger = o.Ledger[:3] }, check.Fulfilled, "0 charges stand"},
		{"confirmed and refunded", confirmed(), func(o *check.Order) {
			o.Ledger[3] = check.Entry{Provider: "pay-standard", Currency: "GBP", Undone: 1, Charged: total}
		}, check.Fulfilled, "the total is 7.50 GBP and the net charge 0.00 GBP"},
		{"in another currency", confirmed(), func(o *check.Order) { o.Ledger[3].Currency = "EUR" }, check.Fulfilled, "net charge 7.50 EUR"},
		{"of unknown total", confirmed(), func(o *check.Order) { o.Billing, o.Facts, o.Topics = nil, nil, check.Unread }, check.Fulfilled, "total is not known"},

		{"cancelled and still on the shelf", cancelled(), func(o *check.Order) { o.Inventory.Held = true }, check.Undone, "own counts still hold"},
		{"cancelled and reserved", cancelled(), func(o *check.Order) { o.Ledger[0] = check.Entry{Provider: "warehouse", Active: 1, ActiveKeys: 1} }, check.Undone, "warehouse still has 1 standing"},
		{"cancelled and booked", cancelled(), func(o *check.Order) {
			o.Ledger[2] = check.Entry{Provider: "carrier-domestic", Active: 1, ActiveKeys: 1}
		}, check.Undone, "carrier-domestic still has 1 standing"},
		{"cancelled and charged", cancelled(), func(o *check.Order) { o.Ledger[3].Net = total }, check.Undone, "net charge is 7.50 GBP"},
		{"cancelled and the payment goes on", cancelled(), func(o *check.Order) { o.Billing.Effect.Phase, o.Topics = decision.Doing, check.Unread }, check.Undone, "the payment is DOING"},
		{"rejected and reserved", cancelled(), func(o *check.Order) {
			o.Orders.Status, o.Topics = order.Rejected, check.Unread
			o.Ledger[0] = check.Entry{Provider: "warehouse", Active: 1, ActiveKeys: 1}
		}, check.Undone, "it is REJECTED and warehouse still has"},

		{"charged twice, refunded once", confirmed(), func(o *check.Order) { o.Ledger[3].Undone, o.Ledger[3].Charged = 1, 2*total }, check.Once, "the payment was done 2 times"},
		{"charged by both processors", cancelled(), func(o *check.Order) {
			o.Ledger = append(o.Ledger, check.Entry{Provider: "pay-highvalue", Currency: "GBP", Undone: 1})
		}, check.Once, "the payment was done 2 times"},
		{"reserved twice", cancelled(), func(o *check.Order) { o.Ledger[0].Undone = 2 }, check.Once, "the stock was done 2 times"},
		{"booked with both carriers", cancelled(), func(o *check.Order) {
			o.Ledger = append(o.Ledger, check.Entry{Provider: "carrier-international", Undone: 1})
		}, check.Once, "the shipment was done 2 times"},
		{"twice under one key", under(), func(o *check.Order) {
			o.Ledger = []check.Entry{{Provider: "warehouse", Active: 1, ActiveKeys: 0}}
		}, check.Once, "stands 1 times under 0 keys"},
		{"another amount", cancelled(), func(o *check.Order) { o.Ledger[3].Charged = total + 1 }, check.Once, "7.51 GBP was charged in all; the total is 7.50 GBP"},

		{"of whom orders knows nothing", confirmed(), func(o *check.Order) { o.Orders = nil }, check.Strangers, "the providers' ledger knows it and orders does not"},
		{"of whom only a topic speaks", check.Order{No: no}, func(o *check.Order) { o.Facts = confirmed().Facts }, check.Strangers, "a topic knows it"},

		{"never published", confirmed(), func(o *check.Order) { o.Facts = nil }, check.Published, "OrderPlaced is not in the topics"},
		{"confirmed in silence", confirmed(), func(o *check.Order) { o.Facts = feed(confirmedStory()[:5]...).Of(no) }, check.Published, "OrderConfirmed is not in the topics"},
		{"closed in silence", cancelled(), func(o *check.Order) {
			s := cancelledStory()
			s[9].fact = event.StockReserved{Reservation: "R"} // a repetition, not an answer
			s[9].cause = "OrderPlaced"
			s = append(s[:10:10], told{"PaymentRefunded", event.Orders, event.OrderCancelled{Reason: event.ByCustomer}})
			o.Facts = feed(append(s[:1:1], s[2:]...)...).Of(no)
		}, check.Published, "for inventory the stock is CLOSED and StockRejected or StockReleased is not in the topics"},
		{"confirmed and ended", confirmed(), func(o *check.Order) { o.Facts = feed(cancelledStory()...).Of(no) }, check.Published, "1 negative endings"},
		{"billing has another total", confirmed(), func(o *check.Order) { o.Billing.Total = 1 }, check.Published, "placed for 7.50 GBP and billing knows 0.01 GBP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tt.order
			tt.spoil(&o)
			wants(t, o.Judge(now, rules), tt.check, tt.what)
		})
	}
}

// An order that a person must look at is listed; its effects are whatever they are until then.
func TestNeedsAttentionIsNoViolation(t *testing.T) {
	t.Parallel()
	o := under()
	o.Orders = &order.State{Status: order.Compensating, Cause: order.Failed, Payment: order.Part{Stuck: "look-up: 503"}, BackBy: at(0)}
	o.Facts, o.Topics = nil, check.Unread
	clean(t, o.Judge(now, rules))
	if !o.Attention() || o.Settled() {
		t.Errorf("attention %v, settled %v", o.Attention(), o.Settled())
	}
}

// A gift is confirmed without a charge, and a charge for it is wrong.
func TestGift(t *testing.T) {
	t.Parallel()
	s := confirmedStory()
	gift := placed()
	gift.Total = 0
	s[0].fact = gift
	o := confirmed()
	o.Facts, o.Billing.Total = feed(s...).Of(no), 0
	charge := o.Ledger[3]
	o.Ledger = o.Ledger[:3]
	clean(t, o.Judge(now, rules))
	charge.Charged, charge.Net = 0, 0
	o.Ledger = append(o.Ledger, charge)
	wants(t, o.Judge(now, rules), check.Fulfilled, "1 charges stand")
}

func TestMoney(t *testing.T) {
	t.Parallel()
	sums := check.NewSums()
	for _, o := range []check.Order{confirmed(), cancelled(), under()} {
		sums.Add(o)
	}
	right := check.Account{Provider: "pay-standard", Currency: "GBP", Funded: 1000, Balance: 250, Net: 750}
	figures, found := sums.Money([]check.Account{right})
	clean(t, found)
	want := []check.Figure{{Name: "orders at rest", Value: 2},
		{Name: "totals of confirmed orders", Value: 750, Currency: "GBP"}, {Name: "money taken and kept", Value: 750, Currency: "GBP"}}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	right.Balance--
	_, found = sums.Money([]check.Account{right})
	wants(t, found, check.Money, "customers have spent 7.51 GBP and the charges come to 7.50 GBP")

	kept := cancelled()
	kept.Ledger[3].Net = total
	sums.Add(kept)
	_, found = sums.Money(nil)
	wants(t, found, check.Money, "cost 7.50 GBP and 15.00 GBP is kept")
}

func TestShelf(t *testing.T) {
	t.Parallel()
	holds := map[string]int64{}
	for _, o := range []check.Order{confirmed(), cancelled()} {
		o.Holds(holds)
	}
	count := func(onHand, held int64) map[string]check.Count {
		return map[string]check.Count{"A@2.5": {OnHand: onHand, Held: held}, "B": {OnHand: 5}}
	}
	clean(t, shelf(count(3, 3), holds))
	wants(t, shelf(count(9, 4), holds), check.Stock, "A@2.5: 4 are held and its orders hold 3")
	wants(t, shelf(count(2, 3), holds), check.Stock, "2 are on hand and 3 held")
	wants(t, shelf(count(-1, 0), nil), check.Stock, "-1 are on hand")
	wants(t, shelf(map[string]check.Count{}, holds), check.Stock, "0 are held and its orders hold 3")
}

func shelf(counts map[string]check.Count, holds map[string]int64) []check.Violation {
	var found []check.Violation
	for _, m := range check.Shelf(counts, holds) {
		found = append(found, m.Violation)
	}
	return found
}
