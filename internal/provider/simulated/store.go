package simulated

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/pg"
)

type store struct{ pool *pgxpool.Pool }

// maxReruns bounds how often a batch starts over because another process was faster with one of its keys.
const maxReruns = 5

// run carries out the commands in the order given, in one transaction, and returns an answer for each.
//
// Keys that are in the database are locked before they are looked at. Keys that are not are inserted without ON
// CONFLICT: when another process inserted one meanwhile, the whole batch starts over and finds it.
func (s *store) run(ctx context.Context, p *provider, cs []*command) ([]answer, error) {
	for n := 1; ; n++ {
		answers, err := s.try(ctx, p, cs)
		if pg.Code(err) == "23505" && n < maxReruns { // unique_violation
			continue
		}
		return answers, err
	}
}

func (s *store) try(ctx context.Context, p *provider, cs []*command) ([]answer, error) {
	answers := make([]answer, len(cs))
	err := pg.InTx(ctx, s.pool, "apply calls to "+p.name, func(tx pgx.Tx) error {
		b, err := s.load(ctx, tx, p, cs)
		if err != nil {
			return err
		}
		now := time.Now().UTC().Truncate(time.Microsecond) // what the database keeps
		orders := make([]int64, len(cs))
		for i, c := range cs {
			answers[i], orders[i] = b.apply(c, now)
		}
		return s.save(ctx, tx, b, cs, answers, orders, now)
	})
	return answers, err
}

// loadEffects looks each value up by its index. With = ANY and ORDER BY in its place, all rows of the provider were read, in order, and each was compared with all values.
func loadEffects(column string) string {
	return `SELECT ` + effectColumns + ` FROM unnest($2::text[]) AS v (value), LATERAL (
		SELECT * FROM effect WHERE provider = $1 AND ` + column + ` = v.value AND ` + column + ` <> '' OFFSET 0 FOR UPDATE) AS e`
}

const effectColumns = `key, id, order_number, state, tombstone, fingerprint, customer, currency, amount, units, score,
	refusal_status, refusal_code, refusal_message, undo_key, undo_fingerprint, undo_reason, created_at, undone_at`

func scanEffect(rows pgx.Rows) (*effect, error) {
	e := &effect{stored: true}
	err := rows.Scan(&e.Key, &e.ID, &e.Order, &e.State, &e.Tombstone, &e.Fingerprint, &e.Customer, &e.Currency, &e.Amount,
		&e.Units, &e.Score, &e.Refusal.Status, &e.Refusal.Code, &e.Refusal.Message, &e.UndoKey, &e.UndoFingerprint,
		&e.UndoReason, &e.CreatedAt, &e.UndoneAt)
	return e, err
}

