package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"chorus/internal/pg"
	"chorus/internal/pgserver"
)

// seedOrders are placed and carried through for real; stored ones are copies of them.
const seedOrders = 1000

// apart is how far the numbers of a copy lie from those of its original: beyond any number that the run gives out.
const apart = 10_000_000

// mostCopies bounds the copies; the orders that a run places come after them all.
const mostCopies = 1_000_000

// copies says how a row of each table becomes the row of another order, by column; $g is the number of the copy. Columns that are not named stay as they are, as do
// tables: the outbox and the providers' log of calls, which are pruned anyway, and what does not grow with orders.
var copies = map[string]map[string]map[string]string{
	"orders": {
		"order_states": {"order_no": moved("order_no")},
		"orders":       {"order_no": moved("order_no"), "event_id": fresh("event_id")},
		"inbox":        {"event_id": fresh("event_id")},
		"idempotency":  {"scope": "sha256(scope || convert_to($g::text, 'UTF8'))"},
	},
	"inventory": participantTables, "fraud": participantTables, "shipping": participantTables, "billing": participantTables,
	"notifications": {
		"inbox":         {"event_id": fresh("event_id")},
		"notifications": {"id": moved("id"), "order_no": moved("order_no"), "event_id": fresh("event_id")},
	},
	"tracker": {
		"inbox":  {"event_id": fresh("event_id")},
		"orders": {"order_no": moved("order_no")},
		"facts":  {"event_id": fresh("event_id"), "order_no": moved("order_no")},
	},
	"providers": {
		"effect": {"key": "key || '-' || $g", "id": "id || '-' || $g", "order_number": moved("order_number")},
	},
}

var participantTables = map[string]map[string]string{
	"order_states":  {"order_no": moved("order_no")},
	"inbox":         {"event_id": fresh("event_id")},
	"calls":         {"id": moved("id"), "order_no": moved("order_no"), "key": "key || '-' || $g"},
	"call_bodies":   {"call_id": moved("call_id")},
	"call_sent":     {"call_id": moved("call_id")},
	"call_attempts": {"call_id": moved("call_id")},
}

func moved(column string) string { return fmt.Sprintf("%s + %d::bigint * $g", column, apart) }
func fresh(column string) string { return fmt.Sprintf("md5(%s::text || '-' || $g)::uuid", column) }

// flat measures what an order costs all processes when more and more are stored.
func flat(ctx context.Context, o options) (err error) {
	c, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = stopped(c, err) }()
	if _, err := c.load(ctx, seedOrders, 0); err != nil {
		return err
	}
	done := 0 // copies of the seed
	for _, size := range o.sizes {
		to := size / seedOrders
		began := time.Now()
		if err := c.store(ctx, done+1, to); err != nil {
			return fmt.Errorf("store %d orders: %w", size, err)
		}
		fmt.Printf("  %d orders stored after %s\n", size, time.Since(began).Round(time.Second))
		done = to
		if _, err := c.load(ctx, seedOrders, 0); err != nil { // warm
			return err
		}
		var most, cost []float64
		for range o.runs {
			before := cpuSeconds(c.up.Process.Pid)
			l, err := c.load(ctx, o.count, 0)
			if err != nil {
				return err
			}
			most = append(most, l.PerSecond)
			cost = append(cost, 1000*(cpuSeconds(c.up.Process.Pid)-before)/float64(o.count))
		}
		fmt.Printf("  with %d stored orders (load %s)\n", size, load())
		report("  finished", "orders/s", most)
		report("  processor time of all processes", "ms/order", cost)
	}
	return nil
}

