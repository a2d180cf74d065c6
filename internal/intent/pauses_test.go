package intent

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// Two workers who record pauses of the same providers at once do not wait for each other in a ring.
func TestPausesAreRecordedInOneOrder(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	if err := pg.Migrate(t.Context(), dsn, Schema()); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(t.Context(), dsn, pg.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 20 {
		var workers sync.WaitGroup
		for range 2 {
			rows := &endRows{pauses: map[string]float64{}}
			for i := range 20 {
				rows.pauses[fmt.Sprintf("provider %d", i)] = 1
			}
			workers.Go(func() {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return rows.write(t.Context(), tx, "worker") })
				if err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
	}
}
