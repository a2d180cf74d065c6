package notifications_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/services/notifications"
)

const patience = 60 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
		<-tick.C
	}
}

// database has the tables of the service.
func database(t *testing.T) (dsn string, conn *pgx.Conn) {
	t.Helper()
	dsn = pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), inbox.Schema); err != nil {
		t.Fatal(err)
	}
	for _, set := range []fs.FS{audit.Schema(), intent.Schema(), notifications.Schema()} {
		if err := pg.Migrate(t.Context(), dsn, set); err != nil {
			t.Fatal(err)
		}
	}
	return dsn, conn
}

// writer writes facts of orders to their topic.
type writer struct {
	t      *testing.T
	client *kgo.Client
}

func newWriter(t *testing.T, kafka string) writer {
	t.Helper()
	client, err := broker.NewClient([]string{kafka})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return writer{t, client}
}

// write writes a fact; the same one has the same id each time. A broken one has another.
func (w writer) write(number event.OrderNo, f event.Fact, breakIt bool) {
	w.t.Helper()
	at := time.Now().UTC().Truncate(time.Microsecond)
	row, err := codec.Embedded().Row(event.Envelope{
		ID: event.Derive(time.Unix(1_700_000_000, 0), event.Orders, number, fmt.Sprint(f.Type(), breakIt), 0), Order: number, Owner: event.Orders,
		OccurredAt: at, CausationID: participant.NewID(), Fact: f,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if breakIt {
		row.Payload = []byte("?")
	}
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	if err := w.client.ProduceSync(w.t.Context(), &kgo.Record{
		Topic: event.Orders.Topic(), Key: []byte(row.AggregateID), Value: row.Payload, Timestamp: at, Headers: []kgo.RecordHeader{
			header("id", event.ID(row.ID).String()), header("eventType", row.Type), header("aggregateType", row.AggregateType),
			header("occurredAt", at.Format(time.RFC3339Nano)), header("correlationId", row.CorrelationID), header("causationId", row.CausationID), header("hop", "0"),
		},
	}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// A customer is told once of each new status of an order, however often the fact comes; what is no customer's business is ignored, what
// cannot be read set aside.
func TestCustomersAreToldOnce(t *testing.T) {
	t.Parallel()
	dsn, conn := database(t)
	topic := event.Orders.Topic()
	kafka := brokertest.Start(t, map[string]int32{topic: 1})
	w := newWriter(t, kafka.Addr())
	write := w.write
	write(1, event.OrderConfirmed{}, false)
	write(2, event.OrderCancellationRequested{Reason: event.ByCustomer}, false)
	write(2, event.OrderCancelled{Reason: event.ByCustomer}, true)
	write(1, event.OrderConfirmed{}, false)
	write(2, event.OrderCancelled{Reason: event.ByCustomer}, false)
	write(3, event.OrderFailed{Reason: "no carrier: 422 too heavy for van 7"}, false)
	write(4, event.OrderFailed{Reason: "needs attention: payment: look-up: no answer within 5s"}, false)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- notifications.Run(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)), notifications.Config{Postgres: dsn, Kafka: []string{kafka.Addr()}, Listen: addr})
	}()
	var told string
	eventually(t, "the customers are told", func() bool {
		rows, _ := conn.Query(t.Context(), `SELECT order_no || ' ' || text FROM notifications ORDER BY order_no`)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		told = fmt.Sprintf("%q", texts)
		return len(texts) >= 4
	})
	if want := `["1 Your order is confirmed and paid." "2 Your order is cancelled. Nothing stays charged." "3 Your order failed: no carrier could take it. Nothing stays charged." "4 Your order failed. Nothing stays charged."]`; told != want {
		t.Errorf("told %s", told)
	}
	eventually(t, "the service is ready", func() bool {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
	var verdicts string
	if err := conn.QueryRow(t.Context(), `SELECT string_agg(verdict || ' ' || duplicates, ', ' ORDER BY "offset") FROM inbox`).Scan(&verdicts); err != nil {
		t.Fatal(err)
	}
	if want := "applied 1, dead 0, applied 0, applied 0, applied 0"; verdicts != want {
		t.Errorf("verdicts %s, want %s", verdicts, want)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the service does not stop")
	}
}
