package gap_test

import (
	"strings"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/gap"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/tracker"
)

var (
	now    = time.Date(2026, 1, 12, 9, 30, 0, 0, time.UTC)
	placed = tracker.Fact{
		ID: event.Derive(now, event.Orders, 1, "OrderPlaced", 0), Type: "OrderPlaced", Owner: event.Orders,
		Topic: "orders.events", Partition: 3, Offset: 40, RecordedAt: now.Add(-9 * time.Second),
	}
	scheduled = tracker.Fact{
		ID: event.Derive(now, event.Shipping, 1, "ShipmentScheduled", 0), Type: "ShipmentScheduled", Owner: event.Shipping,
		Topic: "shipping.events", Partition: 1, Offset: 7, RecordedAt: now.Add(-8 * time.Second),
	}
	taken = inspect.Stated{ID: event.Derive(now, event.Billing, 1, "PaymentTaken", 0), Type: "PaymentTaken", OccurredAt: now.Add(-time.Second)}
)

// evidence is of an order that waits for its payment, which billing is at.
func evidence() gap.Evidence {
	ended := now.Add(-4 * time.Second)
	return gap.Evidence{
		Wait: tracker.Wait{
			Owner: event.Billing, Step: event.PaymentStep, Expects: []event.Type{"PaymentTaken", "PaymentDeclined"}, Since: now.Add(-8 * time.Second), Until: now.Add(time.Minute),
		},
		Facts:    []tracker.Fact{placed, scheduled},
		Verdicts: map[event.ID]inspect.Verdict{placed.ID: {Verdict: "remembered"}, scheduled.ID: {Verdict: "applied"}},
		Calls: []intent.CallView{{
			Step: event.PaymentStep, Op: decision.Do, Provider: "pay-standard", Phase: decision.Attempting, CreatedAt: now.Add(-6 * time.Second),
			Attempts: []intent.AttemptView{{N: 1, StartedAt: now.Add(-5 * time.Second), EndedAt: &ended, Status: 503, Result: decision.Busy}},
		}},
		Observed: func(string, int32) (int64, bool) { return 100, true },
		Viewed:   func(event.ID) inspect.Verdict { return inspect.Verdict{} },
		Unread:   func() int64 { return 0 },
		Now:      now,
	}
}

// Each gap is told from the others by what the parties keep (G10).
func TestClassify(t *testing.T) {
	t.Parallel()
	silent := func(e *gap.Evidence) { e.Silence, e.Verdicts, e.Calls, e.Stated = "no answer in time", nil, nil, nil }
	for name, c := range map[string]struct {
		change func(*gap.Evidence)
		kind   gap.Kind
		who    event.Participant
		why    string
	}{
		"published by nobody": {func(e *gap.Evidence) { e.Stated = []inspect.Stated{taken} }, gap.NotPublished, gap.CDC, "billing has committed PaymentTaken in its outbox, and it is not in billing.events"},
		"stuck, and published by nobody": {func(e *gap.Evidence) {
			e.Stated = []inspect.Stated{{ID: event.Derive(now, event.Billing, 1, "UndoStuck", 0), Type: "UndoStuck"}}
		}, gap.NotPublished, gap.CDC, "committed UndoStuck"},
		"the broker is away": {func(e *gap.Evidence) { e.Stated, e.Unread = []inspect.Stated{taken}, func() int64 { return -1 } }, gap.NotPublished, gap.CDC, "cannot be asked"},
		"the view is behind": {func(e *gap.Evidence) { e.Stated, e.Unread = []inspect.Stated{taken}, func() int64 { return 3 } }, gap.NotConsumed, "tracker", "the tracker has 3 records of billing.events to read"},
		"published and folded": {func(e *gap.Evidence) {
			e.Stated, e.Calls = []inspect.Stated{{ID: scheduled.ID, Type: "PaymentTaken"}}, nil
		}, gap.InProgress, event.Billing, "has taken up all"},
		"dead in the view": {func(e *gap.Evidence) {
			e.Stated, e.Viewed = []inspect.Stated{taken}, func(event.ID) inspect.Verdict { return inspect.Verdict{Verdict: "dead", Why: "byte 0", Letter: 3} }
		}, gap.Failed, "tracker", "tracker set PaymentTaken aside as dead letter tracker/3"},
		"not handled": {func(e *gap.Evidence) { delete(e.Verdicts, scheduled.ID) }, gap.NotConsumed, event.Billing, "billing has not handled ShipmentScheduled, which is in shipping.events/1 at 7"},
		"dead": {func(e *gap.Evidence) {
			e.Verdicts[scheduled.ID] = inspect.Verdict{Verdict: "dead", Why: "byte 0", Letter: 12}
		}, gap.Failed, event.Billing, "dead letter billing/12: byte 0"},
		"frozen before":      {func(e *gap.Evidence) { silent(e); e.Observed = func(string, int32) (int64, bool) { return 7, true } }, gap.NotConsumed, event.Billing, "does not answer: no answer in time"},
		"never committed":    {func(e *gap.Evidence) { silent(e); e.Observed = func(string, int32) (int64, bool) { return 0, true } }, gap.NotConsumed, event.Billing, "does not answer"},
		"frozen after":       {func(e *gap.Evidence) { silent(e) }, gap.InProgress, event.Billing, "how far it is nobody knows"},
		"frozen after, late": {func(e *gap.Evidence) { silent(e); e.Wait.Until = now.Add(-time.Second) }, gap.Overdue, event.Billing, "does not answer"},
		"failing":            {func(*gap.Evidence) {}, gap.Failed, event.Billing, "the payment at pay-standard fails: exchange 1 ended as busy, 503"},
		"stuck": {func(e *gap.Evidence) {
			e.Wait.Person, e.Calls[0].Outcome, e.Calls[0].Result = true, decision.Stuck, "look-up: no answer"
		}, gap.Failed, event.Billing, "the payment at pay-standard is stuck: look-up: no answer"},
		"no such provider":    {func(e *gap.Evidence) { e.Calls[0].Problem = "unknown provider" }, gap.Failed, event.Billing, "cannot go on: unknown provider"},
		"calling":             {func(e *gap.Evidence) { e.Calls[0].Attempts = nil }, gap.InProgress, event.Billing, "the call to pay-standard is under way"},
		"calling, late":       {func(e *gap.Evidence) { e.Calls[0].Attempts, e.Wait.Until = nil, now.Add(-time.Second) }, gap.Overdue, event.Billing, "pay-standard is under way; its time is over"},
		"another step's call": {func(e *gap.Evidence) { e.Calls[0].Step = event.StockStep }, gap.InProgress, event.Billing, "billing has taken up all"},
	} {
		e := evidence()
		c.change(&e)
		g := gap.Classify(e)
		if g.Kind != c.kind || g.Who != c.who || !strings.Contains(g.Why, c.why) {
			t.Errorf("%s: %s, %s: %s; want %s, %s: %s", name, g.Kind, g.Who, g.Why, c.kind, c.who, c.why)
		}
	}
}
