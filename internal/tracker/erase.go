package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/codec"
	"chorus/internal/event"
)

// Erase takes the customer out of the view of an order, in tx: of the fact that names them, of the fold, and of the list. A view that is built anew from the
// topics has them again as far as retention reaches. It returns how many facts it changed.
func Erase(ctx context.Context, tx pgx.Tx, order event.OrderNo) (facts int, err error) {
	bodies, err := codec.New(nil, codec.JSON)
	if err != nil {
		return 0, fmt.Errorf("make the tracker's JSON codec: %w", err)
	}
	var raw []byte
	err = tx.QueryRow(ctx, `SELECT state FROM orders WHERE order_no = $1 FOR UPDATE`, int64(order)).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("erase the view of order %s: %w", order, err)
	}
	var s Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		return 0, fmt.Errorf("erase the view of order %s: %w", order, err)
	}
	s.Customer = ""
	if raw, err = json.Marshal(s); err != nil {
		return 0, fmt.Errorf("erase the view of order %s: %w", order, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE orders SET state = $2, customer = '' WHERE order_no = $1`, int64(order), string(raw)); err != nil {
		return 0, fmt.Errorf("erase the view of order %s: %w", order, err)
	}
	rows, _ := tx.Query(ctx, `SELECT event_id, body FROM facts WHERE order_no = $1 AND type = 'OrderPlaced'`, int64(order))
	named := map[[16]byte][]byte{}
	var id [16]byte
	var body []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error {
		named[id] = append([]byte(nil), body...)
		return nil
	}); err != nil {
		return 0, fmt.Errorf("erase the facts of order %s: %w", order, err)
	}
	for id, body := range named {
		f, err := bodies.Decode("OrderPlaced", body)
		if err != nil {
			return 0, fmt.Errorf("erase the facts of order %s: %w", order, err)
		}
		placed := f.(event.OrderPlaced)
		placed.Customer = ""
		if body, err = bodies.Encode(placed); err != nil {
			return 0, fmt.Errorf("erase the facts of order %s: %w", order, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE facts SET body = $2 WHERE event_id = $1`, id, string(body)); err != nil {
			return 0, fmt.Errorf("erase the facts of order %s: %w", order, err)
		}
	}
	return len(named), nil
}
