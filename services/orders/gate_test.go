package orders

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// TestPartitionOf holds the hash against the vectors of Kafka's own tests (UtilsTest.testMurmur2) and a known key.
func TestPartitionOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	if got, want := partitionOf("foobar", 7), int32((-790332482&0x7fffffff)%7); got != want {
		t.Errorf("partition %d, want %d", got, want)
	}
}

// TestGate drives the gate on a real database with every state of fences and Kafka.
func TestGate(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const number = event.OrderNo(1001)
	part := partitionOf(number.String(), 3)
	due := []participant.Due{{Order: number, At: time.Now()}, {Order: 1002, At: time.Now()}}
	if _, err := r.db.Exec(t.Context(), `INSERT INTO order_states (order_no, state, phase) VALUES (1001, '{}', $1), (1002, '{}', $2)`,
		string(order.Placed), string(order.Cancelling)); err != nil {
		t.Fatal(err)
	}
	reached := ends{offsets: broker.Offsets{}, ids: map[string][16]byte{}}
	for i, topic := range []string{"billing.events", "inventory.events", "shipping.events"} {
		reached.offsets[topic] = map[int32]int64{0: 0, 1: 0, 2: 0}
		reached.ids[topic] = [16]byte{byte(i + 1)}
	}
	asked, away := 0, true
	g := newGate(slog.New(slog.DiscardHandler), r.db, func(_ context.Context, topics []string) (ends, error) {
		asked++
		if !slices.Equal(topics, []string{"billing.events", "inventory.events", "shipping.events"}) {
			t.Errorf("asked about %v", topics)
		}
		if away {
			return ends{}, errors.New("Kafka is away")
		}
		return reached, nil
	})
	pass := func(what string, want ...event.OrderNo) {
		t.Helper()
		open, err := g.Pass(t.Context(), due)
		if err != nil {
			t.Fatal(err)
		}
		var got []event.OrderNo
		for _, d := range open {
			got = append(got, d.Order)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v pass, want %v", what, got, want)
		}
	}
	fence := func(topic string, id byte, partition int32, next int64) {
		t.Helper()
		if _, err := r.db.Exec(t.Context(), `
			INSERT INTO partition_owner (consumer, topic, partition, topic_id, epoch, next_offset) VALUES ('orders', $1, $2, $3, 1, $4)
			ON CONFLICT (consumer, topic, partition) DO UPDATE SET topic_id = excluded.topic_id, next_offset = excluded.next_offset`,
			topic, partition, [16]byte{id}, next); err != nil {
			t.Fatal(err)
		}
	}
	pass("Kafka is away: only the one on its way back", 1002)
	away = false
	for p := range int32(3) {
		reached.offsets["inventory.events"][p] = 100 // other partitions do not matter
	}
	reached.offsets["billing.events"][part], reached.offsets["inventory.events"][part] = 5, 0
	pass("nobody has claimed billing", 1002)
	if asked != 2 {
		t.Fatalf("asked %d times", asked)
	}
	reached.offsets["billing.events"][part] = 1_000 // what comes after the deadline
	fence("billing.events", 1, part, 4)
	pass("one fact is unread", 1002)
	fence("billing.events", 9, part, 5)
	pass("the fence is of a topic that was deleted", 1002)
	fence("billing.events", 1, (part+1)%3, 50)
	pass("another partition is read", 1002)
	if _, err := r.db.Exec(t.Context(), `UPDATE partition_owner SET consumer = 'other' WHERE partition = $1`, part); err != nil {
		t.Fatal(err)
	}
	fence("billing.events", 1, part, 4)
	pass("another consumer has no say", 1002)
	fence("billing.events", 1, part, 5)
	pass("all is read", 1001, 1002)
	if asked != 2 {
		t.Errorf("the ends were asked for %d times, want once after Kafka was back", asked)
	}
	due = due[1:]
	pass("the first has fired", 1002)
	if len(g.waiting) != 1 {
		t.Errorf("the gate remembers %v, want the order that another look may ask about", g.waiting)
	}
	for number, w := range g.waiting {
		w.asked = w.asked.Add(-2 * keepMarks)
		g.waiting[number] = w
	}
	g.swept = g.swept.Add(-2 * keepMarks)
	pass("long after", 1002)
	if len(g.waiting) != 0 {
		t.Errorf("the gate still remembers %v", g.waiting)
	}
}

// listening is a log that waits for the address of the service. To choose a free port for it beforehand would be a race with
// every other process of the machine.
type listening chan string

func (listening) Enabled(context.Context, slog.Level) bool { return true }

func (l listening) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "listen" {
			l <- a.Value.String()
		}
		return true
	})
	return nil
}

func (l listening) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l listening) WithGroup(string) slog.Handler { return l }

// service is the whole service on a broker and a database of its own.
type service struct {
	*rig
	broker *brokertest.Broker
	kafka  *kgo.Client
	codec  *codec.Codec // of the services that publish
}

