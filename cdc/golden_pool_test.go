package cdc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pgtest"
)

// databasePool hands out empty databases and takes them back: making two hundred
// would write more than a gigabyte of log, which every slot then reads.
type databasePool struct {
	t *testing.T // outlives those who take

	mu   sync.Mutex
	free []string
}

// take is an empty database until the test ends.
func (p *databasePool) take(t *testing.T) string {
	t.Helper()
	p.mu.Lock()
	var dsn string
	if n := len(p.free); n > 0 {
		dsn, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if dsn == "" {
		dsn = pgtest.Database(p.t)
	}
	t.Cleanup(func() {
		if err := empty(dsn); err != nil {
			t.Logf("database is not used again: %v", err)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, dsn)
	})
	return dsn
}

// empty drops what a case has made: slots, publications, extensions, schemas.
func empty(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for left := 1; left > 0; { // a session that has just ended may hold its slot a moment longer
		if err := db.QueryRow(ctx, `
			SELECT count(*) FILTER (WHERE active)
			  FROM (SELECT active, CASE WHEN NOT active THEN pg_drop_replication_slot(slot_name) END
			          FROM pg_replication_slots WHERE database = current_database()) AS s`).Scan(&left); err != nil {
			return err
		}
	}
	rows, err := db.Query(ctx, `
		SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication
		UNION ALL SELECT format('DROP EXTENSION %I CASCADE', extname) FROM pg_extension WHERE extname <> 'plpgsql'
		UNION ALL SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'`)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, sql := range append(statements, `CREATE SCHEMA public`) {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
