package check

import (
	"cmp"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/money"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// Judge returns everything that is wrong with one order. An order that still moves may differ from its ledgers until its
// deadline; one that needs a person may differ until it is resolved.
func (o Order) Judge(now time.Time, r Rules) []Violation {
	f := &findings{order: o.No}
	if o.Orders == nil || o.Orders.Status == order.Unplaced {
		o.stranger(f)
		return f.found
	}
	o.once(f)
	o.story(f)
	o.published(f)
	o.told(f, now, r)
	switch {
	case o.Attention():
	case o.positive():
		o.fulfilled(f)
	case o.negative():
		o.undone(f)
	default:
		o.moving(f, now, r)
	}
	return f.found
}

func (o Order) stranger(f *findings) {
	for who, known := range map[string]bool{
		"inventory": o.Inventory != nil, "fraud": o.Fraud != nil, "shipping": o.Shipping != nil,
		"billing": o.Billing != nil, "the providers' ledger": len(o.Ledger) > 0, "a topic": o.Facts != nil,
	} {
		if known {
			f.add(Strangers, "%s knows it and orders does not", who)
		}
	}
}

// once: whatever was retried, redelivered or refunded, a step had its effect one time at most.
func (o Order) once(f *findings) {
	for _, step := range []event.Step{event.StockStep, event.ShipmentStep, event.PaymentStep} {
		did := o.done(step)
		if times := did.Active + did.Undone; times > 1 {
			f.add(Once, "the %s was done %d times", step, times)
		}
		if did.Active != did.ActiveKeys {
			f.add(Once, "the %s stands %d times under %d keys", step, did.Active, did.ActiveKeys)
		}
	}
	paid := o.done(event.PaymentStep)
	if total, currency, known := o.Total(); known && paid.Charged != 0 && paid.Charged != total {
		f.add(Once, "%s was charged in all; the total is %s", money.Text(paid.Charged, cmp.Or(paid.Currency, currency)), money.Text(total, currency))
	}
}

func (o Order) fulfilled(f *findings) {
	status := o.Orders.Status
	for _, e := range o.effects() {
		if e.state.Phase != decision.Done {
			f.add(Fulfilled, "it is %s and for %s the %s is %s", status, e.step.Owner(), e.step, phase(e.state))
		}
	}
	if o.Inventory != nil && !o.Inventory.Held {
		f.add(Fulfilled, "it is %s and inventory's own counts hold nothing for it", status)
	}
	held, booked, paid := o.done(event.StockStep), o.done(event.ShipmentStep), o.done(event.PaymentStep)
	if held.Active != 1 {
		f.add(Fulfilled, "it is %s and the warehouse has %d reservations for it", status, held.Active)
	}
	if booked.Active != 1 {
		f.add(Fulfilled, "it is %s and the carriers have %d shipments for it", status, booked.Active)
	}
	if o.Shipping != nil && booked.Active == 1 && booked.Provider != shipment.Carrier(o.Shipping.Shipping) {
		f.add(Fulfilled, "it is shipped %s and booked with %s", o.Shipping.Shipping, booked.Provider)
	}
	if o.Inventory != nil {
		if n := units(o.Inventory.Lines); held.Active == 1 && held.Units != n || booked.Active == 1 && booked.Units != n {
			f.add(Fulfilled, "%d units are ordered, %d reserved, %d booked", n, held.Units, booked.Units)
		}
	}
	total, currency, known := o.Total()
	if !known {
		f.add(Fulfilled, "it is %s and its total is not known", status)
		return
	}
	want := int64(1)
	if total == 0 {
		want = 0 // a gift is not charged
	}
	if paid.Active != want {
		f.add(Fulfilled, "it is %s and %d charges stand for it", status, paid.Active)
	}
	if paid.Net != total || paid.Active > 0 && paid.Currency != currency {
		f.add(Fulfilled, "the total is %s and the net charge %s", money.Text(total, currency), money.Text(paid.Net, cmp.Or(paid.Currency, currency)))
	}
}

func (o Order) undone(f *findings) {
	status := o.Orders.Status
	for _, e := range o.effects() {
		if e.state.Phase != decision.Open && e.state.Phase != decision.Closed {
			f.add(Undone, "it is %s and for %s the %s is %s", status, e.step.Owner(), e.step, phase(e.state))
		}
		did := o.done(e.step)
		if did.Active > 0 {
			f.add(Undone, "it is %s and %s still has %d standing for the %s", status, did.Provider, did.Active, e.step)
		}
		if did.Net != 0 {
			_, currency, _ := o.Total()
			f.add(Undone, "it is %s and the net charge is %s", status, money.Text(did.Net, cmp.Or(did.Currency, currency)))
		}
	}
	if o.Inventory != nil && o.Inventory.Held {
		f.add(Undone, "it is %s and inventory's own counts still hold its goods", status)
	}
}

// moving: an order under way may be anything, until its time is over. Then somebody's step was missed.
func (o Order) moving(f *findings, now time.Time, r Rules) {
	due := o.Orders.Due()
	if !now.After(due.Add(r.Grace)) {
		return
	}
	late := now.Sub(due).Round(time.Second)
	step, owner := o.waitsFor(r.Waits)
	f.add(Ends, "it is %s, %s past its deadline; the %s is %s's to do", o.Orders.Status, late, step, owner)
}

// waitsFor names the step that is missing, and whose it is.
func (o Order) waitsFor(d choreography.Durations) (what string, owner event.Participant) {
	if o.Facts != nil {
		if waits := choreography.Waits(o.Facts.known(), d); len(waits) > 0 {
			if waits[0].Step == "" {
				return "next fact", waits[0].Owner
			}
			return string(waits[0].Step), waits[0].Owner
		}
	}
	if o.Orders.Status.Undoing() {
		step := o.Orders.OpenStep()
		return string(step), step.Owner()
	}
	for _, e := range o.effects() {
		if e.state.Phase != decision.Done {
			return string(e.step), e.step.Owner()
		}
	}
	return "confirmation", event.Orders
}

func phase(e decision.Effect) string {
	if e.Phase == decision.Open {
		return "not begun"
	}
	return string(e.Phase)
}
