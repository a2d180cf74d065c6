// Package shipment decides for shipping: book a carrier once the stock is reserved, cancel the
// booking once the payment is undone (D4). Pure.
package shipment

import (
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
)

// Rules hold what is configured: which carrier gets a booking.
type Rules struct{ Route outside.Route }

// State is what shipping knows of an order.
type State struct {
	Effect   decision.Effect    `json:"effect"`
	Placed   bool               `json:"placed,omitempty"`
	Reserved bool               `json:"reserved,omitempty"`
	NoStock  bool               `json:"no_stock,omitempty"`
	Customer string             `json:"customer,omitempty"`
	Units    int64              `json:"units,omitempty"`
	Currency string             `json:"currency,omitempty"`
	Total    int64              `json:"total,omitempty"` // minor units
	Shipping event.ShippingType `json:"shipping,omitempty"`
	Deadline time.Time          `json:"deadline,omitzero"`
	Carrier  string             `json:"carrier,omitempty"` // where the booking went: its undo goes there too, whatever the routes say by then
}

type result = decision.Decision[State]

// Carrier returns the provider for a shipping type in the shipped configuration.
func Carrier(t event.ShippingType) string { return "carrier-" + string(t) }

// Decide is shipping's whole behaviour.
func (r Rules) Decide(order event.OrderNo, s State, in decision.Input) result {
	switch in := in.(type) {
	case decision.Delivered:
		return r.deliver(order, s, in.Fact)
	case decision.Answered:
		e, move, why := s.Effect.Answer(in.Op, in.Outcome)
		return r.turn(order, s, e, move, why)
	case decision.Requested:
		return r.request(order, s, in.Request)
	}
	return decision.Ignore(s, "shipping keeps no timers")
}

func (r Rules) deliver(order event.OrderNo, s State, fact event.Fact) result {
	switch f := fact.(type) {
	case event.OrderPlaced, event.StockReserved, event.StockRejected:
		return r.prepare(order, s, f)
	case event.PaymentDeclined:
		return r.undo(order, s, "payment declined: "+f.Reason)
	case event.PaymentRefunded:
		return r.undo(order, s, "payment refunded: "+f.Reason)
	case event.PaymentVoided:
		return r.undo(order, s, "payment voided: "+f.Reason)
	case event.UndoStuck:
		if f.Step == event.PaymentStep {
			// The chain passes a stuck payment: the goods need not wait for the money (D4).
			return r.undo(order, s, "payment stuck: "+f.Reason)
		}
	}
	return decision.Ignore(s, "shipping does not react to "+string(fact.Type()))
}

// prepare notes what the booking needs and begins it when everything is there, in whatever order it came. After a
// tombstone nothing is noted: the undo's fact has said "none".
func (r Rules) prepare(order event.OrderNo, s State, fact event.Fact) result {
	if why, begun := s.Effect.Begun(); begun {
		return decision.Ignore(s, why)
	}
	switch f := fact.(type) {
	case event.OrderPlaced:
		s.Placed, s.Customer, s.Shipping, s.Deadline, s.Units = true, f.Customer, f.Shipping, f.Deadline, 0
		s.Currency, s.Total = f.Currency, f.Total
		for _, l := range f.Lines {
			s.Units += l.Quantity
		}
	case event.StockReserved:
		s.Reserved = true
	case event.StockRejected:
		s.NoStock = true
		return decision.Note(s, "no stock; nothing will be booked")
	}
	if !s.Placed || !s.Reserved || s.NoStock {
		return decision.Note(s, "waits for the order and its stock")
	}
	e, move, _ := s.Effect.Do()
	carrier, ok := r.Route(s.known(order))
	if !ok {
		e, move, why := e.Answer(decision.Do, decision.Outcome{Kind: decision.Declined, Reason: outside.NoRoute})
		return r.turn(order, s, e, move, why)
	}
	s.Carrier = carrier
	return r.turn(order, s, e, move, "book "+carrier)
}

// known is what the routes may look at.
func (s State) known(order event.OrderNo) outside.Known {
	return outside.Known{Request: s.request(order), Facts: map[event.Type]any{
		"OrderPlaced": outside.Placed{Customer: s.Customer, Currency: s.Currency, Total: s.Total, Shipping: s.Shipping},
	}}
}

func (s State) request(order event.OrderNo) outside.Booking {
	return outside.Booking{Order: order, Customer: s.Customer, Units: s.Units}
}

func (r Rules) undo(order event.OrderNo, s State, reason string) result {
	e, move, why := s.Effect.Undo(reason)
	return r.turn(order, s, e, move, why)
}

func (r Rules) request(order event.OrderNo, s State, req decision.Request) result {
	switch req := req.(type) {
	case decision.Resolve:
		e, move, why := s.Effect.Resolve(req.Evidence)
		return decision.OrRefuse(r.turn(order, s, e, move, why))
	case decision.Retry:
		e, move, why := s.Effect.Retry()
		return decision.OrRefuse(r.turn(order, s, e, move, why))
	}
	return result{State: s, Verdict: decision.Refused, Why: "shipping takes no such request"}
}

func (r Rules) turn(order event.OrderNo, s State, e decision.Effect, move decision.Move, why string) result {
	s.Effect = e
	carrier := s.Carrier
	if carrier == "" { // a state from before carriers were noted
		carrier, _ = r.Route(s.known(order))
	}
	return decision.Carry(s, e, move, why, decision.Terms{
		Step: event.ShipmentStep,
		Do: decision.Intent{
			Provider: carrier, Deadline: s.Deadline,
			Body: s.request(order),
		},
		Undo:    decision.Intent{Provider: carrier, Reference: e.Reference, Reason: e.Reason},
		Done:    event.ShipmentScheduled{Shipment: e.Reference, Carrier: carrier},
		Refused: event.ShipmentRejected{Reason: e.Reason},
		Undone:  event.ShipmentCancelled{Shipment: e.Reference},
		None:    event.ShipmentCancelled{},
	})
}
