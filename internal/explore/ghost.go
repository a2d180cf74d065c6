package explore

import (
	"fmt"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// ghost is D4's "How an order ends", told a second time and apart from package order: the first negative cause that
// orders accepted, and the steps that are closed.
type ghost struct {
	cause    order.Status
	payment  bool
	shipment bool
	stock    bool
}

// follow takes the same input as orders did. An order that has ended accepts nothing.
func (g ghost) follow(m *model, in input, done passing) ghost {
	if in.kind == delivered && done.verdict != decision.Ignored {
		g = g.hear(m.stated.all[in.fact].kind)
	}
	for _, e := range done.facts {
		if f, ok := e.Fact.(event.OrderCancellationRequested); ok {
			if f.Reason == event.TimedOut {
				g = g.blame(order.Failed)
			} else {
				g = g.blame(order.Cancelled)
			}
		}
	}
	return g
}

func (g ghost) hear(kind event.Type) ghost {
	switch kind {
	case "StockRejected":
		g.payment, g.shipment, g.stock = true, true, true
		return g.blame(order.Rejected)
	case "ShipmentRejected":
		g.payment, g.shipment = true, true
		return g.blame(order.Failed)
	case "PaymentDeclined", "PaymentRefunded", "PaymentVoided":
		g.payment = true
		return g.blame(order.Failed)
	case "ShipmentCancelled":
		g.shipment = true
	case "StockReleased":
		g.stock = true
	case choreography.StuckKey(event.PaymentStep):
		if !g.payment {
			return g.blame(order.Failed)
		}
	case choreography.StuckKey(event.ShipmentStep):
		if !g.shipment {
			return g.blame(order.Failed)
		}
	case choreography.StuckKey(event.StockStep):
		if !g.stock {
			return g.blame(order.Failed)
		}
	}
	return g
}

func (g ghost) blame(cause order.Status) ghost {
	if g.cause == order.Unplaced {
		g.cause = cause
	}
	return g
}

// wrong compares what orders did with what it should have done.
func (g ghost) wrong(before, after order.Status, facts []decision.Emission) string {
	closed := g.payment && g.shipment && g.stock
	switch {
	case before.Ended() && after != before:
		return fmt.Sprintf("an order that has ended %s becomes %s", before, after)
	case before == order.Shipped && after != order.Shipped && after != order.Delivered:
		return fmt.Sprintf("an order that was shipped becomes %s", after)
	}
	switch after {
	case order.Rejected, order.Failed, order.Cancelled:
		if !closed {
			return fmt.Sprintf("the order ends %s before all steps are closed", after)
		}
		if after != g.cause {
			return fmt.Sprintf("the order ends %s, its first cause is for %s", after, g.cause)
		}
		if before != after && len(facts) == 0 {
			return "the order ends and nobody is told"
		}
	case order.Placed, order.Confirmed, order.Shipped:
		if g.cause != order.Unplaced {
			return fmt.Sprintf("there is a cause for %s and the order is %s", g.cause, after)
		}
	case order.Cancelling, order.Compensating:
		if closed {
			return fmt.Sprintf("all is closed and the order is still %s", after)
		}
		if (after == order.Cancelling) != (g.cause == order.Cancelled) {
			return fmt.Sprintf("the cause is for %s and the order is %s", g.cause, after)
		}
	}
	return ""
}
