package participant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/internal/event"
)

// loaded is an order's state in a transaction that holds its lock.
type loaded[S any] struct {
	state S
	found bool
}

// load locks and reads the orders of the items, sorted so that two transactions never wait for each other in a ring.
func (d *Door[S]) load(ctx context.Context, tx pgx.Tx, items []Item) (map[event.OrderNo]*loaded[S], error) {
	orders := make([]int64, len(items))
	states := make(map[event.OrderNo]*loaded[S], len(items))
	for i, item := range items {
		orders[i] = int64(item.Order)
		states[item.Order] = &loaded[S]{}
	}
	slices.Sort(orders)
	orders = slices.Compact(orders)

	rows, err := tx.Query(ctx, `
		SELECT order_no, state FROM order_states
		WHERE order_no = ANY($1) ORDER BY order_no FOR UPDATE`, orders)
	if err != nil {
		return nil, fmt.Errorf("lock orders: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var order event.OrderNo
		var raw []byte
		if err := rows.Scan(&order, &raw); err != nil {
			return nil, fmt.Errorf("read order state: %w", err)
		}
		held := states[order]
		held.found = true
		if err := json.Unmarshal(raw, &held.state); err != nil {
			return nil, fmt.Errorf("state of order %s: %w", order, err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("lock orders: %w", err)
	}
	return states, nil
}

// save writes the changed states of sorted orders in at most two statements.
func (d *Door[S]) save(ctx context.Context, tx pgx.Tx, orders []event.OrderNo, states map[event.OrderNo]*loaded[S]) error {
	var fresh, known columns
	for _, order := range orders {
		held := states[order]
		raw, err := json.Marshal(held.state)
		if err != nil {
			return fmt.Errorf("state of order %s: %w", order, err)
		}
		to := &fresh
		if held.found {
			to = &known
		}
		to.add(order, string(raw), d.phase(held.state), d.due(held.state))
	}
	if len(known.orders) > 0 {
		if _, err := tx.Exec(ctx, `
			UPDATE order_states o SET state = n.state, phase = n.phase, due_at = n.due_at, updated_at = now()
			FROM unnest($1::bigint[], $2::jsonb[], $3::text[], $4::timestamptz[]) AS n(order_no, state, phase, due_at)
			WHERE o.order_no = n.order_no`, known.args()...); err != nil {
			return fmt.Errorf("save order states: %w", err)
		}
	}
	if len(fresh.orders) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO order_states (order_no, state, phase, due_at)
		SELECT n.* FROM unnest($1::bigint[], $2::jsonb[], $3::text[], $4::timestamptz[]) AS n(order_no, state, phase, due_at)
		ORDER BY n.order_no
		ON CONFLICT DO NOTHING`, fresh.args()...)
	if err != nil {
		return fmt.Errorf("insert order states: %w", err)
	}
	if int(tag.RowsAffected()) < len(fresh.orders) {
		// Another partition's transaction met the same order first, between our read and our insert. A row that
		// does not exist cannot be locked, so this is a serialization failure like any other: run again.
		return fmt.Errorf("insert order states: %w", &pgconn.PgError{
			Code: "40001", Severity: "ERROR", Message: "an order was first met by two transactions at once",
		})
	}
	return nil
}

func (d *Door[S]) phase(s S) string {
	if d.spec.Phase == nil {
		return ""
	}
	return d.spec.Phase(s)
}

func (d *Door[S]) due(s S) *time.Time {
	if d.spec.Due == nil {
		return nil
	}
	if at := d.spec.Due(s); !at.IsZero() {
		// PostgreSQL keeps microseconds. Never wake a state before its time: it would say "not yet" for ever.
		at = at.Add(time.Microsecond - 1).Truncate(time.Microsecond)
		return &at
	}
	return nil
}

// columns are the arrays of a bulk statement.
type columns struct {
	orders []int64
	states []string
	phases []string
	dues   []*time.Time
}

func (c *columns) add(order event.OrderNo, state, phase string, due *time.Time) {
	c.orders = append(c.orders, int64(order))
	c.states = append(c.states, state)
	c.phases = append(c.phases, phase)
	c.dues = append(c.dues, due)
}

func (c *columns) args() []any { return []any{c.orders, c.states, c.phases, c.dues} }

// Get returns an order's state without locking it; found is false when there is none.
func (d *Door[S]) Get(ctx context.Context, order event.OrderNo) (state S, found bool, err error) {
	var raw []byte
	err = d.db.QueryRow(ctx, `SELECT state FROM order_states WHERE order_no = $1`, int64(order)).Scan(&raw)
	if err == pgx.ErrNoRows {
		return state, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		return state, false, fmt.Errorf("read state of order %s: %w", order, err)
	}
	return state, true, nil
}
