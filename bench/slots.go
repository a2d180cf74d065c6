package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgserver"
	"chorus/outbox"
)

// slots measures what it costs that each service has a database and so a slot of its own: every slot reads the WAL of all databases.
// The same rows are written to one outbox and decoded once, and to five in five databases and decoded by five slots.
func slots(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "chorus-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when this is root
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return err
	}
	defer server.Stop(context.WithoutCancel(ctx))
	const rows = 100_000
	figures := map[int][]float64{}
	for run := range o.runs {
		for _, n := range []int{1, 5} {
			took, err := decode(ctx, server.DSN(), fmt.Sprintf("r%d_%d", run, n), n, rows)
			if err != nil {
				return err
			}
			figures[n] = append(figures[n], 1e6*took.Seconds()/rows)
		}
	}
	report("decoding by one slot of one database", "µs/row", figures[1])
	report("decoding by five slots of five databases", "µs/row", figures[5])
	return nil
}

// decode writes rows to n outboxes, and returns how long all their slots take to decode them, one after the other.
func decode(ctx context.Context, admin, name string, n, rows int) (took time.Duration, err error) {
	conns := make([]*pgx.Conn, n)
	root, err := pgx.Connect(ctx, admin)
	if err != nil {
		return 0, err
	}
	defer root.Close(context.WithoutCancel(ctx))
	for i := range conns {
		database := fmt.Sprintf("%s_%d", name, i)
		if _, err := root.Exec(ctx, "CREATE DATABASE "+database); err != nil {
			return 0, err
		}
		dsn, err := pg.WithDatabase(admin, database, "", "")
		if err != nil {
			return 0, err
		}
		if conns[i], err = pgx.Connect(ctx, dsn); err != nil {
			return 0, err
		}
		defer conns[i].Close(context.WithoutCancel(ctx))
		if _, err := conns[i].Exec(ctx, outbox.Schema); err != nil {
			return 0, err
		}
		if _, err := conns[i].Exec(ctx, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, database); err != nil {
			return 0, err
		}
	}
	const each = 20 // rows in a transaction
	for i := 0; i < rows/each; i++ {
		if _, err := conns[i%n].Exec(ctx, `
			INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, causationid, hop)
			SELECT gen_random_uuid(), 'bench', g::text, 'Measured', convert_to(repeat('x', 200), 'UTF8'), now(), '1', '', 0 FROM generate_series(1, $1) AS g`, each); err != nil {
			return 0, err
		}
	}
	found := 0
	for i, conn := range conns {
		var changes int
		began := time.Now()
		if err := conn.QueryRow(ctx, `
			SELECT count(*) FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'outbox') AS c
			WHERE get_byte(c.data, 0) = ascii('I')`, fmt.Sprintf("%s_%d", name, i)).Scan(&changes); err != nil {
			return 0, err
		}
		took, found = took+time.Since(began), found+changes
		if _, err := conn.Exec(ctx, `SELECT pg_drop_replication_slot($1)`, fmt.Sprintf("%s_%d", name, i)); err != nil {
			return 0, err
		}
	}
	if found != rows {
		return 0, fmt.Errorf("%d rows decoded of %d", found, rows)
	}
	return took, nil
}
