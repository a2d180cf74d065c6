package intent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/providertest"
)

func TestPlanIsIdempotent(t *testing.T) {
	b := newBench(t)
	changed := do(1)
	changed.Intent.Body = charge{1, 999}
	b.plan(do(1), undo(1), do(2), do(1))
	b.plan(do(2), changed, do(3))
	got := value[string](b, `SELECT string_agg(key || ' ' || COALESCE(convert_from(body, 'UTF8'), '-'), ', ' ORDER BY key)
		FROM calls LEFT JOIN call_bodies ON call_id = id`)
	want := `payment-1-0 {"order":1,"amount":100}, payment-1-0-undo -, payment-2-0 {"order":2,"amount":100}, payment-3-0 {"order":3,"amount":100}`
	if got != want {
		t.Errorf("calls:\n%s\nwant:\n%s", got, want)
	}
}

func TestPlanBelongsToTheTransaction(t *testing.T) {
	b := newBench(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := intent.Plan(t.Context(), tx, []intent.Planned{do(1)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, "SELECT (SELECT count(*) FROM calls) + (SELECT count(*) FROM call_bodies)"); n != 0 {
		t.Errorf("%d rows are left of a transaction that was rolled back", n)
	}
	bad := do(1)
	bad.Intent.Body = func() {}
	err = pg.InTx(t.Context(), b.pool, "plan", func(tx pgx.Tx) error { return intent.Plan(t.Context(), tx, []intent.Planned{bad}) })
	if err == nil || !strings.Contains(err.Error(), "payment-1-0") {
		t.Errorf("a body that is no JSON: %v", err)
	}
}

// TestTwoPlannersDoNotDeadlock: the same keys in opposite orders.
func TestTwoPlannersDoNotDeadlock(t *testing.T) {
	b := newBench(t)
	first, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := intent.Plan(t.Context(), first, []intent.Planned{do(2), do(1)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- pg.InTx(t.Context(), b.pool, "plan", func(tx pgx.Tx) error {
			return intent.Plan(t.Context(), tx, []intent.Planned{do(1), do(2), do(3)})
		})
	}()
	b.until("the second waits for the first", func() bool {
		return value[int](b, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") > 0
	})
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, "SELECT count(*) FROM calls"); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// TestStuckCallIsTriedAgain: a fresh budget, the same key; a do is not begun anew but ended by key, and the answer carries the
// request that asked for it.
func TestStuckCallIsTriedAgain(t *testing.T) {
	request := event.Derive(time.UnixMilli(1_700_000_000_000), event.Billing, 1, "retry", 0)
	for _, c := range []struct {
		name   string
		plan   intent.Planned
		script []providertest.Answer
		again  providertest.Answer
		answer string
		trail  []string
	}{
		{"undo", undo(1), []providertest.Answer{busy, busy}, undone,
			"1 payment undo SUCCEEDED ch_1", []string{"ATTEMPT busy", "ATTEMPT busy", "ATTEMPT ok"}},
		{"do", do(1), []providertest.Answer{broken, broken, broken}, ended,
			"1 payment do FAILED look-up: the connection broke before the answer", []string{"ATTEMPT lost", "ASK lost", "ASK lost", "END ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			cfg := quick()
			cfg.Undos, cfg.Asks = 2, 2
			p := providertest.Start(t, c.script...)
			w := b.start(cfg, provided(t, p.URL, 5*time.Second))
			b.plan(c.plan)
			w.Wake()
			if got := b.answers(1); !strings.Contains(got[0], "STUCK") {
				t.Fatalf("answers %v", got)
			}
			p.Then(c.again)
			again := c.plan
			again.Intent.Again, again.CausationID, again.Hop = true, request, 0
			b.plan(again)
			b.plan(again) // a second retry, while the first is under way or after it, does nothing
			w.Wake()
			if diff := cmp.Diff(c.answer, b.answers(2)[1]); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			b.plan(again)
			w.stop()
			if diff := cmp.Diff(c.trail, b.trail(1)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if got := value[[16]byte](b, "SELECT causation FROM answered WHERE id = 2"); event.ID(got) != request {
				t.Errorf("the answer is because of %s, want %s", event.ID(got), request)
			}
			for _, r := range p.Requests() {
				if r.Key() != "" && r.Key() != c.plan.Key() {
					t.Errorf("key %s", r.Key())
				}
			}
		})
	}
}

// TestRetryAfterPruning: a stuck call whose record is gone is planned in the form in which it would have been revived.
func TestRetryAfterPruning(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, ended)
	again := do(1)
	again.Intent.Again = true
	b.plan(again)
	b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.answers(1)
	if diff := cmp.Diff([]string{"END ok"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

func TestCallsShowEverything(t *testing.T) {
	b := newBench(t)
	slow := providertest.JSON(429, `{"code":"slow_down"}`)
	slow.Header.Set("Retry-After", "0")
	slow.Header.Set("X-Secret", "hunter2")
	p := providertest.Start(t, slow, providertest.Answer{Status: 402, Body: "{\"code\":\"no\",\"m\":\"\x00\xff\"}"})
	planned := do(1)
	planned.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b.plan(planned)
	b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.answers(1)
	calls, err := intent.Calls(t.Context(), b.pool, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || len(calls[0].Attempts) != 2 {
		t.Fatalf("calls: %+v", calls)
	}
	text, err := json.Marshal(calls)
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%v: %s", err, text)
	}
	c, a := calls[0], calls[0].Attempts[1]
	got := []any{c.Order, c.Key, c.Provider, c.Outcome, c.Result, c.Phase, c.DueAt == nil, c.EndedAt != nil, c.LeaseOwner,
		a.N, a.Kind, a.Method, a.URL, a.Status, a.Result, a.Response, a.EndedAt.Before(a.StartedAt), a.DurationMS > 0,
		a.RequestHeader["Idempotency-Key"], a.RequestHeader["Traceparent"], calls[0].Attempts[0].ResponseHeader["Retry-After"]}
	want := []any{event.OrderNo(1), "payment-1-0", "pay", decision.Declined, "HTTP 402 Payment Required", decision.Over, true, true, "",
		2, decision.Attempting, "POST", p.URL + "/pay/charges", 402, decision.Refusal, "{\"code\":\"no\",\"m\":\"\uFFFD\uFFFD\"}", false, true,
		"payment-1-0", planned.TraceParent, "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := intent.Calls(t.Context(), b.pool, 2); err != nil || len(none) != 0 {
		t.Errorf("calls of an order without any: %v, %v", none, err)
	}
}

func TestPruneInBatches(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	var all []intent.Planned
	for n := range 25 {
		all = append(all, do(1+event.OrderNo(n)))
	}
	b.plan(all...)
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.answers(25)
	w.stop()
	b.plan(do(100)) // still open
	b.exec("UPDATE calls SET outcome = 'STUCK' WHERE order_no = 1")
	if n, err := intent.Prune(t.Context(), b.pool, time.Hour, 10); n != 0 || err != nil {
		t.Errorf("pruned %d young calls, %v", n, err)
	}
	if n, err := intent.Prune(t.Context(), b.pool, -time.Hour, 10); n != 24 || err != nil {
		t.Errorf("pruned %d calls, %v, want 24", n, err)
	}
	// Two calls are left, and nothing of those that are gone. How many exchanges a call had depends on the machine.
	got := value[string](b, `SELECT (SELECT count(*) FROM calls) || ' ' ||
		(SELECT count(*) FROM call_bodies WHERE call_id NOT IN (SELECT id FROM calls)) || ' ' ||
		(SELECT count(*) FROM call_attempts WHERE call_id NOT IN (SELECT id FROM calls))`)
	if got != "2 0 0" {
		t.Errorf("calls left, bodies and attempts of others: %s, want 2 0 0", got)
	}
}
