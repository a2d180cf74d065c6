package participant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// readPlace reads the one request that package decision does not have.
func readPlace(name string, body []byte) (decision.Request, error) {
	if name != "order.Place" {
		return nil, fmt.Errorf("no request %s", name)
	}
	var p order.Place
	err := json.Unmarshal(body, &p)
	return p, err
}

// The log at debug level has every decision in full, once its transaction is committed, and the shipped rules come to the same
// again; other rules are found out (D12). Both of slog's forms can be read.
func TestLoggedDecisionsAreRecomputed(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})
		},
		"JSON": func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			b := newBase(t, event.Billing)
			pool := b.pool(nil)
			d := participant.New(t.Context(), slog.New(handler(&log)), pool, facts(), billing())
			must(t, pool, d, event.Billing, placed(1), screened(1, event.Clear), scheduled(1), cancelled(2), placed(2))
			if err := d.Answer(t.Context(), []intent.Answer{{Order: 1, Answered: taken("ch <1>"), Cause: intent.Cause{CausationID: stranger(1)}}},
				func(context.Context, pgx.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Request(t.Context(), 1, decision.Requested{ID: stranger(2), At: participant.Now(), Request: decision.Resolve{Step: event.PaymentStep, Evidence: "ä \"q\""}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := rolledBack(t, pool, d); err == nil {
				t.Fatal("no error")
			}
			r, err := participant.NewRecomputer(readPlace)
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			other := billing()
			other.Decide = func(n event.OrderNo, s paymentState, in decision.Input) decision.Decision[paymentState] {
				d := billing().Decide(n, s, in)
				d.State.Score++
				return d
			}
			for line := range strings.Lines(log.String()) {
				said, found := participant.FindLine([]byte(strings.TrimSpace(line)))
				if !found {
					t.Errorf("no decision in %s", line)
					continue
				}
				lines++
				if err := participant.Recompute(r, billing().Decide, said); err != nil {
					t.Error(err)
				}
				if participant.Recompute(r, other.Decide, said) == nil {
					t.Errorf("other rules pass: %s", said)
				}
			}
			if lines != 7 {
				t.Errorf("%d decisions, want 7", lines)
			}
		})
	}
}

// rolledBack decides about a fact in a transaction that does not commit.
func rolledBack(t *testing.T, pool interface {
	Begin(context.Context) (pgx.Tx, error)
}, d *participant.Door[paymentState]) error {
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := d.Handle(t.Context(), tx, inboxFacts(placed(9))); err != nil {
			t.Error(err)
		}
		return io.EOF
	})
}

// The requests and timers of orders.
func TestLoggedRequestsAreRecomputed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBase(t, event.Orders)
	pool := b.pool(nil)
	d := participant.New(t.Context(), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), pool, facts(), orders())
	place(t, d, 1, participant.Now().Add(-time.Hour), participant.Now().Add(time.Hour), participant.Now().Add(time.Hour))
	must(t, pool, d, event.Orders, fact(event.Billing, 2, event.PaymentTaken{Payment: "ch-1", Processor: "pay-standard", Amount: 1, Currency: "EUR"}))
	for number, requests := range map[event.OrderNo][]decision.Request{2: {decision.Ship{}, decision.Cancel{By: event.ByCustomer}, decision.Deliver{}}, 3: {decision.Cancel{By: event.ByOperator}}} {
		for _, request := range requests {
			if _, err := d.Request(t.Context(), number, decision.Requested{ID: stranger(50), At: participant.Now(), Request: request}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	due, err := d.Elapsed(t.Context(), participant.Due{}, 10)
	if err != nil || len(due) != 1 {
		t.Fatalf("due %v %v", due, err)
	}
	if err := d.Elapse(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	r, err := participant.NewRecomputer(readPlace)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(log.String()) {
		said, found := participant.FindLine([]byte(strings.TrimSpace(line)))
		if !found {
			t.Errorf("no decision in %s", line)
			continue
		}
		lines++
		if err := participant.Recompute(r, order.Defaults().Decide, said); err != nil {
			t.Error(err)
		}
	}
	if lines != 9 {
		t.Errorf("%d decisions, want 9", lines)
	}
}

// Without debug the log has people's requests and no customer's data.
func TestLogIsQuiet(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBase(t, event.Orders)
	d := participant.New(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), b.pool(nil), facts(), orders())
	place(t, d, 1, participant.Now().Add(time.Hour))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "order=1 input=order.Place verdict=applied") || strings.Contains(got, "ada") {
		t.Errorf("log %q", got)
	}
}
