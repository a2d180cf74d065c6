package tracker

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// Fact is a fact of a timeline, with where it was read.
type Fact struct {
	ID          event.ID          `json:"id"`
	Type        event.Type        `json:"type"`
	Owner       event.Participant `json:"owner"`
	OccurredAt  time.Time         `json:"occurred_at"`
	CausationID event.ID          `json:"causation_id"`
	Hop         int               `json:"hop"`
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Offset      int64             `json:"offset"`
	Seq         int64             `json:"seq"`         // counts the order's facts as they were folded
	RecordedAt  time.Time         `json:"recorded_at"` // when its transaction committed
	FoldedAt    time.Time         `json:"folded_at"`
	Body        json.RawMessage   `json:"body"`
	Said        event.Fact        `json:"-"` // the body, decoded
}

// Wait is what an order waits for: what, from whom, since when, until when.
type Wait struct {
	Owner   event.Participant `json:"owner"`
	Step    event.Step        `json:"step,omitempty"`
	Person  bool              `json:"person,omitempty"` // stuck: somebody must resolve or retry the step
	Expects []event.Type      `json:"expects"`
	Since   time.Time         `json:"since"`
	Until   time.Time         `json:"until"`
	Overdue bool              `json:"overdue,omitempty"`
}

// Timeline is the story of one order.
type Timeline struct {
	Order          event.OrderNo `json:"order"`
	Status         order.Status  `json:"status"`
	StatusText     string        `json:"status_text"`
	NeedsAttention bool          `json:"needs_attention"`
	Stuck          []event.Step  `json:"stuck,omitempty"` // steps that a person must resolve
	Customer       string        `json:"customer,omitempty"`
	Currency       string        `json:"currency,omitempty"`
	Total          int64         `json:"total"` // minor units
	PlacedAt       time.Time     `json:"placed_at,omitzero"`
	UpdatedAt      time.Time     `json:"updated_at,omitzero"`
	EndedAt        time.Time     `json:"ended_at,omitzero"` // confirmed, or wholly undone
	Facts          []Fact        `json:"facts"`             // in causal order
	Waits          []Wait        `json:"waits,omitempty"`   // the most telling first; none when at rest
}

// Fold tells the story of an order from its facts, in whatever order they are given. now decides what is overdue. It is pure.
func Fold(no event.OrderNo, facts []Fact, d choreography.Durations, now time.Time) Timeline {
	var s Summary
	for _, f := range facts {
		s = s.Add(f.Said, f.OccurredAt)
	}
	t := Timeline{
		Order: no, Status: s.Status(), StatusText: s.Text(), Customer: s.Customer, Currency: s.Currency, Total: s.Total,
		PlacedAt: s.Placed(), UpdatedAt: s.Updated, EndedAt: s.Ended(), Facts: causal(facts),
	}
	for _, w := range s.Waits(d) {
		overdue := now.After(w.Until)
		t.Waits = append(t.Waits, Wait{w.Owner, w.Step, w.Person, w.Expects, w.Since, w.Until, overdue})
		if w.Person {
			t.Stuck = append(t.Stuck, w.Step)
		}
		t.NeedsAttention = t.NeedsAttention || w.Person || overdue && t.Status.Undoing()
	}
	return t
}

// causal sorts by time, but never a fact before its cause, whatever the clocks of two machines say. Of equal times the one with
// fewer facts before it comes first.
func causal(facts []Fact) []Fact {
	byID := make(map[event.ID]Fact, len(facts))
	for _, f := range facts {
		byID[f.ID] = f
	}
	at := make(map[event.ID]time.Time, len(facts))
	var placed func(f Fact) time.Time
	placed = func(f Fact) time.Time {
		if t, done := at[f.ID]; done {
			return t
		}
		t := f.OccurredAt
		// Hops rise from cause to effect, so this ends even if ids were forged into a ring.
		if cause, known := byID[f.CausationID]; known && cause.Hop < f.Hop {
			if c := placed(cause); c.After(t) {
				t = c
			}
		}
		at[f.ID] = t
		return t
	}
	return slices.SortedFunc(slices.Values(facts), func(a, b Fact) int {
		return cmp.Or(placed(a).Compare(placed(b)), cmp.Compare(a.Hop, b.Hop), a.OccurredAt.Compare(b.OccurredAt), slices.Compare(a.ID[:], b.ID[:]))
	})
}
