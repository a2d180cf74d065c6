package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/cluster/embedded"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/pgtest"
	"chorus/schemas"
)

// shop is a broker with what a shop has written so far, its registry, and a database for figures.
type shop struct {
	t        *testing.T
	cfg      config
	db       *pgx.Conn
	away     atomic.Bool  // the registry answers 503
	asked    atomic.Int32 // requests to the registry
	client   *kgo.Client
	produced int
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t}
	partitions := map[string]int32{}
	for _, topic := range topics {
		partitions[topic] = 3
	}
	broker := brokertest.Start(t, partitions)
	var seeds []embedded.Schema
	for _, r := range schemas.Released() {
		seeds = append(seeds, embedded.Schema{Subject: r.Subject, ID: r.ID, Version: r.Version, Text: r.Text})
	}
	registry, err := embedded.OpenRegistry(filepath.Join(t.TempDir(), "registry.log"), seeds)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if s.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		registry.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		registry.Close()
	})
	s.cfg = config{brokers: []string{broker.Addr()}, registry: server.URL, postgres: pgtest.Database(t)}
	if s.db, err = pgx.Connect(t.Context(), s.cfg.postgres); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.db.Close(context.Background()) })
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(broker.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

var (
	firstDay  = time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	secondDay = time.Date(2026, 3, 2, 0, 0, 1, 0, time.UTC)
)

// sell writes what the services write about these orders: each is paid on the first day, and each third one refunded on the second. Half of it is JSON.
func (s *shop) sell(orders ...int) {
	s.t.Helper()
	asJSON, err := codec.New(nil, codec.JSON)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range orders {
		c := codec.Embedded()
		if n%2 == 0 {
			c = asJSON
		}
		amount, currency := int64(n*100+55), "EUR"
		if n%5 == 0 {
			currency = "GBP"
		}
		s.state(c, n, event.Billing, firstDay, event.PaymentTaken{Payment: fmt.Sprint("pay-", n), Processor: "standard", Amount: amount, Currency: currency})
		s.state(c, n, event.Orders, firstDay, event.OrderConfirmed{})
		if n%3 == 0 {
			s.state(c, n, event.Billing, secondDay, event.PaymentRefunded{Payment: fmt.Sprint("pay-", n), Amount: amount, Currency: currency, Reason: "cancelled"})
		}
	}
}

// state writes one fact as chorus cdc does.
func (s *shop) state(c *codec.Codec, order int, owner event.Participant, at time.Time, fact event.Fact) {
	s.t.Helper()
	number := event.OrderNo(order)
	row, err := c.Row(event.Envelope{ID: event.Derive(at, owner, number, string(fact.Type()), 0), Order: number, Owner: owner, OccurredAt: at, Fact: fact})
	if err != nil {
		s.t.Fatal(err)
	}
	s.produce(&kgo.Record{Topic: owner.Topic(), Key: []byte(row.AggregateID), Value: row.Payload, Headers: []kgo.RecordHeader{
		{Key: "id", Value: []byte(event.ID(row.ID).String())}, {Key: "eventType", Value: []byte(row.Type)}, {Key: "aggregateType", Value: []byte(row.AggregateType)},
		{Key: "occurredAt", Value: []byte(row.OccurredAt.Format("2006-01-02T15:04:05.000000Z"))}, {Key: "correlationId", Value: []byte(row.CorrelationID)},
		{Key: "causationId"}, {Key: "hop", Value: []byte("0")},
	}})
}

func (s *shop) produce(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	s.produced += len(records)
}

// start runs analytics until the returned function is called.
func (s *shop) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, slog.New(slog.NewTextHandler(s.t.Output(), nil)), s.cfg) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("analytics: %v", err)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *shop) eventually(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited for %s", what)
		}
	}
}

// seen counts the records that the inbox has met, whatever came of them.
func (s *shop) seen() (n int) {
	// Before the first start there are no tables.
	_ = s.db.QueryRow(context.Background(), `SELECT coalesce(sum(1 + duplicates), 0) FROM inbox`).Scan(&n)
	return n
}

func (s *shop) figures() string {
	s.t.Helper()
	var out strings.Builder
	if err := printFigures(context.Background(), &out, s.cfg.postgres); err != nil {
		s.t.Fatal(err)
	}
	return out.String()
}

