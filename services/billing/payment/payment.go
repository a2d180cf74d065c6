// Package payment decides for billing: charge once the order is screened and its shipment is booked;
// refund or void when it is cancelled (D4). Pure.
package payment

import (
	"fmt"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
)

// Rules hold what is configured: which processor gets a charge.
type Rules struct{ Route outside.Route }

// The processors of the shipped configuration.
const (
	Standard  = "pay-standard"
	HighValue = "pay-highvalue"
)

// State is what billing knows of an order.
type State struct {
	Effect     decision.Effect        `json:"effect"`
	Placed     bool                   `json:"placed,omitempty"`
	Scheduled  bool                   `json:"scheduled,omitempty"`
	NoShipment bool                   `json:"no_shipment,omitempty"` // no stock or no carrier: never charge, never decline
	Verdict    event.ScreeningVerdict `json:"verdict,omitempty"`
	Score      int                    `json:"score,omitempty"`
	Customer   string                 `json:"customer,omitempty"`
	Currency   string                 `json:"currency,omitempty"`
	Shipping   event.ShippingType     `json:"shipping,omitempty"`
	Carrier    string                 `json:"carrier,omitempty"`
	Lines      []outside.Priced       `json:"lines,omitempty"`
	Total      int64                  `json:"total,omitempty"` // minor units
	Deadline   time.Time              `json:"deadline,omitzero"`
	Processor  string                 `json:"processor,omitempty"` // where the charge went: its undo goes there too, whatever the routes say by then
}

type result = decision.Decision[State]

// Decide is billing's whole behaviour.
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
	return decision.Ignore(s, "billing keeps no timers")
}

func (r Rules) deliver(order event.OrderNo, s State, fact event.Fact) result {
	if f, ok := fact.(event.OrderCancellationRequested); ok {
		e, move, why := s.Effect.Undo(string(f.Reason))
		return r.turn(order, s, e, move, why)
	}
	if why, begun := s.Effect.Begun(); begun {
		return decision.Ignore(s, why)
	}
	switch f := fact.(type) {
	case event.OrderPlaced:
		s.Placed, s.Customer, s.Currency, s.Total, s.Deadline = true, f.Customer, f.Currency, f.Total, f.Deadline
		s.Shipping, s.Lines = f.Shipping, outside.Price(f)
		return r.charge(order, s)
	case event.ShipmentScheduled:
		s.Scheduled, s.Carrier = true, f.Carrier
		return r.charge(order, s)
	case event.OrderScreened:
		return r.screened(order, s, f)
	case event.StockRejected, event.ShipmentRejected:
		s.NoShipment = true
		return decision.Note(s, "nothing will be sent; neither charge nor decline")
	}
	return decision.Ignore(s, "billing does not react to "+string(fact.Type()))
}

func (r Rules) screened(order event.OrderNo, s State, f event.OrderScreened) result {
	s.Verdict, s.Score = f.Verdict, f.Score
	if f.Verdict != event.Reject && f.Verdict != event.Unavailable {
		return r.charge(order, s)
	}
	if s.NoShipment {
		return decision.Note(s, "nothing will be sent; no need to decline")
	}
	e, move, why := s.Effect.Refuse(fmt.Sprintf("screening %s", f.Verdict))
	return r.turn(order, s, e, move, why)
}

// charge begins the charge when everything it needs is known, in whatever order it came. A gift needs no call.
func (r Rules) charge(order event.OrderNo, s State) result {
	if !s.Placed || !s.Scheduled || s.Verdict == "" || s.NoShipment {
		return decision.Note(s, "waits for the order, its screening and its shipment")
	}
	e, move, _ := s.Effect.Do()
	if s.Total == 0 {
		e, move, why := e.Answer(decision.Do, decision.Outcome{Kind: decision.Succeeded})
		return r.turn(order, s, e, move, why)
	}
	processor, ok := r.Route(s.known(order))
	if !ok {
		e, move, why := e.Answer(decision.Do, decision.Outcome{Kind: decision.Declined, Reason: outside.NoRoute})
		return r.turn(order, s, e, move, why)
	}
	s.Processor = processor
	return r.turn(order, s, e, move, "charge at "+processor)
}

// known is what the routes may look at.
func (s State) known(order event.OrderNo) outside.Known {
	return outside.Known{Request: s.request(order), Facts: map[event.Type]any{
		"OrderPlaced":       outside.Placed{Customer: s.Customer, Currency: s.Currency, Total: s.Total, Shipping: s.Shipping},
		"OrderScreened":     outside.Screened{Score: s.Score, Verdict: s.Verdict},
		"ShipmentScheduled": outside.Scheduled{Carrier: s.Carrier},
	}}
}

func (s State) request(order event.OrderNo) outside.Charge {
	return outside.Charge{Order: order, Customer: s.Customer, Amount: s.Total, Currency: s.Currency, Lines: s.Lines}
}

func (r Rules) request(order event.OrderNo, s State, req decision.Request) result {
	switch req := req.(type) {
	case decision.Resolve:
		wasCharge := s.Effect.Phase == decision.StuckDoing
		e, move, why := s.Effect.Resolve(req.Evidence)
		d := r.turn(order, s, e, move, why)
		if wasCharge && req.MoneyMoved {
			// It was taken after all and is paid back by hand: the closing fact is that of a refund (D4).
			d.Facts = []decision.Emission{{Fact: r.terms(order, s, e).Undone}}
		}
		return decision.OrRefuse(d)
	case decision.Retry:
		e, move, why := s.Effect.Retry()
		return decision.OrRefuse(r.turn(order, s, e, move, why))
	}
	return result{State: s, Verdict: decision.Refused, Why: "billing takes no such request"}
}

func (r Rules) turn(order event.OrderNo, s State, e decision.Effect, move decision.Move, why string) result {
	if move == decision.CallUndo && s.Total == 0 {
		e, move, why = e.Answer(decision.Undo, decision.Outcome{Kind: decision.Succeeded})
	}
	s.Effect = e
	return decision.Carry(s, e, move, why, r.terms(order, s, e))
}

func (r Rules) terms(order event.OrderNo, s State, e decision.Effect) decision.Terms {
	processor := r.processor(order, s)
	terms := decision.Terms{
		Step: event.PaymentStep,
		Do: decision.Intent{
			Provider: processor, Deadline: s.Deadline,
			Body: s.request(order),
		},
		Undo:    decision.Intent{Provider: processor, Reference: e.Reference, Reason: e.Reason},
		Done:    event.PaymentTaken{Payment: e.Reference, Processor: processor, Amount: s.Total, Currency: s.Currency},
		Refused: event.PaymentDeclined{Reason: e.Reason},
		Undone:  event.PaymentRefunded{Payment: e.Reference, Amount: s.Total, Currency: s.Currency, Reason: e.Reason},
		None:    event.PaymentVoided{Reason: e.Reason},
	}
	if e.Late {
		terms.Refused = terms.Undone // it was taken, and paid back
	}
	return terms
}

// processor is where the order's calls go. A state from before processors were noted is routed anew.
func (r Rules) processor(order event.OrderNo, s State) string {
	if s.Processor != "" || s.Total == 0 {
		return s.Processor
	}
	processor, _ := r.Route(s.known(order))
	return processor
}
