package tracker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/services/orders/order"
)

func TestStoreKeepsTheWholeStory(t *testing.T) {
	t.Parallel()
	tr, _ := open(t)
	tale := declined(8842)
	tr.fold(t, tale.facts[:2]...)
	tr.fold(t, tale.facts[2:]...)

	got, err := tr.Timeline(context.Background(), 8842)
	if err != nil {
		t.Fatal(err)
	}
	want := Fold(8842, read(tale.facts), choreography.DefaultDurations(), time.Now())
	ignore := cmpopts.IgnoreFields(Fact{}, "Topic", "Partition", "Offset", "Seq", "RecordedAt", "FoldedAt", "Body")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
	last := got.Facts[len(got.Facts)-1]
	if last.Topic != "billing.events" || last.Offset != 2 || last.Seq != 5 || string(last.Body) != `{"reason":"insufficient funds"}` || last.FoldedAt.IsZero() {
		t.Errorf("the last fact is kept as %+v", last)
	}
	if _, err := tr.Timeline(context.Background(), 1); !errors.Is(err, ErrUnknown) {
		t.Errorf("a timeline of an order that nobody knows: %v", err)
	}
	rest, err := tr.Facts(context.Background(), 8842, 3)
	if err != nil || len(rest) != 2 || rest[0].Seq != 4 {
		t.Errorf("facts after 3: %v, %v", rest, err)
	}
}