func newService(t *testing.T, deadline time.Duration, change func(*Config)) *service {
	t.Helper()
	s := &service{rig: &rig{t: t}, codec: codec.Embedded(), broker: brokertest.Start(t, map[string]int32{"billing.events": 3, "inventory.events": 3, "shipping.events": 3})}
	s.super, s.dsn = newDatabase(t)
	s.serve() // for its pool
	cfg := Config{Deadline: deadline}
	cfg.Postgres, cfg.Kafka, cfg.MaxConns = s.dsn, []string{s.broker.Addr()}, 8
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.kafka, err = kgo.NewClient(kgo.SeedBrokers(s.broker.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kafka.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	told := make(listening, 1)
	go func() { ended <- Run(ctx, slog.New(told), cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the service ended: %v", err)
		}
	})
	select {
	case addr := <-told:
		s.url = "http://" + addr
	case <-time.After(patience):
		t.Fatal("the service does not listen")
	}
	until(t, "readiness", func() bool {
		got, err := s.try("GET", "/readyz", "")
		return err == nil && got.status == 200
	})
	s.sell([3]string{"A", "1.00", "GBP"})
	return s
}

// publish writes a fact of another service into its topic, as cdc does.
func (s *service) publish(number event.OrderNo, f event.Fact) {
	s.t.Helper()
	value, err := s.codec.Encode(f)
	if err != nil {
		s.t.Fatal(err)
	}
	s.publishValue(number, f, value)
}

// publishValue is publish with a value that may be anything.
func (s *service) publishValue(number event.OrderNo, f event.Fact, value []byte) {
	s.t.Helper()
	row, headers := record(s.t, number, f)
	rec := &kgo.Record{Topic: row.AggregateType + ".events", Key: []byte(row.AggregateID), Value: value}
	for _, h := range headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	if err := s.kafka.ProduceSync(s.t.Context(), rec).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	if want := partitionOf(row.AggregateID, 3); rec.Partition != want {
		s.t.Fatalf("the record is in partition %d, the gate looks at %d", rec.Partition, want)
	}
}

// late reports whether the order's deadline is over by the database's clock, by enough for the timers to have looked several times.
func (s *service) late(number event.OrderNo) bool {
	return s.count(`SELECT count(*) FROM order_states WHERE order_no = $1 AND (state->>'deadline')::timestamptz + interval '1 second' < now()`, int64(number)) == 1
}

// TestPaymentInTheTopicBeforeTheDeadlineWins holds the consumer back until long after the deadline: the order must wait for the payment that is in the topic
// already, and end confirmed.
func TestPaymentInTheTopicBeforeTheDeadlineWins(t *testing.T) {
	t.Parallel()
	s := newService(t, time.Second, nil)
	blocked := make(chan struct{})
	s.broker.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-blocked:
			return nil, nil, false
		default:
			return nil, errors.New("no fetch"), true
		}
	})
	// The payment is there before the order, whose number is the next: however slow the machine is, it is there before the deadline.
	const next = event.OrderNo(1001)
	s.publish(next, event.PaymentTaken{Payment: "p", Processor: "x", Amount: 100, Currency: "GBP"})
	number := s.place("c", Item{"A", 1}).Number
	if number != next {
		t.Fatalf("the order is %s, want %s", number, next)
	}
	until(t, "the deadline to be over", func() bool { return s.late(number) })
	if o := s.order(number); o.Status != order.Placed {
		t.Fatalf("the order is %s although the topic holds its payment", o.Status)
	}
	close(blocked)
	until(t, "the payment", func() bool { return s.order(number).Status == order.Confirmed })
	if n := s.count(`SELECT count(*) FROM outbox WHERE aggregateid = $1 AND type = 'OrderCancellationRequested'`, number.String()); n != 0 {
		t.Error("a cancellation was asked for")
	}
}

// TestDeadlineFires is CMP-08 as orders sees it: it checks that an order that nobody answers times out, that it waits for Kafka before it does, and that a late payment changes nothing.
func TestDeadlineFires(t *testing.T) {
	t.Parallel()
	s := newService(t, time.Second, nil)
	s.publish(1, event.PaymentDeclined{Reason: "of an order that is none of ours"})
	s.broker.Stop()
	number := s.place("c", Item{"A", 1}).Number
	until(t, "the deadline to be over", func() bool { return s.late(number) })
	if o := s.order(number); o.Status != order.Placed {
		t.Errorf("without Kafka the order became %s", o.Status)
	}
	s.broker.Restart()
	until(t, "the timeout", func() bool { return s.order(number).Status == order.Compensating })
	s.publish(number, event.PaymentTaken{Payment: "p", Processor: "x", Amount: 100, Currency: "GBP"})
	s.publish(number, event.PaymentRefunded{Payment: "p", Amount: 100, Currency: "GBP"})
	s.publish(number, event.ShipmentCancelled{})
	s.publish(number, event.StockReleased{})
	until(t, "the end", func() bool { return s.order(number).Status == order.Failed })
	if o := s.order(number); o.StatusText != "timed out; nothing is held and nothing is charged" {
		t.Errorf("%q", o.StatusText)
	}
}
