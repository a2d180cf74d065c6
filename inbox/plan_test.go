package inbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestLookGoesByTheWholeKey has the ids looked up as a plan has it that was made on a table without rows and kept, as services keep theirs (deploy).
func TestLookGoesByTheWholeKey(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for _, sql := range []string{"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off", "PREPARE look (text, uuid[]) AS " + lookSQL} {
		if _, err := b.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := b.conn.Query(t.Context(), "EXPLAIN EXECUTE look ('me', '{}')", pgx.QueryExecModeSimpleProtocol)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Cond: ((consumer = $1) AND (event_id = e.id))") {
		t.Errorf("ids are looked up by\n%s", text)
	}
}
