package participant

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
)

// Erase takes the customer out of a participant's state of an order, in tx. The order must have ended, since a call that is still to come would go out
// without one. It returns how many states it changed: 0 or 1.
func Erase(ctx context.Context, tx pgx.Tx, order event.OrderNo) (states int64, err error) {
	tag, err := tx.Exec(ctx, `UPDATE order_states SET state = state - 'customer' WHERE order_no = $1 AND state ? 'customer'`, int64(order))
	if err != nil {
		return 0, fmt.Errorf("erase the state of order %s: %w", order, err)
	}
	return tag.RowsAffected(), nil
}
