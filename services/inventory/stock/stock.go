// Package stock decides for inventory: hold the goods, have the warehouse confirm it, and give
// everything back when the shipment is gone (D4). Pure.
package stock

import (
	"cmp"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
)

// Rules hold what is configured: which warehouse confirms a hold.
type Rules struct{ Route outside.Route }

// State is what inventory knows of an order.
type State struct {
	Effect   decision.Effect `json:"effect"`
	Lines    []event.Line    `json:"lines,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Held     bool            `json:"held,omitempty"` // the counts in inventory's own database are taken
	At       string          `json:"at,omitempty"`   // the warehouse that was asked: its undo goes there too, whatever the routes say by then
}

// Warehouse is the provider that confirms reservations in the shipped configuration.
const Warehouse = "warehouse"

type result = decision.Decision[State]

// Decide is inventory's whole behaviour.
func (r Rules) Decide(order event.OrderNo, s State, in decision.Input) result {
	switch in := in.(type) {
	case decision.Delivered:
		return r.deliver(order, s, in.Fact)
	case decision.Weighed:
		return weigh(order, s, in)
	case decision.Answered:
		e, move, why := s.Effect.Answer(in.Op, in.Outcome)
		return s.turn(e, move, why)
	case decision.Requested:
		return request(s, in.Request)
	}
	return decision.Ignore(s, "inventory keeps no timers")
}

func (r Rules) deliver(order event.OrderNo, s State, fact event.Fact) result {
	switch f := fact.(type) {
	case event.OrderPlaced:
		e, move, why := s.Effect.Do()
		if move != decision.CallDo {
			return decision.Ignore(s, why)
		}
		warehouse, ok := r.Route(outside.Known{Request: reservation(order, f.Lines)})
		if !ok {
			e, move, why := s.Effect.Refuse(outside.NoRoute)
			return s.turn(e, move, why)
		}
		s.Effect, s.Lines, s.Deadline, s.At = e, f.Lines, f.Deadline, warehouse
		return result{State: s, Verdict: decision.Applied, Why: "look on the shelf", Hold: decision.Take}
	case event.ShipmentCancelled:
		e, move, why := s.Effect.Undo("shipment cancelled")
		return s.turn(e, move, why)
	case event.ShipmentRejected:
		e, move, why := s.Effect.Undo("shipment rejected: " + f.Reason)
		return s.turn(e, move, why)
	}
	return decision.Ignore(s, "inventory does not react to "+string(fact.Type()))
}

func reservation(order event.OrderNo, lines []event.Line) outside.Reservation {
	body := outside.Reservation{Order: order, Lines: make([]outside.Item, len(lines))}
	for i, l := range lines {
		body.Lines[i] = outside.Item{SKU: l.SKU, Quantity: l.Quantity}
	}
	return body
}

// weigh goes on after the hold: the warehouse must confirm it, or there is no stock.
func weigh(order event.OrderNo, s State, in decision.Weighed) result {
	if s.Effect.Phase != decision.Doing || s.Held {
		return decision.Ignore(s, "no hold is awaited")
	}
	if !in.Held {
		e, move, why := s.Effect.Answer(decision.Do, decision.Outcome{
			Kind: decision.Declined, Reason: "out of stock: " + in.Short,
		})
		return s.turn(e, move, why)
	}
	s.Held = true
	return result{State: s, Verdict: decision.Applied, Why: "held; the warehouse must confirm", Intents: []decision.Intent{{
		Step: event.StockStep, Op: decision.Do, Provider: cmp.Or(s.At, Warehouse), Body: reservation(order, s.Lines), Deadline: s.Deadline,
	}}}
}

func request(s State, r decision.Request) result {
	switch r := r.(type) {
	case decision.Resolve:
		e, move, why := s.Effect.Resolve(r.Evidence)
		return decision.OrRefuse(s.turn(e, move, why))
	case decision.Retry:
		e, move, why := s.Effect.Retry()
		return decision.OrRefuse(s.turn(e, move, why))
	}
	return result{State: s, Verdict: decision.Refused, Why: "inventory takes no such request"}
}

// turn carries out a move of the effect. The hold in the own database ends with the effect.
func (s State) turn(e decision.Effect, move decision.Move, why string) result {
	s.Effect = e
	giveBack := s.Held && e.Phase == decision.Closed
	if giveBack {
		s.Held = false
	}
	// A state from before warehouses were noted asked the only one there was.
	call := decision.Intent{Provider: cmp.Or(s.At, Warehouse), Reference: e.Reference, Reason: e.Reason}
	d := decision.Carry(s, e, move, why, decision.Terms{
		Step: event.StockStep, Do: call, Undo: call,
		Done:    event.StockReserved{Reservation: e.Reference},
		Refused: event.StockRejected{Reason: e.Reason},
		Undone:  event.StockReleased{Reservation: e.Reference},
		None:    event.StockReleased{},
	})
	if giveBack {
		d.Hold = decision.GiveBack
	}
	return d
}
