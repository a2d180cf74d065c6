package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

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
// tables: the outbox, which is pruned anyway, and what does not grow with orders.
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
		"effect":      {"key": "key || '-' || $g", "id": "id || '-' || $g", "order_number": moved("order_number")},
		"request_log": {"id": moved("id"), "key": "key || '-' || $g", "order_number": moved("order_number")},
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
		if err := c.store(ctx, done+1, to); err != nil {
			return fmt.Errorf("store %d orders: %w", size, err)
		}
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

// store adds the copies from first to last to every database.
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
	for _, database := range slices.Sorted(maps.Keys(copies)) {
		dsn, err := pg.WithDatabase(admin, database, "", "")
		if err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		for _, table := range slices.Sorted(maps.Keys(copies[database])) {
			if err := copyTable(ctx, conn, table, copies[database][table], first, last); err != nil {
				return fmt.Errorf("%s.%s: %w", database, table, err)
			}
		}
		if database == "orders" { // new orders come after the stored ones, as they do in life: who watches them reads from the first of them on
			if _, err := conn.Exec(ctx, `SELECT setval('order_numbers', greatest(last_value, $1)) FROM order_numbers`, int64(apart)*mostCopies); err != nil {
				return fmt.Errorf("number new orders after the stored ones: %w", err)
			}
		}
		if err := conn.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copyTable copies the rows of the seed, a hundred copies in a transaction, and leaves the table as autovacuum would.
func copyTable(ctx context.Context, conn *pgx.Conn, table string, change map[string]string, first, last int) error {
	rows, err := conn.Query(ctx, `SELECT quote_ident(column_name), column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		return err
	}
	var names, values []string
	var quoted, name string
	if _, err := pgx.ForEachRow(rows, []any{&quoted, &name}, func() error {
		value := quoted
		if changed, there := change[name]; there {
			value = strings.ReplaceAll(changed, "$g", "g")
		}
		names, values = append(names, quoted), append(values, value)
		return nil
	}); err != nil {
		return err
	}
	// The originals, kept apart before the first copy is made.
	if first == 1 {
		if _, err := conn.Exec(ctx, `CREATE TABLE seed_`+table+` AS SELECT * FROM `+table); err != nil {
			return err
		}
	}
	for from := first; from <= last; from += 100 {
		if _, err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM seed_%s, generate_series(%d, %d) AS g`,
			table, strings.Join(names, ", "), strings.Join(values, ", "), table, from, min(from+99, last))); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE "+table)
	return err
}
