package console

import (
	"context"
	"slices"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/gap"
	"chorus/internal/inspect"
	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

// TracedWait is what an order waits for, and why it has not come.
type TracedWait struct {
	tracker.Wait
	Gap gap.Gap `json:"gap"`
}

// heard is what one participant told about an order.
type heard struct {
	inspect.Order
	silence string // why it told nothing
}

func (h heard) verdicts() map[event.ID]inspect.Verdict {
	all := map[event.ID]inspect.Verdict{}
	for _, v := range h.Inbox {
		all[v.EventID] = v
	}
	return all
}

// waits says of each wait of a story which gap it is.
func (s *server) waits(ctx context.Context, story tracker.Timeline, all map[event.Participant]heard) []TracedWait {
	var out []TracedWait
	for _, w := range story.Waits {
		of := all[w.Owner]
		out = append(out, TracedWait{w, gap.Classify(gap.Evidence{
			Wait: w, Facts: story.Facts, Silence: of.silence, Verdicts: of.verdicts(), Stated: of.Stated, Calls: of.Calls, Now: time.Now(),
			Observed: func(topic string, partition int32) (int64, bool) { return s.observed(ctx, w.Owner, topic, partition) },
			Viewed:   func(id event.ID) inspect.Verdict { return s.viewed(ctx, story.Order, id) },
			Unread:   func() int64 { return s.unread(ctx, w.Owner.Topic()) },
		})})
	}
	return out
}

// observed is the next offset that a participant has committed in a partition, as the broker has it.
func (s *server) observed(ctx context.Context, who event.Participant, topic string, partition int32) (int64, bool) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	state, err := s.lag(ctx, string(who), []string{topic})
	if err != nil {
		return 0, false
	}
	for _, l := range state.Lags {
		if l.Topic == topic && l.Partition == partition {
			return max(l.Committed, 0), true // without a commit nothing was handled
		}
	}
	return 0, false
}

// unread is how many records of a topic the tracker has not read; -1 when the broker cannot be asked.
func (s *server) unread(ctx context.Context, topic string) (n int64) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	state, err := s.lag(ctx, tracker.Name, []string{topic})
	if err != nil {
		return -1
	}
	for _, l := range state.Lags {
		n += l.Behind
	}
	return n
}

// viewed is the tracker's own verdict on a fact; none when it has not read it.
func (s *server) viewed(ctx context.Context, no event.OrderNo, id event.ID) inspect.Verdict {
	if id.IsZero() {
		return inspect.Verdict{}
	}
	all := s.everyone()
	told, err := all[len(all)-1].Client.Order(ctx, no, []event.ID{id})
	if err != nil || len(told.Inbox) == 0 {
		return inspect.Verdict{} // the database is the view's own: the page fails by itself
	}
	return told.Inbox[0]
}

// byRequest are the facts that orders states because somebody asked: nobody owes them, so no wait tells that one is missing.
var byRequest = map[order.Status]event.Type{
	order.Placed: "OrderPlaced", order.Cancelling: "OrderCancellationRequested", order.Shipped: "OrderShipped", order.Delivered: "OrderDelivered",
}

// ahead adds a wait for what the orders service has stated and the view has not: its status is one that only a request leads to.
func (s *server) ahead(ctx context.Context, story tracker.Timeline, told *written) (TracedWait, bool) {
	fact, ok := byRequest[told.Status]
	if !ok || slices.ContainsFunc(story.Facts, func(f tracker.Fact) bool { return f.Type == fact }) {
		return TracedWait{}, false
	}
	w := tracker.Wait{Owner: event.Orders, Expects: []event.Type{fact}, Since: told.UpdatedAt, Until: told.UpdatedAt.Add(choreography.DefaultDurations().Fact)}
	w.Overdue = time.Now().After(w.Until)
	stated := inspect.Stated{Type: fact, OccurredAt: told.UpdatedAt}
	if fact == "OrderPlaced" {
		stated.ID, stated.OccurredAt = told.EventID, told.PlacedAt
	}
	g := gap.Classify(gap.Evidence{
		Wait: w, Facts: story.Facts, Stated: []inspect.Stated{stated}, Now: time.Now(),
		Viewed: func(id event.ID) inspect.Verdict { return s.viewed(ctx, story.Order, id) },
		Unread: func() int64 { return s.unread(ctx, event.Orders.Topic()) },
	})
	return TracedWait{w, g}, true
}
