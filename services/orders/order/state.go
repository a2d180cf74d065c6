// Package order decides for the orders service: what becomes of an order as the facts of the
// others come in, and which requests it still allows (D4). Pure.
package order

import (
	"time"

	"chorus/internal/event"
)

// Status is the order as people see it.
type Status string

const (
	Unplaced     Status = ""
	Placed       Status = "PLACED"
	Confirmed    Status = "CONFIRMED"
	Shipped      Status = "SHIPPED"
	Delivered    Status = "DELIVERED"
	Rejected     Status = "REJECTED"
	Cancelling   Status = "CANCELLING"
	Cancelled    Status = "CANCELLED"
	Compensating Status = "COMPENSATING"
	Failed       Status = "FAILED"
)

// Ended reports whether nothing more can happen to an order of this status.
func (s Status) Ended() bool {
	switch s {
	case Delivered, Rejected, Cancelled, Failed:
		return true
	}
	return false
}

// Undoing reports whether the order is on its way back.
func (s Status) Undoing() bool { return s == Cancelling || s == Compensating }

// State is what the orders service knows of an order.
type State struct {
	Status Status             `json:"status,omitempty"`
	Cause  Status             `json:"cause,omitempty"`  // the ending that the first negative cause fixed
	Reason string             `json:"reason,omitempty"` // for people
	By     event.CancelReason `json:"by,omitempty"`     // who cancelled

	Payment  Part `json:"payment,omitzero"`
	Shipment Part `json:"shipment,omitzero"`
	Stock    Part `json:"stock,omitzero"`
	Overdue  bool `json:"overdue,omitempty"` // the way back took longer than allowed

	Deadline time.Time `json:"deadline,omitzero"` // for PLACED
	BackBy   time.Time `json:"back_by,omitzero"`  // for CANCELLING and COMPENSATING
}

// Part is one of the three effects that must be closed before a failed order ends.
type Part struct {
	Closed bool   `json:"closed,omitempty"`
	Stuck  string `json:"stuck,omitempty"` // the reason, while a person is needed
}

// NeedsAttention reports whether a person is needed.
func (s State) NeedsAttention() bool { return s.Overdue || len(s.StuckSteps()) > 0 }

// StuckSteps lists the steps that wait for a person, the last one done first.
func (s State) StuckSteps() []event.Step {
	var steps []event.Step
	for _, step := range []event.Step{event.PaymentStep, event.ShipmentStep, event.StockStep} {
		if p := s.part(step); p.Stuck != "" {
			steps = append(steps, step)
		}
	}
	return steps
}

// OpenStep is the first step of the way back that is not closed: its owner is whom everyone waits for.
func (s State) OpenStep() event.Step {
	switch {
	case !s.Payment.Closed:
		return event.PaymentStep
	case !s.Shipment.Closed:
		return event.ShipmentStep
	case !s.Stock.Closed:
		return event.StockStep
	}
	return ""
}

// Due is the instant at which the state wants to be woken; zero for never.
func (s State) Due() time.Time {
	switch {
	case s.Status == Placed:
		return s.Deadline
	case s.Status.Undoing() && !s.Overdue:
		return s.BackBy
	}
	return time.Time{}
}

func (s *State) part(step event.Step) *Part {
	switch step {
	case event.PaymentStep:
		return &s.Payment
	case event.ShipmentStep:
		return &s.Shipment
	case event.StockStep:
		return &s.Stock
	}
	return nil
}

func (s *State) close(steps ...event.Step) {
	for _, step := range steps {
		*s.part(step) = Part{Closed: true}
	}
}

func (s State) allClosed() bool { return s.Payment.Closed && s.Shipment.Closed && s.Stock.Closed }
