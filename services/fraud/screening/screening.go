// Package screening decides for fraud: ask the bureau for a score and say what it means. It only
// reads, so there is nothing to undo (D4). Pure.
package screening

import (
	"fmt"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
)

// Rules are the scores at which a verdict begins, 0 to 100, and which bureau gives them.
type Rules struct {
	Route  outside.Route `kong:"-"`
	Review int           `default:"50" help:"Score from which an order is under review."`
	Reject int           `default:"90" help:"Score from which an order is rejected."`
}

// Defaults are the rules of D4, without a route.
func Defaults() Rules { return Rules{Review: 50, Reject: 90} }

// State is what fraud knows of an order.
type State struct {
	Phase   Phase                  `json:"phase,omitempty"`
	Score   int                    `json:"score,omitempty"`
	Verdict event.ScreeningVerdict `json:"verdict,omitempty"`
}

// Phase is how far the screening is.
type Phase string

const (
	Unseen   Phase = ""
	Pending  Phase = "PENDING"
	Screened Phase = "SCREENED"
)

// Bureau is the provider that scores orders in the shipped configuration.
const Bureau = "bureau"

type result = decision.Decision[State]

// Decide is fraud's whole behaviour.
func (r Rules) Decide(order event.OrderNo, s State, in decision.Input) result {
	switch in := in.(type) {
	case decision.Delivered:
		placed, ok := in.Fact.(event.OrderPlaced)
		if !ok {
			return decision.Ignore(s, "fraud does not react to "+string(in.Fact.Type()))
		}
		if s.Phase != Unseen {
			return decision.Ignore(s, "the order is already being screened")
		}
		return r.ask(order, s, placed)
	case decision.Answered:
		if s.Phase != Pending {
			return decision.Ignore(s, "no answer is awaited")
		}
		return r.answer(s, in.Outcome)
	case decision.Requested:
		return result{State: s, Verdict: decision.Refused, Why: "a screening has nothing to resolve or retry"}
	}
	return decision.Ignore(s, "fraud keeps no timers")
}

func (r Rules) ask(order event.OrderNo, s State, f event.OrderPlaced) result {
	question := outside.Question{Order: order, Customer: f.Customer, Amount: f.Total, Currency: f.Currency, Shipping: f.Shipping}
	bureau, ok := r.Route(outside.Known{Request: question, Facts: map[event.Type]any{
		"OrderPlaced": outside.Placed{Customer: f.Customer, Currency: f.Currency, Total: f.Total, Shipping: f.Shipping},
	}})
	if !ok {
		return r.answer(s, decision.Outcome{Kind: decision.Declined, Reason: outside.NoRoute})
	}
	s.Phase = Pending
	return result{State: s, Verdict: decision.Applied, Why: "ask the bureau", Intents: []decision.Intent{{
		Step: event.ScreeningStep, Op: decision.Look, Provider: bureau, Deadline: f.Deadline, Body: question,
	}}}
}

func (r Rules) answer(s State, o decision.Outcome) result {
	s.Phase = Screened
	fact := event.OrderScreened{Verdict: event.Unavailable, Reason: o.Reason}
	if o.Kind == decision.Succeeded {
		fact = event.OrderScreened{Score: o.Score, Verdict: r.verdict(o.Score)}
	}
	s.Score, s.Verdict = fact.Score, fact.Verdict
	return result{
		State: s, Verdict: decision.Applied, Why: fmt.Sprintf("score %d: %s", fact.Score, fact.Verdict),
		Facts: []decision.Emission{{Fact: fact}},
	}
}

func (r Rules) verdict(score int) event.ScreeningVerdict {
	switch {
	case score >= r.Reject:
		return event.Reject
	case score >= r.Review:
		return event.Review
	}
	return event.Clear
}
