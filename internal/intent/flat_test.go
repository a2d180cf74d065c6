package intent

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// TestCostIsFlat counts the pages that a claim, a look for work and a record touch when few and when many calls are
// stored, without statistics, as in a database that grows fast. The stored calls were live once, so the index still has
// dead entries of them, which nothing has vacuumed.
func TestCostIsFlat(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	if err := pg.Migrate(t.Context(), dsn, Schema()); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	stored := 0
	grow := func(n int) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `
			INSERT INTO calls (order_no, step, op, generation, key, provider, reference, reason, state, phase, due_at, hop, traceparent, tracestate)
			SELECT n, 'payment', 'do', 0, 'payment-' || n, 'pay', '', '', '{}', 'ATTEMPT', now() - CASE WHEN n <= $2::integer - 100 THEN interval '1 hour' ELSE '0' END, 0, '', '' FROM generate_series($1::integer + 1, $2::integer) AS n`,
			stored, n); err != nil {
			t.Fatal(err)
		}
		// All but the last hundred have ended.
		if _, err := conn.Exec(t.Context(), `UPDATE calls SET ended_at = now(), phase = 'OVER', due_at = now() - interval '1 hour' WHERE id <= $1 AND ended_at IS NULL`, n-100); err != nil {
			t.Fatal(err)
		}
		stored = n
	}
	pages := func(sql string, args ...any) int {
		t.Helper()
		var total int
		for range 2 { // the first marks entries as dead
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var plan []byte
			if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql,
				append([]any{pgx.QueryExecModeCacheDescribe}, args...)...).Scan(&plan); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal(plan, &plans); err != nil {
				t.Fatal(err)
			}
			total = plans[0].Plan.Hit + plans[0].Plan.Read
		}
		return total
	}
	cost := func() map[string]int {
		ids, tokens, texts := make([]int64, 20), make([]int64, 20), make([]string, 20)
		states, ended, waits := make([]string, 20), make([]bool, 20), make([]float64, 20)
		for i := range ids {
			ids[i], states[i] = int64(stored-i), "{}"
		}
		return map[string]int{
			"claim":  pages(leaseSQL, "pay", 20, "me", 1.0, time.Now().Add(-slack)),
			"look":   pages(untilDueSQL, "pay", time.Now().Add(-slack)),
			"record": pages(recordSQL, ids, tokens, states, texts, texts, texts, ended, waits),
		}
	}
	grow(1_000)
	few := cost()
	grow(100_000)
	for what, n := range cost() {
		t.Logf("%s: %d pages with 1,000 calls, %d with 100,000", what, few[what], n)
		if n > 2*few[what]+50 {
			t.Errorf("%s: %d pages with 1,000 calls, %d with 100,000", what, few[what], n)
		}
	}
}
