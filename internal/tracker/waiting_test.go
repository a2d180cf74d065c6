package tracker

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/event"
	"chorus/internal/pg"
)

// Two folds meet an order that neither has seen: the second begins again, and no fact is lost (G5: across topics any order is right).
func TestOrderFirstMetTwice(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr, _ := open(t)
	tale := placed(5).say(event.Inventory, event.StockReserved{Reservation: "R"})
	tx, err := tr.db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tr.Handle(ctx, tx, []inbox.Fact{record(t, tale.facts[0], 0)}); err != nil {
		t.Fatal(err)
	}
	runs, folded := 0, make(chan error, 1)
	go func() {
		folded <- pg.InTx(ctx, tr.db, "fold", func(tx pgx.Tx) error {
			runs++
			_, err := tr.Handle(ctx, tx, []inbox.Fact{record(t, tale.facts[1], 1)})
			return err
		})
	}()
	for waits := false; !waits && ctx.Err() == nil; {
		if err := tr.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-folded; err != nil || runs != 2 {
		t.Errorf("%d runs, %v; want 2", runs, err)
	}
	story, err := tr.Timeline(ctx, 5)
	if err != nil || len(story.Facts) != 2 || story.Facts[1].Seq != 2 {
		t.Errorf("the story is %+v, %v", story.Facts, err)
	}
	if e, _, err := tr.List(ctx, Filter{}); err != nil || len(e) != 1 || e[0].Customer != "ada" || e[0].WaitsFor == "" {
		t.Errorf("listed as %+v, %v", e, err)
	}
}

// Lists and counts of the orders that wait read those alone, however many have ended, and the index for it does not change with what they wait for.
func TestWaitingOrdersAreReadByIndex(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr, dsn := open(t)
	if _, err := tr.db.Exec(ctx, `
		INSERT INTO orders (order_no, status, ended_at, waits_for, overdue_at)
		SELECT n, CASE WHEN n % 1000 = 0 THEN 'PLACED' ELSE 'CONFIRMED' END, CASE WHEN n % 1000 > 0 THEN now() END,
		       CASE WHEN n % 1000 = 0 THEN 'billing/payment' END, CASE WHEN n % 1000 = 0 THEN now() + interval '1 minute' END
		FROM generate_series(1, 50000) AS n`); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.db.Exec(ctx, `VACUUM ANALYZE orders`); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for sql, index := range map[string]string{
		listOrders + " AND (needs_attention OR waiting AND overdue_at < now()) ORDER BY order_no DESC LIMIT $3": "orders_open",
		`SELECT waits_for, count(*) FROM orders WHERE waiting GROUP BY waits_for`:                               "orders_open",
		`SELECT count(*) FROM orders WHERE waiting AND overdue_at < now()`:                                      "orders_open",
		`SELECT count(*) FROM orders WHERE needs_attention OR waiting AND overdue_at < now()`:                   "orders_open",
	} {
		sql = strings.NewReplacer("$1", "0", "$2", "1000000", "$3", "51").Replace(sql)
		rows, _ := conn.Query(ctx, "EXPLAIN "+sql)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, index) {
			t.Errorf("%s\nis planned, %v, as\n%s", sql, err, text)
		}
	}
	var stays bool
	if err := conn.QueryRow(ctx, `
		SELECT count(*) = 0 FROM pg_index WHERE indrelid = 'orders'::regclass
		   AND pg_get_indexdef(indexrelid) ~ 'waits_for|overdue_at|updated_at|state|facts'`).Scan(&stays); err != nil || !stays {
		t.Errorf("a column that changes with each fact is indexed (%v)", err)
	}
}
