//go:build !controls

package participant

import (
	"context"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/outbox"
)

// In the test binary of the e2e controls these two can be switched off one at a time: there the same checks must fail.

// kept is what an order's state becomes.
func kept[S any](_ S, _ decision.Input, d decision.Decision[S]) S { return d.State }

// state writes the facts down in the transaction that they follow from (G1).
func (d *Door[S]) state(ctx context.Context, tx pgx.Tx, facts []outbox.Row) error {
	return outbox.Append(ctx, tx, facts...)
}
