package inbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPlans has statements run as a plan has it that was made on a table without rows and kept, as services keep theirs (deploy): ids are looked up by the whole key, and what
// is old is found by its age.
func TestPlans(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for _, sql := range []string{
		"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off",
		"PREPARE look (text, uuid[]) AS " + lookSQL, "PREPARE prune (text, interval, integer, timestamptz) AS " + pruneSQL,
	} {
		if _, err := b.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for statement, want := range map[string]string{
		"look ('me', '{}')":                           "Index Cond: ((consumer = $1) AND (event_id = e.id))",
		"prune ('me', '30 days', 1000, '2000-01-01')": "Bitmap Index Scan on inbox_age",
	} {
		rows, _ := b.conn.Query(t.Context(), "EXPLAIN EXECUTE "+statement, pgx.QueryExecModeSimpleProtocol)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, want) {
			t.Errorf("%s runs as\n%s", statement, text)
		}
	}
}
