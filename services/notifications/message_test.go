package notifications_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/internal/brokertest"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/outside"
	"chorus/internal/providertest"
	"chorus/services/notifications"
)

// Each new status of an order is told to whom the routes name, once, under a key of its own: the delivery is not taken for the shipping that was told
// before (C2). One that is busy is told again under the same key, one that refuses is left alone, and facts that come again owe nothing.
func TestMessagesGoByTheNewStatus(t *testing.T) {
	t.Parallel()
	dsn, conn := database(t)
	topic := event.Orders.Topic()
	kafka := brokertest.Start(t, map[string]int32{topic: 1})
	w := newWriter(t, kafka.Addr())
	world := providertest.Start(t, providertest.JSON(201, `{"id":"m1"}`), providertest.HTML(503), providertest.JSON(204, ""), providertest.JSON(422, `{"reason":"no address"}`))
	w.write(1, event.OrderConfirmed{}, false)
	w.write(1, event.OrderShipped{}, false)

	calls := intent.Defaults()
	calls.Backoff, calls.BackoffCap = 10*time.Millisecond, 20*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- notifications.Run(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)), notifications.Config{
			Postgres: dsn, Kafka: []string{kafka.Addr()}, Listen: "127.0.0.1:0", Providers: world.URL, Calls: calls,
		})
	}()
	world.Wait(t.Context(), 1)
	w.write(1, event.OrderDelivered{}, false)
	world.Wait(t.Context(), 3)
	w.write(1, event.OrderDelivered{}, false)
	w.write(2, event.OrderFailed{Reason: "no carrier: 422"}, false)
	requests := world.Wait(t.Context(), 4)
	ended := func(n int) func() bool {
		return func() bool {
			var ended int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM calls WHERE ended_at IS NOT NULL`).Scan(&ended); err != nil {
				t.Fatal(err)
			}
			return ended == n
		}
	}
	eventually(t, "all messages have ended", ended(3))
	var got []string
	for _, r := range requests {
		var n outside.Notice
		if err := json.Unmarshal(r.Body, &n); err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s: %s", r.Path, r.Key(), n.Order, n.Status, n.Text))
	}
	if diff := cmp.Diff([]string{
		"/shipping-confirmation/messages notification-1-3 1 SHIPPED: Your order is on its way.",
		"/review-request/messages notification-1-4 1 DELIVERED: Your order has arrived.",
		"/review-request/messages notification-1-4 1 DELIVERED: Your order has arrived.",
		"/status-update/messages notification-2-1 2 FAILED: Your order failed: no carrier could take it. Nothing stays charged.",
	}, got); diff != "" {
		t.Error(diff)
	}
	rows, _ := conn.Query(t.Context(), `SELECT key || ' ' || outcome FROM calls ORDER BY key`)
	outcomes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"notification-1-3 SUCCEEDED", "notification-1-4 SUCCEEDED", "notification-2-1 DECLINED"}; err != nil || !slices.Equal(outcomes, want) {
		t.Errorf("%v, %v, want %v", outcomes, err, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("stop: %v", err)
	}
}
