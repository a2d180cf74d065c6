package check

import (
	"time"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/billing/payment"
	"chorus/services/fraud/screening"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// Order is one order as everybody knows it. A nil state says that the service does not know it.
type Order struct {
	No        event.OrderNo
	Orders    *order.State
	Inventory *stock.State
	Fraud     *screening.State
	Shipping  *shipment.State
	Billing   *payment.State
	Ledger    []Entry
	Facts     *Facts // what the topics hold; nil when there is none
	Told      Times  // what its customer was told; nil when notifications was not asked
	Topics    Topics
}

// Topics says how much of the topics was read.
type Topics int

const (
	Unread    Topics = iota // facts are not judged
	Truncated               // retention has taken the beginning: what is missing may be gone
	Whole
)

// Times is how often a customer was told each fact.
type Times map[event.Type]int64

// Entry is what one provider did for the order, in one currency. Sums are minor units.
type Entry struct {
	Provider   string
	Currency   string
	Active     int64 // effects that stand
	ActiveKeys int64 // distinct keys among them
	Undone     int64
	Units      int64 // in effects that stand
	Charged    int64 // refunded charges included
	Net        int64
}

// Rules are the times by which an order is judged.
type Rules struct {
	Grace time.Duration          // how late an order may be before that is a violation
	Waits choreography.Durations // who is to be named
}

// Settled reports whether nothing moves the order any more by itself, so that sums may count it.
func (o Order) Settled() bool {
	return o.Orders != nil && !o.Orders.NeedsAttention() && (o.positive() || o.negative())
}

// Attention reports whether a person is needed: the order is listed, and its effects are not judged.
func (o Order) Attention() bool { return o.Orders != nil && o.Orders.NeedsAttention() }

func (o Order) positive() bool {
	switch o.Orders.Status {
	case order.Confirmed, order.Shipped, order.Delivered:
		return true
	}
	return false
}

func (o Order) negative() bool { return o.Orders.Status.Ended() && !o.positive() }

// Total is what the order costs, in minor units, as it was placed.
func (o Order) Total() (amount int64, currency string, known bool) {
	switch {
	case o.Facts != nil && o.Facts.Placed:
		return o.Facts.Total, o.Facts.Currency, true
	case o.Billing != nil && o.Billing.Placed:
		return o.Billing.Total, o.Billing.Currency, true
	}
	return 0, "", false
}

// effect is a step of the order as its owner sees it.
type effect struct {
	step  event.Step
	state decision.Effect
}

// effects lists the steps that can be undone, the first one done first.
func (o Order) effects() []effect {
	all := []effect{{step: event.StockStep}, {step: event.ShipmentStep}, {step: event.PaymentStep}}
	if o.Inventory != nil {
		all[0].state = o.Inventory.Effect
	}
	if o.Shipping != nil {
		all[1].state = o.Shipping.Effect
	}
	if o.Billing != nil {
		all[2].state = o.Billing.Effect
	}
	return all
}

// stepOf tells which step a provider's effects belong to; empty for one that only answers questions.
func stepOf(provider string) event.Step {
	switch provider {
	case stock.Warehouse:
		return event.StockStep
	case shipment.Carrier(event.Domestic), shipment.Carrier(event.International):
		return event.ShipmentStep
	case payment.Standard, payment.HighValue:
		return event.PaymentStep
	}
	return ""
}

// done sums up the ledger for a step.
func (o Order) done(step event.Step) Entry {
	var sum Entry
	for _, e := range o.Ledger {
		if stepOf(e.Provider) != step {
			continue
		}
		if e.Active > 0 {
			sum.Provider, sum.Currency = e.Provider, e.Currency
		}
		sum.Active += e.Active
		sum.ActiveKeys += e.ActiveKeys
		sum.Undone += e.Undone
		sum.Units += e.Units
		sum.Charged += e.Charged
		sum.Net += e.Net
	}
	return sum
}

// units are the goods that the order asks for.
func units(lines []event.Line) int64 {
	var n int64
	for _, l := range lines {
		n += l.Quantity
	}
	return n
}
