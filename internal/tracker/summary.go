package tracker

import (
	"maps"
	"slices"
	"strings"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// Summary is the fold of an order's facts: what lists and waits need of it. Add is idempotent and does not depend on the order
// of the facts, so every replay gives the same.
type Summary struct {
	Known    choreography.Known    `json:"known,omitempty"`
	Reasons  map[event.Type]string `json:"reasons,omitempty"` // by the key in Known; of facts that give one
	Customer string                `json:"customer,omitempty"`
	Currency string                `json:"currency,omitempty"`
	Total    int64                 `json:"total,omitempty"` // minor units
	Updated  time.Time             `json:"updated,omitzero"`
}

// Add returns the summary with one more fact. It changes the maps of s.
func (s Summary) Add(f event.Fact, at time.Time) Summary {
	if s.Known == nil {
		s.Known = choreography.Known{}
	}
	if s.Reasons == nil {
		s.Reasons = map[event.Type]string{}
	}
	key := f.Type()
	if stuck, ok := f.(event.UndoStuck); ok {
		key = choreography.StuckKey(stuck.Step)
	}
	why := reasonOf(f)
	// Of a type that is stated again the first instant counts, and its reason, whichever came in first.
	if first, there := s.Known[key]; !there || at.Before(first) || at.Equal(first) && why < s.Reasons[key] {
		s.Known[key] = at
		delete(s.Reasons, key)
		if why != "" {
			s.Reasons[key] = why
		}
	}
	if at.After(s.Updated) {
		s.Updated = at
	}
	if placed, ok := f.(event.OrderPlaced); ok {
		s.Customer, s.Currency, s.Total = placed.Customer, placed.Currency, placed.Total
	}
	return s
}

func reasonOf(f event.Fact) string {
	switch f := f.(type) {
	case event.OrderCancellationRequested:
		return string(f.Reason)
	case event.OrderRejected:
		return f.Reason
	case event.OrderFailed:
		return f.Reason
	case event.OrderCancelled:
		return string(f.Reason)
	case event.StockRejected:
		return f.Reason
	case event.ShipmentRejected:
		return f.Reason
	case event.PaymentDeclined:
		return f.Reason
	case event.PaymentRefunded:
		return f.Reason
	case event.PaymentVoided:
		return f.Reason
	case event.UndoStuck:
		return f.Reason
	}
	return ""
}

func (s Summary) has(types ...event.Type) bool {
	return slices.ContainsFunc(types, func(t event.Type) bool { _, there := s.Known[t]; return there })
}

// Status is the order's status as the facts show it (D4). The orders service's own may be ahead.
func (s Summary) Status() order.Status {
	switch {
	case s.has("OrderDelivered"):
		return order.Delivered
	case s.has("OrderShipped"):
		return order.Shipped
	case s.has("OrderRejected"):
		return order.Rejected
	case s.has("OrderFailed"):
		return order.Failed
	case s.has("OrderCancelled"):
		return order.Cancelled
	case s.Reasons["OrderCancellationRequested"] == string(event.TimedOut):
		return order.Compensating
	case s.has("OrderCancellationRequested"):
		return order.Cancelling
	case s.has("StockRejected", "ShipmentRejected", "PaymentDeclined", "PaymentRefunded", "PaymentVoided"), s.stuckEver():
		return order.Compensating
	case s.has("OrderConfirmed"):
		return order.Confirmed
	case len(s.Known) == 0:
		return order.Unplaced
	}
	return order.Placed
}

func (s Summary) stuckEver() bool {
	prefix := string(choreography.StuckKey(""))
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.Known)), func(t event.Type) bool { return strings.HasPrefix(string(t), prefix) })
}

// Placed is when the order was placed; zero while that fact has not been read.
func (s Summary) Placed() time.Time { return s.Known["OrderPlaced"] }

// Ended is when the order came to an end in the sense of G8: confirmed, or wholly undone. Zero while it is under way.
func (s Summary) Ended() time.Time {
	switch status := s.Status(); status {
	case order.Confirmed, order.Shipped, order.Delivered:
		for _, t := range []event.Type{"OrderConfirmed", "OrderShipped", "OrderDelivered"} {
			if at, there := s.Known[t]; there {
				return at
			}
		}
	case order.Rejected:
		return s.Known["OrderRejected"]
	case order.Failed:
		return s.Known["OrderFailed"]
	case order.Cancelled:
		return s.Known["OrderCancelled"]
	}
	return time.Time{}
}

// Waits lists what the order waits for, the most telling first (G10).
func (s Summary) Waits(d choreography.Durations) []choreography.Wait {
	if len(s.Known) == 0 {
		return nil
	}
	return choreography.Waits(s.Known, d)
}
