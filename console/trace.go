package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"chorus/internal/audit"
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/tracker"
)

// Trace is everything about an order: its story from the tracker, what each consumer decided about each fact, and the provider
// calls with every attempt, as the services told it just now (D10).
type Trace struct {
	tracker.Timeline
	Facts   []TracedFact   `json:"facts"`           // in causal order
	Calls   []TracedCall   `json:"calls"`           // by the time at which they were planned
	Waits   []TracedWait   `json:"waits,omitempty"` // the most telling first; none when at rest
	Audit   []TracedAction `json:"audit,omitempty"` // what people did about it, the oldest first
	Missing []Missing      `json:"missing,omitempty"`
	Unread  bool           `json:"unread,omitempty"` // the order is placed and the tracker has read none of its facts
}

// TracedFact is a fact with what became of it.
type TracedFact struct {
	tracker.Fact
	Why      string          `json:"why,omitempty"` // its owner stated it, in the owner's words
	Verdicts []TracedVerdict `json:"verdicts"`      // of those who listen to it, in the choreography's order
}

// TracedVerdict is what a consumer decided about a fact. Without a verdict it has not handled it yet, or has not answered.
type TracedVerdict struct {
	Participant event.Participant `json:"participant"`
	inspect.Verdict
}

// TracedCall is a call to a provider, and whose it is.
type TracedCall struct {
	Participant event.Participant `json:"participant"`
	intent.CallView
}

// TracedAction is what a person did, and at whose service.
type TracedAction struct {
	Participant event.Participant `json:"participant"`
	audit.Entry
}

// Missing names a participant that did not answer, so that nobody takes its silence for "nothing".
type Missing struct {
	Participant event.Participant `json:"participant"`
	Reason      string            `json:"reason"`
}

// inspectWithin bounds the question to one participant: a trace without it is better than none.
const inspectWithin = 1500 * time.Millisecond

// silence says shortly why a participant has not answered: the addresses and queries in an error are of no use beside its name.
func silence(err error) string {
	var failed *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at its address"
	case errors.As(err, &failed):
		return failed.Err.Error()
	}
	return err.Error()
}

// trace is everything about an order, and the order as the orders service has it; nil when that did not answer. One that the view knows nothing of
// is told as the orders service has it, with what keeps it from the view; when that has no such order either, the error is tracker.ErrUnknown.
func (s *server) trace(ctx context.Context, no event.OrderNo) (Trace, *written, error) {
	told, asked := s.written(ctx, no)
	story, err := s.tracker.Timeline(ctx, no)
	unread := errors.Is(err, tracker.ErrUnknown)
	switch {
	case err != nil && !unread:
		return Trace{}, told, err
	case unread && asked != nil:
		return Trace{}, nil, asked
	case unread && told == nil:
		return Trace{}, nil, err
	case unread:
		story = tracker.Timeline{
			Order: no, Status: told.Status, StatusText: told.StatusText, NeedsAttention: told.NeedsAttention,
			Customer: told.Customer, Currency: told.Currency, Total: told.Total, PlacedAt: told.PlacedAt, Facts: []tracker.Fact{},
		}
	}
	t := s.traceStory(ctx, story)
	t.Unread = unread
	if told != nil {
		if w, found := s.ahead(ctx, story, told); found {
			t.Waits = append([]TracedWait{w}, t.Waits...)
		}
	}
	return t, told, nil
}

// traceStory asks everybody about the order of a timeline.
func (s *server) traceStory(ctx context.Context, story tracker.Timeline) Trace {
	t := Trace{Timeline: story, Facts: make([]TracedFact, len(story.Facts)), Calls: []TracedCall{}}
	all := map[event.Participant]heard{}
	var mu sync.Mutex // guards all
	var wg sync.WaitGroup
	for _, n := range s.services.participants() {
		wg.Go(func() {
			told, err := s.ask(ctx, n, story)
			h := heard{Order: told}
			if err != nil {
				h = heard{silence: silence(err)}
			}
			mu.Lock()
			defer mu.Unlock()
			all[event.Participant(n.Name)] = h
		})
	}
	wg.Wait()
	verdicts := map[event.Participant]map[event.ID]inspect.Verdict{}
	for who, h := range all {
		if h.silence != "" {
			t.Missing = append(t.Missing, Missing{who, h.silence})
		}
		verdicts[who] = h.verdicts()
		for _, c := range h.Calls {
			t.Calls = append(t.Calls, TracedCall{who, c})
		}
		for _, e := range h.Audit {
			t.Audit = append(t.Audit, TracedAction{who, e})
		}
	}
	for i, f := range story.Facts {
		t.Facts[i] = TracedFact{Fact: f, Why: verdicts[f.Owner][f.CausationID].Why, Verdicts: []TracedVerdict{}}
		for _, who := range listeners(f) {
			t.Facts[i].Verdicts = append(t.Facts[i].Verdicts, TracedVerdict{who, verdicts[who][f.ID]})
		}
	}
	slices.SortFunc(t.Missing, func(a, b Missing) int { return cmp.Compare(a.Participant, b.Participant) })
	slices.SortFunc(t.Calls, func(a, b TracedCall) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Participant, b.Participant), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(t.Audit, func(a, b TracedAction) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Participant, b.Participant), cmp.Compare(a.ID, b.ID))
	})
	t.Waits = s.waits(ctx, story, all)
	return t
}

// ask asks one participant about the facts that it listens to.
func (s *server) ask(ctx context.Context, n named, story tracker.Timeline) (inspect.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	var ids []event.ID
	for _, f := range story.Facts {
		if slices.Contains(listeners(f), event.Participant(n.Name)) {
			ids = append(ids, f.ID)
		}
	}
	return inspect.Client{Base: n.URL, HTTP: s.http}.Order(ctx, story.Order, ids)
}

// listeners are those who react to a fact of this owner.
func listeners(f tracker.Fact) (who []event.Participant) {
	for _, p := range choreography.Participants() {
		if choreography.Listens(p, f.Type) && slices.Contains(choreography.StatedBy(f.Type, p), f.Owner) {
			who = append(who, p)
		}
	}
	return who
}
