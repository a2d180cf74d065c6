package participant

import (
	"context"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Shelf carries out holds in counts that are locked for the transaction.
type Shelf[S any] interface {
	// Hold takes or gives back what the state names. A Take is answered; a GiveBack is not.
	Hold(order event.OrderNo, state S, op decision.HoldOp) (weighed decision.Weighed, answers bool)
	// Flush writes the counts.
	Flush(ctx context.Context) error
}

// OpenShelf locks, in sorted order, the counts that the items may touch. states are those before the items.
type OpenShelf[S any] func(ctx context.Context, tx pgx.Tx, states map[event.OrderNo]S, items []Item) (Shelf[S], error)

func (d *Door[S]) openShelf(ctx context.Context, tx pgx.Tx, states map[event.OrderNo]*loaded[S], items []Item) (Shelf[S], error) {
	if d.spec.Shelf == nil {
		return nil, nil
	}
	before := make(map[event.OrderNo]S, len(states))
	for order, held := range states {
		before[order] = held.state
	}
	return d.spec.Shelf(ctx, tx, before, items)
}
