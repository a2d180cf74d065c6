package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// TestRollingUpgrade has old and new code in one group while the handler's table is migrated under load: expand, deploy, contract. Old code runs on the new schema and new code on the old, no
// fact is lost, doubled or set aside.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	// The migration: effects.key becomes effects.order_no, a number.
	migrate := func(ddl string) {
		t.Helper()
		if _, err := w.conn.Exec(t.Context(), ddl); err != nil {
			t.Fatal(err)
		}
	}
	oldCode := apply("c")
	newCode := func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		for _, f := range facts {
			// Both columns, as long as old code may read the one that goes.
			if _, err := tx.Exec(ctx, `INSERT INTO effects (consumer, event_id, key, "offset", order_no) VALUES ('c', $1, $2, $3, length($2))`, f.ID, f.Key, f.Offset); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	finalCode := func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		for _, f := range facts {
			if _, err := tx.Exec(ctx, `INSERT INTO effects (consumer, event_id, "offset", order_no) VALUES ('c', $1, $2, $3)`, f.ID, f.Offset, len(f.Key)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	var all []string
	feed := func() {
		batch := names(fmt.Sprintf("%d-", len(all)), 200)
		w.produce(batch...)
		all = append(all, batch...)
	}
	done := func() { eventually(t, "all effects", func() bool { return w.effects() == len(all) }) }

	_, stopOld1 := w.consume(w.config(), oldCode)
	_, stopOld2 := w.consume(w.config(), oldCode)
	feed()
	migrate(`ALTER TABLE effects ADD COLUMN order_no bigint`) // expand
	feed()
	_, stopNew1 := w.consume(w.config(), newCode)
	feed()
	stopOld1()
	feed()
	_, stopNew2 := w.consume(w.config(), newCode)
	stopOld2()
	feed()
	done()
	migrate(`UPDATE effects SET order_no = length(key) WHERE order_no IS NULL`)
	_, _ = w.consume(w.config(), finalCode)
	feed()
	stopNew1()
	stopNew2()
	done()
	migrate(`ALTER TABLE effects DROP COLUMN key, ALTER COLUMN order_no SET NOT NULL`) // contract
	feed()
	done()
	w.checkOnce("c", all...)
	if n := one[int](w.base, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters: %v", n, many[string](w.base, `SELECT detail FROM dead_letters LIMIT 3`))
	}
}

// TestNewCodeBeforeItsSchema: a deployment in the wrong order waits for its migration instead of setting facts aside, and says what it waits for.
func TestNewCodeBeforeItsSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c, _ := w.consume(w.config(), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		for _, f := range facts {
			if _, err := tx.Exec(ctx, `INSERT INTO effects (consumer, event_id, note) VALUES ('c', $1, 'x')`, f.ID); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	w.produce("a", "b", "c")
	eventually(t, "the consumer to say what it waits for", func() bool {
		return slices.ContainsFunc(c.Status(), func(s Status) bool { return s.State == broker.Waiting && strings.Contains(s.Err, "note") })
	})
	if _, err := w.conn.Exec(t.Context(), `ALTER TABLE effects ADD COLUMN note text`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all effects", func() bool { return w.effects() == 3 })
	w.checkOnce("c", "a", "b", "c")
	if n := one[int](w.base, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