// store adds the copies from first to last to every database, as many at a time as there are processors.
func (c *cluster) store(ctx context.Context, first, last int) error {
	text, err := os.ReadFile(filepath.Join(c.data, "ports.json"))
	if err != nil {
		return err
	}
	var ports map[string]int
	if err := json.Unmarshal(text, &ports); err != nil {
		return fmt.Errorf("read the cluster's ports: %w", err)
	}
	admin, err := pgserver.Config{Dir: filepath.Join(c.data, "postgres"), Port: ports["postgres"]}.DSN()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, database := range slices.Sorted(maps.Keys(copies)) {
		group.Go(func() error {
			if err := storeIn(ctx, admin, database, first, last); err != nil {
				return fmt.Errorf("database %s: %w", database, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func storeIn(ctx context.Context, admin, database string, first, last int) error {
	dsn, err := pg.WithDatabase(admin, database, "", "")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `SET synchronous_commit = off; SET maintenance_work_mem = '256MB'; SET max_parallel_maintenance_workers = 0`); err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(copies[database])) {
		if err := copyTable(ctx, conn, table, copies[database][table], first, last); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	if database == "orders" { // new orders come after the stored ones, as they do in life: who watches them reads from the first of them on
		if _, err := conn.Exec(ctx, `SELECT setval('order_numbers', greatest(last_value, $1)) FROM order_numbers`, int64(apart)*mostCopies); err != nil {
			return fmt.Errorf("number new orders after the stored ones: %w", err)
		}
	}
	return nil
}

// atOnce is how many copies of the seed a transaction makes: what publishers decode of it fits into their memory.
const atOnce = 10

// copyTable copies the rows of the seed, builds the indexes anew, and leaves the table as autovacuum would.
func copyTable(ctx context.Context, conn *pgx.Conn, table string, change map[string]string, first, last int) error {
	names, values, err := copiedColumns(ctx, conn, table, change)
	if err != nil {
		return err
	}
	// The originals, kept apart before the first copy is made.
	if first == 1 {
		if _, err := conn.Exec(ctx, `CREATE TABLE seed_`+table+` AS SELECT * FROM `+table); err != nil {
			return err
		}
	}
	rebuild, err := dropIndexes(ctx, conn, table)
	if err != nil {
		return fmt.Errorf("drop the indexes: %w", err)
	}
	insert := fmt.Sprintf(`INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM generate_series($1::integer, $2::integer) AS g, seed_%s`,
		table, strings.Join(names, ", "), strings.Join(values, ", "), table)
	for from := first; from <= last; from += atOnce {
		if _, err := conn.Exec(ctx, insert, from, min(from+atOnce-1, last)); err != nil {
			return err
		}
		if err := published(ctx, conn); err != nil {
			return err
		}
	}
	for _, sql := range append(rebuild, "VACUUM ANALYZE "+table) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// copiedColumns are the columns of a table and, for each, the value in a copy.
func copiedColumns(ctx context.Context, conn *pgx.Conn, table string, change map[string]string) (names, values []string, err error) {
	rows, err := conn.Query(ctx, `SELECT quote_ident(column_name), column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`, table)
	if err != nil {
		return nil, nil, err
	}
	var quoted, name string
	_, err = pgx.ForEachRow(rows, []any{&quoted, &name}, func() error {
		value := quoted
		if changed, there := change[name]; there {
			value = strings.ReplaceAll(changed, "$g", "g")
		}
		names, values = append(names, quoted), append(values, value)
		return nil
	})
	return names, values, err
}

// dropIndexes drops the indexes of a table and returns the statements that build them anew, which is many times faster than to add each row. Those stay by which
// the services look for work all the time: they take in nothing of an order that has ended.
func dropIndexes(ctx context.Context, conn *pgx.Conn, table string) (rebuild []string, err error) {
	rows, err := conn.Query(ctx, `
		SELECT CASE WHEN con.oid IS NULL THEN 'DROP INDEX ' || i.indexrelid::regclass
		            ELSE 'ALTER TABLE ' || i.indrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(con.conname) END,
		       CASE WHEN con.oid IS NULL THEN pg_get_indexdef(i.indexrelid)
		            ELSE 'ALTER TABLE ' || i.indrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(con.conname) || ' ' || pg_get_constraintdef(con.oid) END
		  FROM pg_index AS i LEFT JOIN pg_constraint AS con ON con.conindid = i.indexrelid AND con.contype IN ('p', 'u')
		 WHERE i.indrelid = $1::text::regclass AND i.indexrelid::regclass::text NOT IN ('calls_due', 'order_states_due')`, table)
	if err != nil {
		return nil, err
	}
	var drop []string
	var off, on string
	if _, err := pgx.ForEachRow(rows, []any{&off, &on}, func() error {
		drop, rebuild = append(drop, off), append(rebuild, on)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, sql := range drop {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	return rebuild, nil
}

// mostBehind is how many bytes of the log the publishers may be behind: with twice as many they would lose their slots.
const mostBehind = 2 << 30

// published waits until no publisher is too far behind.
func published(ctx context.Context, conn *pgx.Conn) error {
	for {
		var behind int64
		if err := conn.QueryRow(ctx, `SELECT coalesce(max(pg_current_wal_lsn() - restart_lsn), 0)::bigint FROM pg_replication_slots`).Scan(&behind); err != nil || behind < mostBehind {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
