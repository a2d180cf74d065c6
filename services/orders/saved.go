package orders

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// saved copies what people read of the states into the orders' rows. A placed order's row is written by its request. A change
// that nobody would see (one more step closed) writes nothing.
func saved(ctx context.Context, tx pgx.Tx, changed []participant.Change[order.State]) error {
	var numbers []int64
	var statuses, reasons, stuck []string
	var attention []bool
	for _, c := range changed {
		if asked, ok := c.Input.(decision.Requested); ok {
			if _, places := asked.Request.(order.Place); places {
				continue
			}
		}
		numbers = append(numbers, int64(c.Order))
		statuses = append(statuses, string(c.State.Status))
		reasons = append(reasons, c.State.Reason)
		attention = append(attention, c.State.NeedsAttention())
		stuck = append(stuck, strings.Join(stuckSteps(c.State), ","))
	}
	if len(numbers) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `
		UPDATE orders o
		SET status = n.status, reason = n.reason, needs_attention = n.attention, stuck = string_to_array(n.stuck, ','), updated_at = clock_timestamp()
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[], $5::text[]) AS n(order_no, status, reason, attention, stuck)
		WHERE o.order_no = n.order_no
		  AND (o.status, o.reason, o.needs_attention, o.stuck) IS DISTINCT FROM (n.status, n.reason, n.attention, string_to_array(n.stuck, ','))`,
		numbers, statuses, reasons, attention, stuck); err != nil {
		return fmt.Errorf("update %d orders: %w", len(numbers), err)
	}
	return nil
}

func stuckSteps(s order.State) []string {
	steps := []string{}
	for _, step := range s.StuckSteps() {
		steps = append(steps, string(step))
	}
	return steps
}
