package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

// ErrUnended says that an order has not ended: whoever works on it still needs to know for whom.
var ErrUnended = errors.New("the order has not ended")

// ErrNoOrder says that there is none of this number.
var ErrNoOrder = errors.New("there is no such order")

// Ended refuses an order that can still change, with ErrUnended, or that is not there. One that has ended never changes again.
func Ended(ctx context.Context, tx pgx.Tx, no event.OrderNo) error {
	var status order.Status
	err := tx.QueryRow(ctx, `SELECT phase FROM order_states WHERE order_no = $1`, int64(no)).Scan(&status)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("order %s: %w", no, ErrNoOrder)
	case err != nil:
		return fmt.Errorf("read order %s: %w", no, err)
	case !status.Ended():
		return fmt.Errorf("order %s is %s: %w", no, status, ErrUnended)
	}
	return nil
}

// Erase takes the customer out of the order's row, in tx, wherever that is. The answer under the request's idempotency key names nobody. It returns how
// many rows it changed.
func Erase(ctx context.Context, tx pgx.Tx, no event.OrderNo) (rows int64, err error) {
	for _, sql := range []string{ // the archiver moves a row from the first to the second
		`UPDATE orders SET customer = '' WHERE order_no = $1 AND customer <> ''`,
		`UPDATE archived_orders SET customer = '' WHERE order_no = $1 AND customer <> ''`,
	} {
		tag, err := tx.Exec(ctx, sql, int64(no))
		if err != nil {
			return rows, fmt.Errorf("erase order %s: %w", no, err)
		}
		rows += tag.RowsAffected()
	}
	return rows, nil
}
