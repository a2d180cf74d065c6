package deploy_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/deploy"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func password(role string) string { return "secret-" + role }

func connect(t *testing.T, dsn string, err error) *pgx.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Databases and roles are made by several at once and again; each role can do what it needs and nothing else (D3, G2, D7).
func TestEnsure(t *testing.T) {
	t.Parallel()
	s := deploy.Server{Admin: pgtest.Server(t).DSN(), Password: password}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var together sync.WaitGroup
	for range 3 {
		together.Go(func() {
			if err := s.Ensure(t.Context(), log, nil); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if err := s.Ensure(t.Context(), log, nil); err != nil {
		t.Fatal("once more:", err)
	}

	const denied = "42501"
	for _, db := range deploy.Databases() {
		dsn, err := s.URL(db.Name, db.Name)
		conn := connect(t, dsn, err)
		try := func(want, sql string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), sql); pg.Code(err) != want {
				t.Errorf("%s: %s: %v, want SQLSTATE %q", db.Name, sql, err, want)
			}
		}
		try(denied, `CREATE TABLE mine (n int)`)
		want := "force_generic_plan off"
		if db.Name == "tracker" {
			want = "force_custom_plan on"
		}
		var mode string
		if err := conn.QueryRow(t.Context(), `SELECT current_setting('plan_cache_mode') || ' ' || current_setting('enable_seqscan')`).Scan(&mode); err != nil || mode != want {
			t.Errorf("%s: statements are planned %s (%v), want %s", db.Name, mode, err, want)
		}
		if db.Name == "providers" { // it works as its owner
			dsn, err := s.Owner(db.Name)
			owner := connect(t, dsn, err)
			if err := owner.QueryRow(t.Context(), `SELECT current_setting('plan_cache_mode')`).Scan(&mode); err != nil || mode != "force_generic_plan" {
				t.Errorf("%s: its owner's statements are planned %s (%v)", db.Name, mode, err)
			}
		}
		if db.Outbox {
			try("", `INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'x', '1', 'X')`)
			try(denied, `UPDATE outbox SET type = 'Y'`)
			try(denied, `DELETE FROM outbox`)
			try(denied, `TRUNCATE outbox`)
		}
		if db.Inbox {
			try("", `DELETE FROM inbox`)
			try("", `UPDATE partition_owner SET epoch = 1`)
			try("", `INSERT INTO dead_letters (consumer, topic_id, topic, partition, "offset", occurred_at, recorded_at, reason)
			         VALUES ('x', gen_random_uuid(), 't', 0, 0, now(), now(), 'r')`)
		}
		if db.States {
			try("", `UPDATE order_states SET phase = ''`)
		}
		if db.Calls {
			try("", `UPDATE calls SET phase = ''`)
			try(denied, `UPDATE call_attempts SET n = 0`)
			try(denied, `DELETE FROM call_attempts`)
		}
	}

	// Nobody else gets in, and cdc reads and prunes outboxes alone.
	dsn, err := s.URL("billing", "fraud")
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), dsn); pg.Code(err) != denied {
		t.Errorf("fraud connects to billing's database: %v", err)
		if err == nil {
			conn.Close(t.Context())
		}
	}
	dsn, err = s.URL("billing", deploy.CDC)
	cdc := connect(t, dsn, err)
	if _, err := cdc.Exec(t.Context(), `DELETE FROM outbox`); err != nil {
		t.Error("cdc prunes:", err)
	}
	if _, err := cdc.Exec(t.Context(), `SELECT order_no FROM order_states`); pg.Code(err) != denied {
		t.Errorf("cdc reads states: %v", err)
	}
}
