package participant_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/deploy"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/provider"
	"chorus/services/billing/payment"
	"chorus/services/orders/order"
)

const patience = 60 * time.Second

// base is a participant's database as the deploy step makes it.
type base struct {
	t    testing.TB
	dsn  string    // of the service's role
	conn *pgx.Conn // of a superuser, for looking
	log  *slog.Logger
}

// newBase makes a database like the one that p has, under a name of its own: the server is shared by all tests.
func newBase(t testing.TB, p event.Participant) *base {
	t.Helper()
	// One database for all tests that make roles: the lock under which that is done belongs to a database.
	admin, err := pg.WithDatabase(pgtest.Database(t), "postgres", "", "")
	if err != nil {
		t.Fatal(err)
	}
	all := deploy.Databases()
	db := all[slices.IndexFunc(all, func(d deploy.Database) bool { return d.Name == string(p) })]
	db.Name += "_" + strings.ToLower(rand.Text()[:10])
	s := deploy.Server{Admin: admin, Password: func(role string) string { return "secret" }}
	if err := s.Make(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	b := &base{t: t, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	dsn, err := s.URL(db.Name, db.Name)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("sslmode", "disable") // the scissors read along
	u.RawQuery = query.Encode()
	b.dsn = u.String()
	u, _ = url.Parse(admin)
	u.Path = "/" + db.Name
	if b.conn, err = pgx.Connect(t.Context(), u.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		b.conn.Close(ctx)
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		for _, sql := range []string{
			"DROP DATABASE " + db.Name + " WITH (FORCE)",
			"DROP ROLE " + db.Name, "DROP ROLE " + db.Name + "_owner",
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// pool opens the service's pool, through scissors if there are some. What a lost client leaves open ends soon.
func (b *base) pool(s *scissors) *pgxpool.Pool {
	b.t.Helper()
	cfg, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg.MaxConns = 8
	if s != nil {
		cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "300ms"
		s.fit(cfg.ConnConfig)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	return pool
}

type (
	paymentState = payment.State
	orderState   = order.State
)

// routed is the route of a step in the shipped configuration.
func routed(step event.Step) outside.Route {
	file, err := provider.Load("")
	if err != nil {
		panic(err)
	}
	return file.Route(step)
}

func billing() participant.Spec[payment.State] {
	return participant.Spec[payment.State]{
		Name: event.Billing, Decide: payment.Rules{Route: routed(event.PaymentStep)}.Decide,
		Phase: func(s payment.State) string { return string(s.Effect.Phase) },
	}
}

func orders() participant.Spec[order.State] {
	return participant.Spec[order.State]{
		Name: event.Orders, Decide: order.Defaults().Decide, Due: order.State.Due,
		Phase: func(s order.State) string { return string(s.Status) },
	}
}

// facts is the codec of all tests: to compile the schemas takes longer than most of them.
var facts = sync.OnceValue(codec.Embedded)

// fact makes the record of a fact that owner stated as its n-th of that type about the order; the same arguments, the same id.
func fact(owner event.Participant, number event.OrderNo, f event.Fact) inbox.Fact {
	at := time.Now().UTC().Truncate(time.Microsecond)
	row, err := facts().Row(event.Envelope{
		ID:    event.Derive(time.Unix(1_700_000_000, 0), owner, number, string(f.Type()), 0),
		Order: number, Owner: owner, OccurredAt: at, CausationID: participant.NewID(), Hop: 1, Fact: f,
	})
	if err != nil {
		panic(err)
	}
	text := func(key, value string) inbox.Header { return inbox.Header{Key: key, Value: []byte(value)} }
	return inbox.Fact{
		ID: row.ID, Type: row.Type, Key: row.AggregateID, Value: row.Payload, OccurredAt: at, Topic: owner.Topic(), Timestamp: at,
		Headers: []inbox.Header{
			text("id", event.ID(row.ID).String()), text("eventType", row.Type), text("aggregateType", row.AggregateType),
			text("occurredAt", at.Format(time.RFC3339Nano)), text("correlationId", row.CorrelationID), text("causationId", row.CausationID), text("hop", "1"),
		},
	}
}

func placed(number event.OrderNo) inbox.Fact {
	return fact(event.Orders, number, event.OrderPlaced{
		Customer: "ada", Currency: "EUR", Total: 500, Shipping: event.Domestic, Deadline: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond),
		Lines: []event.Line{{SKU: "A", Quantity: 2, UnitPrice: "2.50"}},
	})
}

func cancelled(number event.OrderNo) inbox.Fact {
	return fact(event.Orders, number, event.OrderCancellationRequested{Reason: event.ByCustomer})
}

func screened(number event.OrderNo, v event.ScreeningVerdict) inbox.Fact {
	return fact(event.Fraud, number, event.OrderScreened{Score: 10, Verdict: v})
}

func scheduled(number event.OrderNo) inbox.Fact {
	return fact(event.Shipping, number, event.ShipmentScheduled{Shipment: "sh-1", Carrier: "carrier-domestic"})
}

// enter takes facts through the door as the inbox does, in one transaction, but for the fence. It returns the verdicts of the new ones.
func enter[S any](ctx context.Context, pool *pgxpool.Pool, d *participant.Door[S], consumer event.Participant, facts ...inbox.Fact) ([]inbox.Verdict, error) {
	var verdicts []inbox.Verdict
	var fresh []inbox.Fact
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		entries := make([]inbox.Entry, len(facts))
		for i, f := range facts {
			entries[i] = inbox.Entry{ID: f.ID, OccurredAt: f.OccurredAt, Topic: f.Topic, Partition: f.Partition, Offset: f.Offset}
		}
		isNew, err := inbox.Insert(ctx, tx, string(consumer), entries...)
		if err != nil {
			return err
		}
		var ids [][16]byte
		for i, f := range facts {
			if isNew[i] {
				fresh, ids = append(fresh, f), append(ids, f.ID)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		if verdicts, err = d.Handle(ctx, tx, fresh); err != nil {
			return err
		}
		return inbox.SetVerdicts(ctx, tx, string(consumer), ids, verdicts)
	})
	if err == nil && len(fresh) > 0 {
		d.Committed(fresh, verdicts)
	}
	return verdicts, err
}

// must is enter for facts that go through.
func must[S any](t testing.TB, pool *pgxpool.Pool, d *participant.Door[S], consumer event.Participant, facts ...inbox.Fact) []inbox.Verdict {
	t.Helper()
	verdicts, err := enter(t.Context(), pool, d, consumer, facts...)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// publish writes facts to their topics, in order for each topic and key. The key's number decides the partition.
func publish(t testing.TB, addr string, partitions int32, facts ...inbox.Fact) {
	t.Helper()
	client, err := broker.NewClient([]string{addr}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, len(facts))
	for i, f := range facts {
		number, _ := event.ParseOrderNo(f.Key)
		records[i] = &kgo.Record{Topic: f.Topic, Partition: int32(number) % partitions, Key: []byte(f.Key), Value: f.Value, Timestamp: f.Timestamp}
		for _, h := range f.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader(h))
		}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume runs the participant's consumer until the test ends, or the returned function is called.
func consume[S any](b *base, addr string, d *participant.Door[S], p event.Participant, change func(*inbox.Config)) (stop func()) {
	b.t.Helper()
	return consumeBy(b, addr, d, p, d.Handle, change)
}

// consumeBy is consume with another way to the door.
func consumeBy[S any](b *base, addr string, d *participant.Door[S], p event.Participant, handle inbox.Handler, change func(*inbox.Config)) (stop func()) {
	b.t.Helper()
	cfg := inbox.Config{
		Brokers: []string{addr}, Group: string(p), Topics: participant.Topics(p), Postgres: b.dsn,
		BatchTimeout: patience, Committed: d.Committed,
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- inbox.Run(ctx, b.log, cfg, handle) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := within(b.t, "the consumer's end", done); err != nil {
			b.t.Error(err)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// topicsOf are the topics of a participant with a number of partitions each.
func topicsOf(p event.Participant, partitions int32) map[string]int32 {
	topics := map[string]int32{}
	for _, owner := range choreography.Sources(p) {
		topics[owner.Topic()] = partitions
	}
	return topics
}

func taken(reference string) decision.Answered {
	return decision.Answered{
		Step: event.PaymentStep, Op: decision.Do, Outcome: decision.Outcome{Kind: decision.Succeeded, Reference: reference},
	}
}

// one returns the single value of a query.
func one[T any](b *base, sql string, args ...any) T {
	b.t.Helper()
	rows, _ := b.conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// many returns the rows of a query of one column.
func many[T any](b *base, sql string, args ...any) []T {
	b.t.Helper()
	rows, _ := b.conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// stated lists the facts in the outbox about an order, in the order in which they were stated.
func (b *base) stated(number event.OrderNo) string {
	b.t.Helper()
	return strings.Join(many[string](b, `SELECT type FROM outbox WHERE aggregateid = $1 ORDER BY occurredat, id`, number.String()), " ")
}

// called lists the keys of the order's calls.
func (b *base) called(number event.OrderNo) string {
	b.t.Helper()
	return strings.Join(many[string](b, `SELECT key FROM calls WHERE order_no = $1 ORDER BY id`, int64(number)), " ")
}

func (b *base) phase(number event.OrderNo) string {
	b.t.Helper()
	return strings.Join(many[string](b, `SELECT phase FROM order_states WHERE order_no = $1`, int64(number)), "")
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
		<-tick.C
	}
}

// within ends the test's wait for a channel.
func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for: %s", patience, what)
		panic("unreachable")
	}
}

// ids lists the ids of facts.
func ids(facts ...inbox.Fact) [][16]byte {
	out := make([][16]byte, len(facts))
	for i, f := range facts {
		out[i] = f.ID
	}
	return out
}

// stranger is an id that nothing else has.
func stranger(n int) event.ID {
	var id event.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

func inboxFacts(facts ...inbox.Fact) []inbox.Fact { return facts }
