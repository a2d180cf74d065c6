package tracker

import (
	"context"
	"sync"
	"time"

	"chorus/inbox"
	"chorus/internal/event"
)

// hub tells those who watch orders that something was folded. It tells them to look, not what there is: whoever missed a
// signal, or is slow, or was cut off, finds everything in the database, once.
type hub struct {
	mu   sync.Mutex
	subs map[event.OrderNo]map[*Subscription]struct{} // guarded by mu; under 0 those of all orders
}

// Subscription watches one order, or all.
type Subscription struct {
	order event.OrderNo
	hub   *hub
	bell  chan struct{}
}

// pollEvery is how late a change is seen that another replica folded.
const pollEvery = time.Second

// Subscribe watches an order; 0 watches all. The caller closes it.
func (t *Tracker) Subscribe(order event.OrderNo) *Subscription {
	s := &Subscription{order: order, hub: &t.hub, bell: make(chan struct{}, 1)}
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	if t.hub.subs[order] == nil {
		t.hub.subs[order] = map[*Subscription]struct{}{}
	}
	t.hub.subs[order][s] = struct{}{}
	return s
}

// Wait returns when something may have changed since the last call: at the latest after a second, because
// another replica may have folded it. Its error is that of ctx.
func (s *Subscription) Wait(ctx context.Context) error { return s.wait(ctx, pollEvery) }

func (s *Subscription) wait(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.bell:
	case <-timer.C:
	}
	return ctx.Err()
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs[s.order], s)
	if len(s.hub.subs[s.order]) == 0 {
		delete(s.hub.subs, s.order)
	}
}

// ring wakes the watchers. It never blocks: a bell that has not been heard yet need not ring twice.
func (h *hub) ring(orders map[event.OrderNo]struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watched := range []map[event.OrderNo]struct{}{orders, {0: {}}} {
		for order := range watched {
			for s := range h.subs[order] {
				select {
				case s.bell <- struct{}{}:
				default:
				}
			}
		}
	}
}

// committed is told by the inbox what has just been folded.
func (t *Tracker) committed(facts []inbox.Fact, _ []inbox.Verdict) {
	orders := make(map[event.OrderNo]struct{}, len(facts))
	for _, f := range facts {
		if no, err := event.ParseOrderNo(f.Key); err == nil {
			orders[no] = struct{}{}
		}
	}
	t.hub.ring(orders)
}

// Position says whether the view contains an event.
type Position struct {
	Folded bool
	// Behind is how far the view is behind the event at least: the event's age. Zero when it is folded.
	Behind time.Duration
}

// WaitFor waits until the event has been folded, for max at most: who has just written reads what they wrote (D10).
func (t *Tracker) WaitFor(ctx context.Context, id event.ID, max time.Duration) (Position, error) {
	all := t.Subscribe(0)
	defer all.Close()
	limit, cancel := context.WithTimeout(ctx, max)
	defer cancel()
	for {
		folded, err := t.folded(ctx, id)
		if err != nil || folded {
			return Position{Folded: folded}, err
		}
		if all.wait(limit, 100*time.Millisecond) != nil {
			return Position{Behind: time.Since(id.Time()).Round(time.Millisecond)}, ctx.Err()
		}
	}
}
