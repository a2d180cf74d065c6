package tracker

import (
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// Text says honestly what the status means for the customer: what was done, what was not, and whether money was taken (D4).
func (s Summary) Text() string {
	switch s.Status() {
	case order.Placed:
		switch {
		case s.has("PaymentTaken"):
			return "paid, about to be confirmed"
		case s.has("ShipmentScheduled"):
			return "stock is held and the shipment booked, about to be paid"
		case s.has("StockReserved"):
			return "stock is held, about to be booked with a carrier"
		}
		return "placed, nothing is held or charged yet"
	case order.Confirmed:
		return "stock is held, the shipment is booked and the payment was taken"
	case order.Shipped:
		return "on its way, it can no longer be cancelled"
	case order.Delivered:
		return "delivered"
	case order.Rejected:
		return "out of stock, nothing was booked and no money was taken" + s.because("OrderRejected")
	case order.Cancelling:
		return "being cancelled" + by(s.Reasons["OrderCancellationRequested"]) + s.undone()
	case order.Cancelled:
		return "cancelled" + by(s.Reasons["OrderCancelled"]) + ", " + s.money()
	case order.Compensating:
		return s.cause() + s.undone()
	case order.Failed:
		return s.cause() + ", " + s.money()
	}
	return "nothing is known of it yet"
}

// cause is the first thing that went wrong, as the facts tell it.
func (s Summary) cause() string {
	switch {
	case s.Reasons["OrderCancellationRequested"] == string(event.TimedOut):
		return "it took too long and was given up"
	case s.has("StockRejected"):
		return "out of stock" + s.because("StockRejected")
	case s.has("ShipmentRejected"):
		return "no carrier takes it" + s.because("ShipmentRejected")
	case s.has("PaymentDeclined"):
		return "payment refused" + s.because("PaymentDeclined")
	}
	for _, step := range []event.Step{event.PaymentStep, event.ShipmentStep, event.StockStep} {
		if key := choreography.StuckKey(step); s.has(key) {
			return "the " + string(step) + " got stuck" // why is for operators: it stands with the facts and calls
		}
	}
	if s.has("OrderFailed") {
		return "it could not be carried out"
	}
	return "it is being undone"
}

// undone says how far the way back has come. A stuck payment is passed over (D4), so another step may be undone meanwhile.
func (s Summary) undone() string {
	var stuck, open []event.Step
	for _, step := range []event.Step{event.PaymentStep, event.ShipmentStep, event.StockStep} {
		switch {
		case s.has(closers[step]...):
		case s.has(choreography.StuckKey(step)):
			stuck = append(stuck, step)
		default:
			open = append(open, step)
		}
	}
	text := ""
	for _, step := range stuck {
		text += "; the " + string(step) + " is stuck and needs a person"
	}
	if len(open) > 0 {
		text += "; the " + string(open[0]) + " is being undone"
	}
	if text == "" {
		return "; everything is undone"
	}
	return text
}

// closers are the facts that close a step (D4 "How an order ends").
var closers = map[event.Step][]event.Type{
	event.PaymentStep:  {"PaymentDeclined", "PaymentRefunded", "PaymentVoided", "ShipmentRejected", "StockRejected"},
	event.ShipmentStep: {"ShipmentCancelled", "ShipmentRejected", "StockRejected"},
	event.StockStep:    {"StockReleased", "StockRejected"},
}

// money says what became of the customer's money once the order has ended badly.
func (s Summary) money() string {
	if s.has("PaymentRefunded") {
		return "the money was paid back in full"
	}
	return "no money was taken"
}

func (s Summary) because(t event.Type) string {
	if why := s.Reasons[t]; why != "" {
		return " (" + why + ")"
	}
	return ""
}

func by(who string) string {
	switch event.CancelReason(who) {
	case event.ByCustomer:
		return " by the customer"
	case event.ByOperator:
		return " by an operator"
	}
	return ""
}
