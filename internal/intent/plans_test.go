package intent

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// TestPlansOfAnEmptyTableAreKept has the statements planned as a service plans them: once, by the settings of its role (deploy), on tables
// without rows. Whatever the planner believes of those, each call must be found by its key.
func TestPlansOfAnEmptyTableAreKept(t *testing.T) {
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
	for _, sql := range []string{
		"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off", "SET enable_hashjoin = off", "SET enable_mergejoin = off",
		"PREPARE record (bigint[], bigint[], text[], text[], text[], text[], boolean[], float8[]) AS " + recordSQL,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := conn.Query(t.Context(), "EXPLAIN EXECUTE record ('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')", pgx.QueryExecModeSimpleProtocol)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Cond: (id = v.id)") {
		t.Errorf("calls are recorded by\n%s", text)
	}
}
