package orders

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The archive keeps the table of orders, which every order and every list passes through, as large as what still moves. An order
// that has ended, needs nobody and was left alone for Config.ArchiveAfter moves its row to archived_orders, where it is found by number and, on
// request, listed. Its state stays in order_states: it is small, found by number alone, and it is what a late or redelivered fact, a
// request and chorus verify must meet, however old the order is. Nothing can happen to an ended order (order.Status.Ended), so
// the row will never have to come back.
//
// It is the service's own role that does it, in transactions of archiveBatch rows. Replicas pass over each other's rows; a
// crash leaves each row in one table or the other.
const archiveBatch = 500

// archiveSome moves the orders that ended longest ago, at most limit, and returns how many.
func archiveSome(ctx context.Context, db *pgxpool.Pool, after time.Duration, limit int) (int, error) {
	const columns = `order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, reason, needs_attention, stuck, placed_at, updated_at`
	tag, err := db.Exec(ctx, `
		WITH ended AS (
			SELECT order_no FROM orders
			WHERE status IN ('DELIVERED', 'REJECTED', 'CANCELLED', 'FAILED') AND NOT needs_attention AND updated_at < now() - $1::interval
			ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED
		), moved AS (
			DELETE FROM orders WHERE order_no IN (SELECT order_no FROM ended) RETURNING `+columns+`
		)
		INSERT INTO archived_orders (`+columns+`) SELECT `+columns+` FROM moved`, after, limit)
	if err != nil {
		return 0, fmt.Errorf("archive ended orders: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// How often the house is kept, how many rows one transaction moves, and how long it then leaves the tables to others.
const (
	keepEvery  = time.Minute
	pruneBatch = 1000
	keepPause  = 50 * time.Millisecond
)

// keepHouse archives ended orders and deletes expired answers until ctx ends. Nothing depends on when.
func keepHouse(ctx context.Context, log *slog.Logger, db *pgxpool.Pool, cfg Config) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, job := range []struct {
			what  string
			limit int
			some  func(limit int) (int, error)
		}{
			{"ended orders archived", archiveBatch, func(n int) (int, error) { return archiveSome(ctx, db, cfg.ArchiveAfter, n) }},
			{"expired idempotency keys deleted", pruneBatch, func(n int) (int, error) { return pruneSome(ctx, db, cfg.KeyLifetime, n) }},
		} {
			switch n, err := inBatches(ctx, job.limit, job.some); {
			case err != nil && ctx.Err() == nil:
				log.Warn("housekeeping", "err", err)
			case n > 0:
				log.Info(job.what, "rows", n)
			}
		}
	}
}

// inBatches does some until there is less to do than limit.
func inBatches(ctx context.Context, limit int, some func(limit int) (int, error)) (total int, err error) {
	for {
		n, err := some(limit)
		total += n
		if err != nil || n < limit {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, nil
		case <-time.After(keepPause):
		}
	}
}
