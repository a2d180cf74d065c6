package inspect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

// The outbox is shown from its newest row on, page by page, with the times of commits where the server keeps them.
func TestOutbox(t *testing.T) {
	t.Parallel()
	for name, tracks := range map[string]bool{"times of commits": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Server(t)
			if tracks {
				exec(t, server.DSN(), `ALTER SYSTEM SET track_commit_timestamp = on`)
				if err := server.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			exec(t, server.DSN(), outbox.Schema)
			db, err := pgxpool.New(t.Context(), server.DSN())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			now := time.Now().Add(-time.Minute)
			var want []event.ID
			for n := range 7 {
				at := event.Derive(now.Add(time.Duration(n)*time.Second), event.Billing, event.OrderNo(n+1), "x", 0)
				want = append([]event.ID{at}, want...)
				if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
					return outbox.Append(t.Context(), tx, outbox.Row{ID: at, AggregateType: "billing", AggregateID: "8842", Type: "PaymentTaken"})
				}); err != nil {
					t.Fatal(err)
				}
			}
			mux := http.NewServeMux()
			inspect.Source{Participant: event.Billing, DB: db, States: true}.Routes(mux)
			api := httptest.NewServer(mux)
			t.Cleanup(api.Close)
			client := inspect.Client{Base: api.URL}
			var got []inspect.OutboxRow
			for before := (event.ID{}); ; {
				page, ok, err := client.Outbox(t.Context(), before, 3)
				if err != nil || !ok {
					t.Fatalf("%t, %v", ok, err)
				}
				got = append(got, page...)
				if len(page) < 3 {
					break
				}
				before = page[2].ID
			}
			if len(got) != len(want) {
				t.Fatalf("%d rows, want %d", len(got), len(want))
			}
			for i, r := range got {
				if r.ID != want[i] || r.Topic != "billing.events" || r.Key != "8842" || r.Type != "PaymentTaken" || r.OccurredAt.IsZero() || r.CommittedAt.IsZero() == tracks {
					t.Errorf("row %d: %+v", i, r)
				}
				if tracks && i > 0 && !r.CommittedAt.Before(got[i-1].CommittedAt) {
					t.Errorf("row %d was committed at %s, and the next one at %s", i, r.CommittedAt, got[i-1].CommittedAt)
				}
			}
			if _, _, err := client.Outbox(t.Context(), event.ID{1}, 100000); err == nil {
				t.Error("a page of 100,000 rows is given")
			}
		})
	}
}

func exec(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}