func (s *shop) rewind() {
	s.t.Helper()
	ids, err := kadm.NewClient(s.client).ListTopics(s.t.Context(), topics...)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, topic := range ids {
		for p := range topic.Partitions {
			if _, err := inbox.Rewind(s.t.Context(), s.db, inbox.RewindRequest{Consumer: consumer, Topic: topic.Topic, Partition: p, TopicID: topic.ID}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// want are the figures of orders 1 to 6: 655 of 155+255+355+455+655 EUR and 555 GBP; 3 and 6 are refunded.
const want = `day         currency  payments  revenue  refunds  refunded
2026-03-01  EUR       5         1875     0        0
2026-03-01  GBP       1         555      0        0
2026-03-02  EUR       0         0        2        1010
`

func check(t *testing.T, when, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// TestNewSubscriberReadsHistory starts analytics when everything has happened already (the new capability is a new subscriber), while the registry is away, and then delivers all of it again in
// every way there is. The figures are right and stay as they are (G4).
func TestNewSubscriberReadsHistory(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.sell(1, 2, 3, 4, 5, 6)
	history := s.produced

	s.away.Store(true)
	stop := s.start()
	s.eventually("the registry to be asked", func() bool { return s.asked.Load() > 2 })
	s.away.Store(false)
	s.eventually("all facts", func() bool { return s.seen() == history })
	check(t, "after the history", s.figures(), want)

	s.sell(1, 2, 3, 4, 5, 6) // published again, at new offsets
	s.eventually("the facts that were published again", func() bool { return s.seen() == 2*history })
	check(t, "after everything was published again", s.figures(), want)

	stop()
	s.rewind()
	s.start()
	s.eventually("the facts that were read again", func() bool { return s.seen() == 4*history })
	check(t, "after a replay from the beginning", s.figures(), want)

	var dead, confirmed int
	if err := s.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM dead_letters), (SELECT sum(facts) FROM activity WHERE type = 'OrderConfirmed')`).Scan(&dead, &confirmed); err != nil {
		t.Fatal(err)
	}
	if dead != 0 || confirmed != 6 {
		t.Errorf("%d dead letters and %d confirmed orders, want 0 and 6", dead, confirmed)
	}
}

// TestNaiveSubscriberCountsTwice is why: the same handler without the inbox, in a consumer that keeps its offsets in Kafka and dies before it has committed them.
func TestNaiveSubscriberCountsTwice(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.sell(1, 2, 3, 4, 5, 6)
	if _, err := s.db.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	values := newDecoder(s.cfg.registry)
	for life := range 2 {
		client, err := kgo.NewClient(kgo.SeedBrokers(s.cfg.brokers...), kgo.ConsumerGroup("naive"), kgo.ConsumeTopics(topics...),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		if err != nil {
			t.Fatal(err)
		}
		for handled := 0; handled < s.produced; {
			polled := client.PollFetches(t.Context())
			if err := polled.Err(); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			polled.EachRecord(func(r *kgo.Record) {
				f := inbox.Fact{Value: r.Value, OccurredAt: r.Timestamp}
				for _, h := range r.Headers {
					switch h.Key {
					case "eventType":
						f.Type = string(h.Value)
					case "occurredAt":
						if f.OccurredAt, err = time.Parse(time.RFC3339Nano, string(h.Value)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
					_, err := count(t.Context(), tx, values, []inbox.Fact{f})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				handled++
			})
		}
		client.Close() // handled, and not committed
	}
	doubled := strings.NewReplacer("5         1875 ", "10        3750 ", "1         555 ", "2         1110", "2        1010", "4        2020").Replace(want)
	check(t, "the naive subscriber after a restart", s.figures(), doubled)
}

// TestUnreadablePayments: what cannot be read is set aside with its reason and costs the others nothing (G11).
func TestUnreadablePayments(t *testing.T) {
	t.Parallel()
	s := open(t)
	bad := [][]byte{nil, {}, {0, 0}, []byte("hello"), []byte("{"), []byte(`{"currency":"EUR"}`), []byte(`{"amount":1.5,"currency":"EUR"}`),
		{0, 0, 0, 0x27, 0x0f, 1}, {0, 0, 0, 0, 16, 0, 0}, append([]byte{0, 0, 0, 0, 16, 0, 0, 2, 6}, "EUR!"...)}
	for i, value := range bad {
		s.produce(&kgo.Record{Topic: "billing.events", Key: []byte("7"), Value: value, Headers: []kgo.RecordHeader{
			{Key: "id", Value: fmt.Appendf(nil, "00000000-0000-8000-8000-0000000000%02d", i+1)}, {Key: "eventType", Value: []byte("PaymentTaken")},
		}})
	}
	s.sell(1, 2, 3, 4, 5, 6)
	s.start()
	s.eventually("all facts", func() bool { return s.seen() == s.produced })
	check(t, "among unreadable payments", s.figures(), want)
	rows, _ := s.db.Query(t.Context(), `SELECT reason, count(*) FROM dead_letters GROUP BY reason`)
	var reason string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&reason, &n}, func() error {
		if reason != "undecodable" || n != len(bad) {
			t.Errorf("%d dead letters with reason %s, want %d undecodable", n, reason, len(bad))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if reason == "" {
		t.Error("no dead letters")
	}
}

// TestImportsInboxAlone: of chorus, a subscriber needs nothing else.
func TestImportsInboxAlone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); strings.HasPrefix(path, "chorus/") {
				imported[path] = true
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"chorus/inbox": true}, imported); diff != "" {
		t.Errorf("imports of chorus (-want +got):\n%s", diff)
	}
}