// load reads and locks what the commands may touch.
func (s *store) load(ctx context.Context, tx pgx.Tx, p *provider, cs []*command) (*book, error) {
	b := newBook(p)
	var keys, ids, undoKeys []string
	for _, c := range cs {
		switch {
		case c.rejected != nil:
		case c.op == undo:
			ids, undoKeys = append(ids, c.id), append(undoKeys, c.key)
		default:
			keys = append(keys, c.key)
		}
	}
	for _, q := range []struct {
		values []string
		sql    string
	}{
		{keys, loadEffects("key")},
		{ids, loadEffects("id")},
		{undoKeys, loadEffects("undo_key")},
	} {
		if len(q.values) == 0 {
			continue
		}
		slices.Sort(q.values) // two processes lock in one order
		rows, err := tx.Query(ctx, q.sql, p.name, q.values)
		if err != nil {
			return nil, fmt.Errorf("load effects: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*effect, error) { return scanEffect(rows) })
		if err != nil {
			return nil, fmt.Errorf("load effects: %w", err)
		}
		for _, e := range found {
			if b.effects[e.Key] == nil { // the same row by two ways is one effect
				b.add(e)
			}
		}
	}
	if !p.pays {
		return b, nil
	}
	return b, s.loadAccounts(ctx, tx, b, cs)
}

// loadAccounts looks each account up by its key, for the same reason as loadEffects.
const loadAccounts = `
	SELECT a.customer, a.currency, funded, balance FROM unnest($2::text[], $3::text[]) AS v (customer, currency), LATERAL (
		SELECT * FROM account WHERE provider = $1 AND customer = v.customer AND currency = v.currency OFFSET 0 FOR UPDATE) AS a`

// loadAccounts reads and locks, in one order, the accounts that the commands may move.
func (s *store) loadAccounts(ctx context.Context, tx pgx.Tx, b *book, cs []*command) error {
	wanted := map[accountKey]bool{}
	for _, c := range cs {
		if c.op == do && c.rejected == nil && b.effects[c.key] == nil {
			wanted[accountKey{c.proposal.Customer, c.proposal.Currency}] = true
		}
	}
	for _, e := range b.effects {
		if e.State == active {
			wanted[accountKey{e.Customer, e.Currency}] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var customers, currencies []string
	for _, k := range slices.SortedFunc(maps.Keys(wanted), func(a, b accountKey) int {
		return cmp.Or(cmp.Compare(a.Customer, b.Customer), cmp.Compare(a.Currency, b.Currency))
	}) {
		customers, currencies = append(customers, k.Customer), append(currencies, k.Currency)
	}
	rows, err := tx.Query(ctx, loadAccounts, b.provider.name, customers, currencies)
	if err != nil {
		return fmt.Errorf("load accounts: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*account, error) {
		a := &account{stored: true}
		return a, row.Scan(&a.Customer, &a.Currency, &a.Funded, &a.Balance)
	})
	if err != nil {
		return fmt.Errorf("load accounts: %w", err)
	}
	for _, a := range found {
		b.accounts[a.accountKey] = a
	}
	return nil
}

// save writes what changed, the log of calls and the count-downs of rules, in one round trip.
func (s *store) save(ctx context.Context, tx pgx.Tx, b *book, cs []*command, answers []answer, orders []int64, now time.Time) error {
	var batch pgx.Batch
	var fresh, changed []effectRow
	for _, e := range b.effects {
		switch {
		case !e.stored:
			fresh = append(fresh, rowOf(e))
		case e.changed:
			changed = append(changed, rowOf(e))
		}
	}
	if err := queue(&batch, insertEffects, b.provider.name, fresh); err != nil {
		return err
	}
	if err := queue(&batch, updateEffects, b.provider.name, changed); err != nil {
		return err
	}
	var opened, moved []accountRow
	for _, a := range b.accounts {
		row := accountRow{a.Customer, a.Currency, a.Funded, a.Balance}
		switch {
		case !a.stored:
			opened = append(opened, row)
		case a.changed:
			moved = append(moved, row)
		}
	}
	if err := queue(&batch, insertAccounts, b.provider.name, opened); err != nil {
		return err
	}
	if err := queue(&batch, updateAccounts, b.provider.name, moved); err != nil {
		return err
	}
	calls := make([]callRow, len(cs))
	spent := map[int64]int64{}
	for i, c := range cs {
		calls[i] = callRow{string(c.op), c.key, orders[i], answers[i].Status, c.fault, now}
		if c.rule != 0 {
			spent[c.rule]++
		}
	}
	if err := queue(&batch, insertCalls, b.provider.name, calls); err != nil {
		return err
	}
	for id, n := range spent {
		batch.Queue(`UPDATE behaviour SET remaining = GREATEST(remaining - $2, 0) WHERE id = $1`, id, n)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("save %d calls: %w", len(cs), err)
	}
	return nil
}

// queue adds a statement that takes its rows as one JSON array, so that one prepared statement serves any number of rows.
func queue[R any](batch *pgx.Batch, sql, provider string, rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode rows: %w", err)
	}
	batch.Queue(sql, provider, string(data))
	return nil
}