// What the inbox has forgotten, the natural key absorbs (D6).
func TestFactFoldedAgainChangesNothing(t *testing.T) {
	t.Parallel()
	tr, _ := open(t)
	tale := confirmed(7)
	tr.fold(t, tale.facts...)
	before, err := tr.Timeline(context.Background(), 7)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(tale.facts)
	tr.fold(t, tale.facts...)
	after, err := tr.Timeline(context.Background(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("folding again changed the story:\n%s", diff)
	}
}

// An unreadable fact costs the others of its batch nothing (G11).
func TestUnreadableFactIsADeadLetter(t *testing.T) {
	t.Parallel()
	tr, _ := open(t)
	tale := placed(3).say(event.Inventory, event.StockReserved{Reservation: "R"})
	good, bad := record(t, tale.facts[0], 0), record(t, tale.facts[1], 1)
	bad.Value = []byte("rubbish")
	var verdicts []inbox.Verdict
	err := pg.InTx(context.Background(), tr.db, "fold", func(tx pgx.Tx) (err error) {
		verdicts, err = tr.Handle(context.Background(), tx, []inbox.Fact{bad, good})
		return err
	})
	if err != nil || verdicts[0].Outcome != inbox.Dead || verdicts[0].Reason != "undecodable" || verdicts[1].Outcome == inbox.Dead {
		t.Errorf("verdicts %v, %v", verdicts, err)
	}
	if story, err := tr.Timeline(context.Background(), 3); err != nil || len(story.Facts) != 1 {
		t.Errorf("the good fact: %v, %v", story, err)
	}
}

// A customer may be called anything (UI-01); PostgreSQL's text takes all but NUL.
func TestStrangeTexts(t *testing.T) {
	t.Parallel()
	tr, _ := open(t)
	tale := placed(4)
	f := tale.facts[0].Fact.(event.OrderPlaced)
	f.Customer = "nul\x00 <script>\u2028 \\u0000 '\"; 名"
	tale.facts[0].Fact = f
	tr.fold(t, tale.facts...)
	story, err := tr.Timeline(context.Background(), 4)
	if err != nil || story.Customer != f.Customer {
		t.Errorf("customer %q, %v", story.Customer, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tr, _ := open(t)
	// Deadlines lie in the past, so whoever waits is overdue; the confirmed ones do not.
	for no := event.OrderNo(1); no <= 5; no++ {
		tr.fold(t, confirmed(no).facts...)
	}
	tr.fold(t, placed(6).say(event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "?"}).facts...)
	tr.fold(t, placed(73314510714175488).facts...) // UI-02
	yes, no := true, false
	tests := map[string]struct {
		filter Filter
		want   []event.OrderNo
		next   event.OrderNo
	}{
		"all":          {Filter{}, []event.OrderNo{73314510714175488, 6, 5, 4, 3, 2, 1}, 0},
		"first page":   {Filter{Limit: 3}, []event.OrderNo{73314510714175488, 6, 5}, 5},
		"second page":  {Filter{Limit: 3, After: 5}, []event.OrderNo{4, 3, 2}, 2},
		"last page":    {Filter{Limit: 3, After: 2}, []event.OrderNo{1}, 0},
		"full page":    {Filter{Limit: 7}, []event.OrderNo{73314510714175488, 6, 5, 4, 3, 2, 1}, 0},
		"by status":    {Filter{Status: order.Confirmed, Limit: 2}, []event.OrderNo{5, 4}, 4},
		"attention":    {Filter{Attention: true}, []event.OrderNo{73314510714175488, 6}, 0},
		"ended":        {Filter{Ended: &yes, From: 4}, []event.OrderNo{5, 4}, 0},
		"under way":    {Filter{Ended: &no}, []event.OrderNo{73314510714175488, 6}, 0},
		"none of them": {Filter{Status: order.Failed}, nil, 0},
	}
	for name, test := range tests {
		entries, next, err := tr.List(ctx, test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []event.OrderNo
		for _, e := range entries {
			got = append(got, e.Number)
		}
		if !slices.Equal(got, test.want) || next != test.next {
			t.Errorf("%s: %v, next %d; want %v, %d", name, got, next, test.want, test.next)
		}
	}
	entries, _, err := tr.List(ctx, Filter{Limit: 2})
	if err != nil || !entries[1].NeedsAttention || entries[1].Status != order.Compensating || entries[1].WaitsFor != "billing/payment" || entries[0].NeedsAttention || !entries[0].Overdue {
		t.Errorf("entries %+v, %v", entries, err)
	}
	counts, err := tr.Counts(ctx)
	if err != nil || counts.Total != 7 || counts.ByStatus[order.Confirmed] != 5 || counts.Attention != 2 || counts.Person != 1 || counts.Overdue != 2 || counts.Waiting["billing/payment"] != 1 {
		t.Errorf("counts %+v, %v", counts, err)
	}
}

// Who has written reads what they wrote, as soon as it is folded (D10).
func TestWaitFor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tr, dsn := open(t)
	tale := placed(9)
	id := tale.facts[0].ID
	late, err := tr.WaitFor(ctx, id, 10*time.Millisecond)
	if err != nil || late.Folded || late.Behind < time.Since(start)-time.Minute {
		t.Errorf("before the fold: %+v, %v", late, err)
	}
	for name, folder := range map[string]*Tracker{"this replica": tr, "another replica": on(t, ctx, dsn)} {
		tale := placed(map[string]event.OrderNo{"this replica": 10, "another replica": 11}[name])
		got := make(chan Position, 1)
		go func() {
			p, err := tr.WaitFor(ctx, tale.facts[0].ID, patience)
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		folder.fold(t, tale.facts...)
		if p := <-got; !p.Folded {
			t.Errorf("folded by %s, and not seen", name)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := tr.WaitFor(gone, event.Derive(start, event.Orders, 12, "x", 0), time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader who left: %v", err)
	}
}

func TestSubscription(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr, _ := open(t)
	one, all, other := tr.Subscribe(20), tr.Subscribe(0), tr.Subscribe(21)
	tr.fold(t, placed(20).facts...)
	tr.fold(t, placed(22).facts...) // bells that nobody hears must not hold up the fold
	for name, s := range map[string]*Subscription{"its watcher": one, "the watcher of all": all} {
		if err := s.wait(ctx, time.Hour); err != nil {
			t.Errorf("%s heard nothing: %v", name, err)
		}
	}
	if len(other.bell) != 0 {
		t.Error("the watcher of another order was woken")
	}
	for _, s := range []*Subscription{one, all, other} {
		s.Close()
	}
	if n := len(tr.hub.subs); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}
