package orders

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// TestFactBeforeItsOrderCanBeSeen: a committing transaction is in PostgreSQL's log, and so with the publisher, before others can see what it
// wrote. A fact that comes back in that moment must not be taken for one about an order that does not exist (G8). The moment is
// stretched here by holding the placing transaction open.
func TestFactBeforeItsOrderCanBeSeen(t *testing.T) {
	r := newRig(t, nil)
	const number = event.OrderNo(4711)
	written, commit, placed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		at := participant.Now()
		_, err := r.door.Request(context.WithoutCancel(t.Context()), number,
			decision.Requested{ID: participant.NewID(), At: at, Request: order.Place{OrderPlaced: event.OrderPlaced{
				Customer: "ada", Currency: "GBP", Total: 100, Shipping: event.Domestic, Deadline: at.Add(time.Hour),
				Lines: []event.Line{{SKU: "A", Quantity: 1, UnitPrice: "1"}},
			}}},
			func(pgx.Tx, participant.Answer[order.State]) error {
				close(written)
				<-commit
				return nil
			})
		placed <- err
	}()
	<-written
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		r.hear(number, event.StockRejected{Reason: "sold out"})
	}()
	until(t, "the fact to wait for the order", func() bool {
		select {
		case <-heard:
			return true // it did not wait; what became of the order tells whether that was right
		default:
			return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
		}
	})
	close(commit)
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	<-heard
	state, found, err := r.door.Get(t.Context(), number)
	if err != nil || !found || state.Status != order.Rejected {
		t.Errorf("the order is %q (%t, %v), want REJECTED", state.Status, found, err)
	}
}
