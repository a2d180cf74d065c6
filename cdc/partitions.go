package cdc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// The bound is the literal that pg_get_expr prints; MAXVALUE, and the default
// partition, have none.
const selectPartitions = `
SELECT n.nspname, c.relname, b.bound IS NOT NULL, coalesce(b.bound < now() - make_interval(secs => $3), false)
  FROM pg_partitioned_table AS p
  JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
  JOIN pg_inherits AS i ON i.inhparent = p.partrelid
  JOIN pg_class AS c ON c.oid = i.inhrelid
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 CROSS JOIN LATERAL (SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']*)''\)$')::timestamptz AS bound) AS b
 WHERE p.partrelid = $1::regclass AND p.partstrat = 'r' AND p.partnatts = 1 AND a.attname = $2
 ORDER BY n.nspname, c.relname`

// partitions are those of a table that is partitioned by its time.
type partitions struct {
	old     []wal.Table // all of whose rows are as old as they must be
	endless []wal.Table // without an upper bound, so that they never are
	any     bool        // there are some
}

func (p prunable) partitions(ctx context.Context, db *pgx.Conn) (all partitions, err error) {
	rows, err := db.Query(ctx, selectPartitions, quoteTable(p.table), p.column, p.after.Seconds())
	if err != nil {
		return all, fmt.Errorf("read the partitions of table %s: %w", p.table, err)
	}
	var t wal.Table
	var bounded, old bool
	if _, err := pgx.ForEachRow(rows, []any{&t.Schema, &t.Name, &bounded, &old}, func() error {
		all.any = true
		switch {
		case old:
			all.old = append(all.old, t)
		case !bounded:
			all.endless = append(all.endless, t)
		}
		return nil
	}); err != nil {
		return all, fmt.Errorf("read the partitions of table %s: %w", p.table, err)
	}
	return all, nil
}

// dropPartitions drops the old ones.
func (h *housekeeper) dropPartitions(ctx context.Context, db *pgx.Conn, old []wal.Table, safe string) error {
	for _, t := range old {
		if err := h.dropPartition(ctx, db, t, safe); err != nil {
			return err
		}
	}
	return nil
}

// lockTries is how often a partition is tried to be dropped. Each try may hold
// writers of the outbox up for dropPatience.
const (
	lockTries    = 20
	dropPatience = 100 * time.Millisecond
)

func (h *housekeeper) dropPartition(ctx context.Context, db *pgx.Conn, t wal.Table, safe string) error {
	for range h.tries {
		unpublished, err := tryDrop(ctx, db, t, safe)
		switch state := sqlState(err); {
		case err == nil && unpublished > 0:
			h.done.Kept = append(h.done.Kept, fmt.Sprintf("%s stays: %d rows of it are not known to be published", t, unpublished))
			return nil
		case err == nil:
			h.done.Partitions = append(h.done.Partitions, t.String())
			h.log.Info("dropped partition", "partition", t.String())
			return nil
		case state != lockNotAvailable && !strings.HasPrefix(state, "40"):
			return fmt.Errorf("drop partition %s: %w", t, err)
		}
		if err := h.pause(ctx); err != nil {
			return err
		}
	}
	h.done.Kept = append(h.done.Kept, fmt.Sprintf("%s stays: it, or the outbox, was in use at each of %d tries", t, h.tries))
	return nil
}

const lockNotAvailable = "55P03"

// tryDrop drops a partition whose rows are all published, in one transaction.
// While it counts them it holds up only those who write to that partition,
// which is too old to be written to. For the drop it needs the outbox alone for
// a moment, and gives up after dropPatience.
func tryDrop(ctx context.Context, db *pgx.Conn, t wal.Table, safe string) (unpublished int, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		name := quoteTable(t)
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; LOCK TABLE %s IN SHARE MODE",
			dropPatience.Milliseconds(), name), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE age(xmin) <= age(($1::text::xid8)::xid)", name), safe).Scan(&unpublished); err != nil || unpublished > 0 {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE "+name)
		return err
	})
	return unpublished, err
}
