package intent

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
)

// ErrOpen says that a call of the order has not ended: what it sends is still needed.
var ErrOpen = errors.New("a call of the order has not ended")

// Erase deletes the personal fields of an order's calls in tx: what was sent, and the text of the answers. The record of each call and
// of each attempt stays: when, where to, how it ended. It returns how many calls it emptied. Only the owner's role may. An undo made from
// the erased request would not be possible any more, so it is refused (ErrOpen) while a call is open or stuck.
func Erase(ctx context.Context, tx pgx.Tx, order event.OrderNo) (calls int, err error) {
	rows, _ := tx.Query(ctx, `SELECT id, ended_at IS NULL OR outcome = 'STUCK' FROM calls WHERE order_no = $1 ORDER BY id FOR UPDATE`, int64(order))
	var ids []int64
	var id int64
	var open, anyOpen bool
	if _, err = pgx.ForEachRow(rows, []any{&id, &open}, func() error {
		ids, anyOpen = append(ids, id), anyOpen || open
		return nil
	}); err != nil {
		return 0, fmt.Errorf("erase the calls of order %s: %w", order, err)
	}
	if anyOpen {
		return 0, fmt.Errorf("erase the calls of order %s: %w", order, ErrOpen)
	}
	for _, sql := range []string{
		"DELETE FROM call_bodies WHERE call_id = ANY($1)",
		"DELETE FROM call_sent WHERE call_id = ANY($1)",
		"UPDATE call_attempts SET body = NULL, reason = NULL WHERE call_id = ANY($1) AND part = 'end'",
	} {
		if _, err := tx.Exec(ctx, sql, ids); err != nil {
			return 0, fmt.Errorf("erase the calls of order %s: %w", order, err)
		}
	}
	return len(ids), nil
}
