package outbox_test

import (
	"context"
	"crypto/sha256"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"chorus/outbox"
)

// An order is shipped and says so, or neither. The id is derived from what is stated, so that whoever repeats the decision states the same fact and no consumer acts twice.
func ExampleAppend() {
	ship := func(ctx context.Context, conn *pgx.Conn, order string) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE orders SET status = 'SHIPPED' WHERE number = $1`, order); err != nil {
				return err
			}
			sum := sha256.Sum256([]byte("orders/OrderShipped/" + order))
			return outbox.Append(ctx, tx, outbox.Row{
				ID:            [16]byte(sum[:16]),
				AggregateType: "orders", // to the topic orders.events
				AggregateID:   order,    // the key: facts of one order keep their order
				Type:          "OrderShipped",
				Payload:       []byte(`{}`),
				CorrelationID: order,
			})
		})
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://localhost/shop") // with the table of outbox.Schema
	if err != nil {
		slog.Error("connect", "err", err)
		return
	}
	defer conn.Close(ctx)
	if err := ship(ctx, conn, "8842"); err != nil {
		slog.Error("ship", "err", err)
	}
}
