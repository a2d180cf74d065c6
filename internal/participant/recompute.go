package participant

import (
	"bytes"
	"encoding/json"
	"fmt"

	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
)

// Recomputer makes the decisions of a log again (D12).
type Recomputer struct {
	facts   *codec.Codec
	request func(name string, body []byte) (decision.Request, error)
}

// NewRecomputer returns a recomputer. request reads the requests that package decision does not have, by their name in Go
// (order.Place); nil when there are none.
func NewRecomputer(request func(name string, body []byte) (decision.Request, error)) (*Recomputer, error) {
	facts, err := plain()
	if err != nil {
		return nil, err
	}
	return &Recomputer{facts, request}, nil
}

// Recompute decides again what a decision of the log (see FindLine) says was decided. It returns an error when the
// shipped rules decide otherwise, or when the decision cannot be read.
func Recompute[S any](r *Recomputer, decide func(event.OrderNo, S, decision.Input) decision.Decision[S], logged []byte) error {
	var l struct {
		Participant event.Participant `json:"participant"`
		Order       event.OrderNo     `json:"order"`
		Input       lineInput         `json:"input"`
		Before      json.RawMessage   `json:"before"`
	}
	if err := json.Unmarshal(logged, &l); err != nil {
		return fmt.Errorf("read a decision of the log: %w", err)
	}
	in, err := r.input(l.Order, l.Input)
	if err != nil {
		return fmt.Errorf("read a decision about order %s: %w", l.Order, err)
	}
	// Two copies of the state: a rule that changes what it was given must not change what is compared.
	var before, given S
	for _, s := range []*S{&before, &given} {
		if err := json.Unmarshal(l.Before, s); err != nil {
			return fmt.Errorf("read the state of order %s: %w", l.Order, err)
		}
	}
	again, err := newLine(l.Participant, l.Order, before, in, decide(l.Order, given, in)).encode(r.facts)
	if err != nil {
		return fmt.Errorf("write a decision about order %s: %w", l.Order, err)
	}
	if !bytes.Equal(again, bytes.TrimSpace(logged)) {
		return fmt.Errorf("order %s: the log has the decision\n%s\nand the rules decide\n%s", l.Order, bytes.TrimSpace(logged), again)
	}
	return nil
}

func (r *Recomputer) input(order event.OrderNo, l lineInput) (decision.Input, error) {
	switch {
	case l.Kind == "delivered":
		fact, err := r.facts.Decode(event.Type(l.Type), l.Body)
		return decision.Delivered{Envelope: event.Envelope{
			ID: l.ID, Order: order, Owner: l.Owner, OccurredAt: l.At, CausationID: l.CausationID, Hop: l.Hop, Fact: fact,
		}}, err
	case l.Kind == "requested":
		request, err := r.readRequest(l.Type, l.Body)
		return decision.Requested{ID: l.ID, At: l.At, Request: request}, err
	case l.Kind == "answered" && l.Answered != nil:
		return *l.Answered, nil
	case l.Kind == "weighed" && l.Weighed != nil:
		return *l.Weighed, nil
	case l.Kind == "elapsed":
		return decision.Elapsed{At: l.At}, nil
	}
	return nil, fmt.Errorf("no input is of the kind %q", l.Kind)
}

func (r *Recomputer) readRequest(name string, body []byte) (decision.Request, error) {
	switch name {
	case "decision.Cancel":
		return read[decision.Cancel](body)
	case "decision.Ship":
		return read[decision.Ship](body)
	case "decision.Deliver":
		return read[decision.Deliver](body)
	case "decision.Resolve":
		return read[decision.Resolve](body)
	case "decision.Retry":
		return read[decision.Retry](body)
	}
	if r.request == nil {
		return nil, fmt.Errorf("no request has the name %q", name)
	}
	return r.request(name, body)
}

func read[T any](body []byte) (decision.Request, error) {
	var v T
	err := json.Unmarshal(body, &v)
	return v, err
}
