package intent

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
)

// Hurry has the waiting call of an order's step go on at once, in tx, and tells at which provider; ok is false when none waits. What the provider asked
// everybody for (Retry-After) still holds, and the exchange counts like any other. Call Workers.Wake after the commit.
func Hurry(ctx context.Context, tx pgx.Tx, order event.OrderNo, step event.Step) (provider string, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE calls SET due_at = now()
		 WHERE order_no = $1 AND step = $2 AND ended_at IS NULL AND lease_owner IS NULL AND NOT running AND due_at > now()
		RETURNING provider`, int64(order), string(step)).Scan(&provider)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("hurry the %s of order %s: %w", step, order, err)
	}
	return provider, true, nil
}
