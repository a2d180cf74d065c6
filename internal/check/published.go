package check

import (
	"slices"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/money"
	"chorus/services/orders/order"
)

// published: a state and the facts that go with it were committed together, so each of them is in its topic.
func (o Order) published(f *findings) {
	if o.Topics != Whole {
		return
	}
	facts := o.Facts
	if facts == nil {
		facts = &Facts{}
	}
	for _, want := range o.stated() {
		if !facts.has(want...) {
			f.add(Published, "it is %s and %s is not in the topics", o.Orders.Status, oneOf(want))
		}
	}
	for _, e := range o.effects() {
		if want := effectFacts(e); len(want) > 0 && !facts.has(want...) {
			f.add(Published, "for %s the %s is %s and %s is not in the topics", e.step.Owner(), e.step, phase(e.state), oneOf(want))
		}
	}
	if n := facts.count(negativeEndings); o.positive() && n > 0 || o.negative() && n > 1 {
		f.add(Published, "it is %s and the topics hold %d negative endings", o.Orders.Status, n)
	}
	if o.Billing != nil && o.Billing.Placed && facts.Placed && (o.Billing.Total != facts.Total || o.Billing.Currency != facts.Currency) {
		f.add(Published, "it was placed for %s and billing knows %s", money.Text(facts.Total, facts.Currency), money.Text(o.Billing.Total, o.Billing.Currency))
	}
}

// stated are the facts that the status stands for.
func (o Order) stated() []types {
	want := []types{{"OrderPlaced"}}
	switch o.Orders.Status {
	case order.Confirmed:
		want = append(want, types{"OrderConfirmed"})
	case order.Shipped:
		want = append(want, types{"OrderConfirmed"}, types{"OrderShipped"})
	case order.Delivered:
		want = append(want, types{"OrderConfirmed"}, types{"OrderShipped"}, types{"OrderDelivered"})
	case order.Cancelling:
		want = append(want, types{"OrderCancellationRequested"})
	case order.Rejected:
		want = append(want, types{"OrderRejected"})
	case order.Failed:
		want = append(want, types{"OrderFailed"})
	case order.Cancelled:
		want = append(want, types{"OrderCancelled"})
	}
	return want
}

// effectFacts are those of which an owner has stated one when its step is that far.
func effectFacts(e effect) types {
	switch e.state.Phase {
	case decision.Done:
		return map[event.Step]types{
			event.StockStep: {"StockReserved"}, event.ShipmentStep: {"ShipmentScheduled"}, event.PaymentStep: {"PaymentTaken"},
		}[e.step]
	case decision.Closed:
		return answers(e.step.Owner())
	case decision.StuckDoing, decision.StuckUndoing:
		return types{"UndoStuck:" + event.Type(e.step)}
	}
	return nil
}

func (f *Facts) count(kinds types) int {
	n := 0
	for _, s := range f.all {
		if slices.Contains(kinds, s.kind) {
			n++
		}
	}
	return n
}
