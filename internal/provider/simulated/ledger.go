package simulated

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Tally counts what a provider did. Sums are minor units of Currency, and 0 where no money moves.
type Tally struct {
	Provider   string `json:"provider"`
	Currency   string `json:"currency,omitempty"`
	Active     int64  `json:"active"`     // effects applied and still held
	ActiveKeys int64  `json:"activeKeys"` // distinct keys among them
	Undone     int64  `json:"undone"`
	Refused    int64  `json:"refused"`
	Cancelled  int64  `json:"cancelled"` // tombstones of keys that never applied anything
	Units      int64  `json:"units"`     // goods in active reservations and shipments
	Charged    int64  `json:"charged"`   // refunded charges included
	Refunded   int64  `json:"refunded"`
	Net        int64  `json:"net"`
}

// A LedgerEntry is what one provider did for one order, in one currency. A tombstone that came before its request knows no
// currency, and stands in an entry without one; in none when the cancel did not name the order.
type LedgerEntry struct {
	Order int64 `json:"order"`
	Tally
}

// A LedgerPage is a run of whole orders in ascending order.
type LedgerPage struct {
	Entries []LedgerEntry `json:"entries"`
	Next    int64         `json:"next,omitempty"` // ask again after this order; 0 when this page is the last
}

// A Summary is the ledger in total.
type Summary struct {
	Orders   int64            `json:"orders"` // that any provider knows
	Totals   []Tally          `json:"totals"`
	Accounts []AccountSummary `json:"accounts"`
}

// An AccountSummary adds up a processor's accounts in one currency. The books are right when Funded - Balance equals the
// net of the charges.
type AccountSummary struct {
	Provider string `json:"provider"`
	Currency string `json:"currency"`
	Accounts int64  `json:"accounts"`
	Funded   int64  `json:"funded"`
	Balance  int64  `json:"balance"`
}

const tallyColumns = `provider, currency,
	COUNT(*) FILTER (WHERE state = 'active'),
	COUNT(DISTINCT key) FILTER (WHERE state = 'active'),
	COUNT(*) FILTER (WHERE state = 'undone'),
	COUNT(*) FILTER (WHERE state = 'refused'),
	COUNT(*) FILTER (WHERE state = 'cancelled'),
	COALESCE(SUM(units) FILTER (WHERE state = 'active'), 0)::bigint,
	COALESCE(SUM(amount) FILTER (WHERE state IN ('active', 'undone')), 0)::bigint,
	COALESCE(SUM(amount) FILTER (WHERE state = 'undone'), 0)::bigint`

func (t *Tally) scan(row pgx.CollectableRow, before ...any) error {
	err := row.Scan(append(before, &t.Provider, &t.Currency, &t.Active, &t.ActiveKeys, &t.Undone, &t.Refused,
		&t.Cancelled, &t.Units, &t.Charged, &t.Refunded)...)
	t.Net = t.Charged - t.Refunded
	return err
}

// page returns the entries of the next orders, at most limit, after the one given.
func (s *store) page(ctx context.Context, after int64, limit int) (LedgerPage, error) {
	var last int64
	var orders int
	err := s.pool.QueryRow(ctx, `
		SELECT COALESCE(MAX(order_number), 0), COUNT(*) FROM (
			SELECT DISTINCT order_number FROM effect WHERE order_number > $1 ORDER BY order_number LIMIT $2) AS page`,
		after, limit).Scan(&last, &orders)
	if err != nil {
		return LedgerPage{}, fmt.Errorf("find page of ledger after %d: %w", after, err)
	}
	page := LedgerPage{}
	if orders == limit {
		page.Next = last
	}
	page.Entries, err = s.entries(ctx, after, last)
	return page, err
}

// entries returns those of the orders above one number, up to and including another.
func (s *store) entries(ctx context.Context, above, upTo int64) ([]LedgerEntry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT order_number, `+tallyColumns+` FROM effect
		WHERE order_number > $1 AND order_number <= $2
		GROUP BY order_number, provider, currency
		ORDER BY order_number, provider, currency`, above, upTo)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (LedgerEntry, error) {
		var e LedgerEntry
		return e, e.scan(row, &e.Order)
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return found, nil
}

// summary reads totals and accounts in one snapshot, so that they agree while calls go on.
func (s *store) summary(ctx context.Context) (Summary, error) {
	var sum Summary
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, opts, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT COUNT(DISTINCT order_number) FROM effect WHERE order_number <> 0`).Scan(&sum.Orders)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+tallyColumns+` FROM effect GROUP BY provider, currency ORDER BY provider, currency`)
		if err != nil {
			return err
		}
		sum.Totals, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tally, error) {
			var t Tally
			return t, t.scan(row)
		})
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `
			SELECT provider, currency, COUNT(*), SUM(funded)::bigint, SUM(balance)::bigint
			FROM account GROUP BY provider, currency ORDER BY provider, currency`)
		if err != nil {
			return err
		}
		sum.Accounts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[AccountSummary])
		return err
	})
	if err != nil {
		return Summary{}, fmt.Errorf("sum up ledger: %w", err)
	}
	return sum, nil
}
