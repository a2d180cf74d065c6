package check

import (
	"slices"

	"chorus/internal/choreography"
	"chorus/internal/event"
)

type types = []event.Type

var (
	negativeEndings = types{"OrderRejected", "OrderFailed", "OrderCancelled"}
	paymentClosed   = types{"PaymentDeclined", "PaymentRefunded", "PaymentVoided"}
)

// answers are the facts by which an owner closes its step. Each undo is answered once, so at most one of them stands (D4).
func answers(owner event.Participant) types {
	switch owner {
	case event.Inventory:
		return types{"StockRejected", "StockReleased"}
	case event.Shipping:
		return types{"ShipmentRejected", "ShipmentCancelled"}
	case event.Billing:
		return paymentClosed
	case event.Orders:
		return negativeEndings
	}
	return nil
}

// needs lists what must stand before a fact: one of each set. The way forward, and the way back from the last step to
// the first (G9).
func needs(kind event.Type) []types {
	switch kind {
	case "ShipmentScheduled":
		return []types{{"StockReserved"}}
	case "PaymentTaken":
		return []types{{"ShipmentScheduled"}, {"OrderScreened"}}
	case "OrderConfirmed":
		return []types{{"PaymentTaken"}}
	case "OrderShipped":
		return []types{{"OrderConfirmed"}}
	case "OrderDelivered":
		return []types{{"OrderShipped"}}
	case "PaymentRefunded":
		return []types{{"PaymentTaken", choreography.StuckKey(event.PaymentStep), "OrderCancellationRequested"}}
	case "PaymentVoided":
		return []types{{"OrderCancellationRequested"}}
	case "ShipmentCancelled":
		return []types{append(types{choreography.StuckKey(event.PaymentStep)}, paymentClosed...)}
	case "StockReleased":
		return []types{{"ShipmentCancelled", "ShipmentRejected"}}
	case "OrderCancelled":
		return []types{{"OrderCancellationRequested"}}
	}
	return nil
}

// story judges the facts of an order among themselves.
func (o Order) story(f *findings) {
	if o.Topics == Unread || o.Facts == nil {
		return
	}
	for _, fault := range o.Facts.faults {
		f.add(Story, "%s", fault)
	}
	o.Facts.repeated(f)
	if o.Topics == Whole {
		o.Facts.grounded(f)
	}
	if o.Facts.has("OrderShipped", "OrderDelivered") && o.Facts.has(append(types{"OrderCancellationRequested"}, negativeEndings...)...) {
		f.add(Story, "it was shipped and taken back")
	}
}

// repeated: nobody states a type twice, closes its step twice, or goes forward after it was stuck.
func (f *Facts) repeated(to *findings) {
	for i, s := range f.all {
		closes := slices.Contains(answers(s.owner), s.kind)
		for _, before := range f.all[:i] {
			switch {
			case before.owner != s.owner:
			case before.kind == s.kind && s.kind != "UndoStuck":
				to.add(Story, "%s stated %s twice", s.owner, s.kind)
			case before.kind != s.kind && closes && slices.Contains(answers(s.owner), before.kind):
				to.add(Story, "%s stated %s after %s: an undo is answered once", s.owner, s.kind, before.kind)
			case before.kind == "UndoStuck" && slices.Contains(types{"StockReserved", "ShipmentScheduled", "PaymentTaken"}, s.kind):
				to.add(Story, "%s went on with %s after it was stuck", s.owner, s.kind)
			}
		}
	}
}

// grounded: every fact has what it rests on, and a cause that its owner listens to.
func (f *Facts) grounded(to *findings) {
	for _, s := range f.all {
		for _, one := range needs(s.kind) {
			if !f.has(one...) {
				to.add(Story, "%s stated %s without %s", s.owner, s.kind, oneOf(one))
			}
		}
		cause, known := f.find(s.cause)
		switch {
		case known && !choreography.Hears(s.owner, cause.owner, cause.kind):
			to.add(Story, "%s of %s is caused by %s, to which %s does not listen", s.kind, s.owner, cause.kind, s.owner)
		case !known && !f.requested(s):
			to.add(Story, "%s of %s is caused by %q, which is no fact of the order", s.kind, s.owner, s.cause)
		}
	}
}

// requested reports whether a request or a timer may have caused the fact: those of the orders service, or a person's
// about a step that was stuck.
func (f *Facts) requested(s stated) bool {
	for _, r := range choreography.Table() {
		if r.Who == s.owner && r.Who == event.Orders && r.Asked != "" && slices.Contains(r.States, s.kind) {
			return true
		}
	}
	for _, before := range f.all {
		if before.kind == "UndoStuck" && before.owner == s.owner {
			return true
		}
	}
	return false
}

func oneOf(all types) string {
	text := ""
	for i, t := range all {
		if i > 0 {
			text += " or "
		}
		text += string(t)
	}
	return text
}
