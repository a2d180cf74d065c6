package simulated

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// Effects and accounts are each looked up by their whole key, by a plan that is made on empty tables and kept: a call costs the same however many came before it.
func TestPlans(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	if err := pg.Migrate(t.Context(), dsn, schema); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off",
		"PREPARE effect_key (text, text[]) AS " + loadEffects("key"), "PREPARE effect_id (text, text[]) AS " + loadEffects("id"),
		"PREPARE effect_undo (text, text[]) AS " + loadEffects("undo_key"), "PREPARE account (text, text[], text[]) AS " + loadAccounts,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for statement, want := range map[string]string{
		"effect_key ('p', '{}')":    "Index Cond: ((provider = $1) AND (key = v.value))",
		"effect_id ('p', '{}')":     "Index Cond: ((provider = $1) AND (id = v.value))",
		"effect_undo ('p', '{}')":   "Index Cond: ((provider = $1) AND (undo_key = v.value))",
		"account ('p', '{}', '{}')": "Index Cond: ((provider = $1) AND (customer = v.customer) AND (currency = v.currency))",
	} {
		rows, _ := conn.Query(t.Context(), "EXPLAIN EXECUTE "+statement, pgx.QueryExecModeSimpleProtocol)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, want) {
			t.Errorf("%s runs as\n%s", statement, text)
		}
	}
}
