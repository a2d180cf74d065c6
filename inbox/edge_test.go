package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/broker"
	"chorus/internal/pgtest"
)

// TestStaticMember restarts a member with an instance id: the others keep their partitions undisturbed, and it takes its own again.
func TestStaticMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	member := func(name string) (*Consumer, func()) {
		cfg := w.config()
		cfg.InstanceID, cfg.Owner = name, name
		return w.consume(cfg, apply("c"))
	}
	_, stopFirst := member("first")
	second, _ := member("second")
	owners := func() string {
		return fmt.Sprint(many[string](w.base, `SELECT owner || ':' || partition || ':' || epoch FROM partition_owner WHERE owner = 'second' ORDER BY partition`))
	}
	shared := func() bool {
		return one[int](w.base, `SELECT count(*) FROM (SELECT FROM partition_owner GROUP BY owner HAVING count(*) = 2) AS p`) == 2
	}
	eventually(t, "both to have two partitions", func() bool { return shared() && len(second.Status()) == 2 })
	w.produce(names("a", 100)...)
	eventually(t, "the first effects", func() bool { return w.effects() == 100 })
	before := owners()
	stopFirst()
	w.produce(names("b", 100)...)
	_, stopFirst = member("first")
	eventually(t, "all effects", func() bool { return w.effects() == 200 })
	if after := owners(); after != before {
		t.Errorf("the other member's partitions were %s and are %s", before, after)
	}
	stopFirst()
	w.checkOnce("c", append(names("a", 100), names("b", 100)...)...)
}

// TestSameInstance starts a second process under the instance id of the first, which then ends and says why: had it joined again, the two would
// have thrown each other out for ever.
func TestSameInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	cfg := w.config()
	cfg.InstanceID = "one"
	first, ended := newConsumer(t, cfg, apply("c")), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- first.Run(ctx) }()
	eventually(t, "both partitions", func() bool { return len(first.Status()) == 2 })
	second, _ := w.consume(cfg, apply("c"))
	var same *broker.SameInstanceError
	if err := <-ended; !errors.As(err, &same) || same.Instance != "one" {
		t.Fatalf("the first ended with %v", err)
	}
	eventually(t, "the second to have both", func() bool { return len(second.Status()) == 2 })
	w.produce(names("a", 50)...)
	eventually(t, "all effects", func() bool { return w.effects() == 50 })
	w.checkOnce("c", names("a", 50)...)
}

// TestEagerMembers lets members of the older protocol, which give up everything at each rebalance, come and go under load.
func TestEagerMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	cfg := w.config()
	cfg.Kafka = []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	var all []string
	feed := func() {
		batch := names(fmt.Sprintf("%d-", len(all)), 200)
		w.produce(batch...)
		all = append(all, batch...)
	}
	_, stop := w.consume(cfg, apply("c"))
	feed()
	w.consume(cfg, apply("c"))
	feed()
	stop()
	w.consume(cfg, apply("c"))
	feed()
	eventually(t, "all effects", func() bool { return w.effects() == len(all) })
	w.checkOnce("c", all...)
}

// TestLogStartMovedOn: records were deleted before they were read. The partition is refused with their number until a person decides, and other partitions go on.
func TestLogStartMovedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	to := func(partition int32, names ...string) {
		for _, name := range names {
			r := record(0, name)
			out := &kgo.Record{Topic: "t", Partition: partition, Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, kgo.RecordHeader(h))
			}
			w.produceExactly(out)
		}
	}
	_, stop := w.consume(w.config(), apply("c"))
	to(0, "a0", "a1")
	eventually(t, "the first effects", func() bool { return w.effects() == 2 })
	stop()
	to(0, "lost2", "lost3", "a4")
	client, err := broker.NewClient([]string{w.broker.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 4, -1)
	if deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	c, _ := w.consume(w.config(), apply("c"))
	to(1, "b0")
	eventually(t, "the other partition", func() bool { return w.effects() == 3 })
	eventually(t, "the refusal", func() bool {
		return slices.ContainsFunc(c.Status(), func(s Status) bool {
			return s.Partition == 0 && strings.Contains(s.Err, "below the log start 4: 2 records were deleted before they were read")
		})
	})
	id := one[[16]byte](w.base, `SELECT topic_id FROM partition_owner WHERE partition = 0`)
	if _, err := Rewind(t.Context(), w.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: id, To: 4}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is left", func() bool { return w.effects() == 4 })
	w.checkOnce("c", "a0", "a1", "a4", "b0")
}

func (w *world) produceExactly(batch ...*kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(context.Background(), batch...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// TestDeadLetterStorm sends 10,000 broken records, some of which break their whole batch, among 500 good ones: the good are not held up until the storm is over, nothing grows, and each broken one is
// kept with its reason (E.4 36).
func TestDeadLetterStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	const broken, good = 10_000, 500
	var facts []string
	for i := range broken {
		word := "dead"
		if i%2000 == 250 {
			word = "poison" // an error: its batch is run again one by one
		}
		facts = append(facts, fmt.Sprintf("%d/%s%d", i%97, word, i))
		if i%(broken/good) == 0 {
			facts = append(facts, fmt.Sprintf("%d/good%d", i%97, i))
		}
	}
	w.produceKeyed(facts...)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	cfg := w.config()
	cfg.BatchRecords = 200
	w.consume(cfg, apply("c"))
	first := 0 // dead letters when half of the good facts had taken effect
	eventually(t, "the good facts", func() bool {
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc)
		n := w.effects()
		if first == 0 && n >= good/2 {
			first = one[int](w.base, `SELECT count(*) FROM dead_letters`)
		}
		return n == good
	})
	eventually(t, "the dead letters", func() bool { return one[int](w.base, `SELECT count(*) FROM dead_letters`) == broken })
	if first > broken*9/10 {
		t.Errorf("half of the good facts had to wait for %d of %d broken ones", first, broken)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 128<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if got := fmt.Sprint(many[string](w.base, `SELECT reason || ' ' || count(*) FROM dead_letters GROUP BY reason ORDER BY 1`)); got != "[poison 5 unreadable 9995]" {
		t.Errorf("dead letters %s", got)
	}
	if n := one[int](w.base, `SELECT count(*) FROM effects`); n != good {
		t.Errorf("%d effects of %d good facts", n, good)
	}
}

// TestClocks: what producers' clocks say decides neither order nor fate, short of the horizon, and a time that no column holds (a timestamp in the wrong unit) costs the others nothing.
func TestClocks(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	at := func(offset int64, name, occurred string, stamp time.Time) broker.Record {
		r := record(offset, name)
		if occurred != "" {
			r = record(offset, name, Header{Key: "occurredAt", Value: []byte(occurred)})
		}
		r.Timestamp = stamp
		return r
	}
	now := time.Now()
	batch := []broker.Record{
		at(0, "a0", now.Add(10*365*24*time.Hour).UTC().Format(time.RFC3339), now),
		at(1, "a1", now.Add(-24*time.Hour).UTC().Format(time.RFC3339Nano), now),
		at(2, "a2", "9999-12-31T23:59:59.999999Z", now),
		at(3, "a3", "yesterday", now),
		at(4, "a4", "", time.UnixMilli(now.UnixNano())),  // nanoseconds where milliseconds belong: the year 55 million
		at(5, "a5", "", time.UnixMilli(math.MaxInt64)),   // as far as a record reaches
		at(6, "a6", "", time.UnixMilli(math.MinInt64)),   // and back
		at(7, "a7", "0000-01-01T00:00:00Z", now),         // older than any horizon
		at(8, "a8", "", time.UnixMilli(-1)),              // "no timestamp"
		at(9, "a9", now.Format("2006-01-02 15:04"), now), // no RFC 3339: the record's timestamp counts
		at(10, "dead10", "", time.UnixMilli(1<<62)),      // a dead letter keeps its times
		at(11, "a11", now.UTC().Format(time.RFC3339), now),
	}
	for i := range 30 { // some of these, taken for microseconds, wrap around to a time that there is, and some to one that no database holds
		batch = append(batch, at(int64(12+i), fmt.Sprintf("b%d", 12+i), "", time.UnixMilli(int64(i+1)<<58)))
	}
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(50))
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got, want := b.effectsOf("a"), "[0 1 2 3 4 5 9 11]"; got != want {
		t.Errorf("effects %s, want %s", got, want)
	}
	if n := one[int](b, `SELECT count(*) FROM effects WHERE key = 'b'`); n != 30 {
		t.Errorf("%d effects of 30 facts with absurd times", n)
	}
	if got, want := b.letters(), "6 too_old, 7 too_old, 8 too_old, 10 unreadable"; got != want {
		t.Errorf("dead letters %s, want %s", got, want)
	}
	// A row whose fact is of the future is not forgotten while the fact can come again.
	if _, err := b.conn.Exec(t.Context(), `UPDATE inbox SET handled_at = now() - interval '1 year'`); err != nil {
		t.Fatal(err)
	}
	if _, err := Prune(t.Context(), b.conn, "c", 30*24*time.Hour, 100); err != nil {
		t.Fatal(err)
	}
	if n := one[int](b, `SELECT count(*) FROM inbox WHERE "offset" IN (0, 2, 4, 5)`); n != 4 {
		t.Errorf("%d of 4 facts of the future are remembered", n)
	}
	letters, err := DeadLetters(t.Context(), b.conn, LetterFilter{Consumer: "c", State: Open}, 10)
	if err != nil || len(letters) != 4 {
		t.Errorf("%d dead letters can be read, want 4: %v", len(letters), err)
	}
}

// TestDeadlocksInHandlers has two partitions' handlers lock the same rows in opposite orders, again and again (CON-21): the server ends one of each pair, which runs again; no fact pays for it.
func TestDeadlocksInHandlers(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	if _, err := b.conn.Exec(t.Context(), `CREATE TABLE stock (sku text PRIMARY KEY, n bigint NOT NULL); INSERT INTO stock VALUES ('A', 0), ('B', 0)`); err != nil {
		t.Fatal(err)
	}
	const rounds = 3
	var met atomic.Int32     // deadlocks
	var first sync.WaitGroup // both have their first lock of the round
	lanes := make([]*lane, 2)
	for n, skus := range [][]string{{"A", "B"}, {"B", "A"}} {
		waited := int64(-1) // the round in which this handler has met the other
		p := partition(rounds)
		p.Partition = int32(n)
		lanes[n] = mustClaim(t, newConsumer(t, b.config("c"), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
			for i, sku := range skus {
				if _, err := tx.Exec(ctx, `UPDATE stock SET n = n + 1 WHERE sku = $1`, sku); err != nil {
					met.Add(1)
					return nil, err
				}
				if i == 0 && waited < facts[0].Offset {
					waited = facts[0].Offset
					first.Done()
					first.Wait()
				}
			}
			return apply("c")(ctx, tx, facts)
		}), p)
	}
	for round := range rounds {
		first.Add(2)
		var both sync.WaitGroup
		for n, l := range lanes {
			both.Go(func() {
				r := record(int64(round), fmt.Sprintf("p%d-%d", n, round))
				r.Partition = int32(n)
				if err := l.Handle(t.Context(), []broker.Record{r}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	if got := one[string](b, `SELECT string_agg(sku || n, ' ' ORDER BY sku) FROM stock`); got != fmt.Sprintf("A%d B%d", 2*rounds, 2*rounds) {
		t.Errorf("stock %s", got)
	}
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	b.checkOnce("c", append(names("p0-", rounds), names("p1-", rounds)...)...)
	if met.Load() != rounds {
		t.Errorf("%d deadlocks in %d rounds", met.Load(), rounds)
	}
}

// TestDatabaseCrashes kills PostgreSQL under load, twice, and starts it again, as a failover looks to a client: each fact takes effect once (E.1 1).
func TestDatabaseCrashes(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	w := &world{base: useBase(t, server.DSN()), broker: newWorld(t, 3).broker}
	c, _ := w.consume(w.config(), apply("c"))
	var all []string
	feed := func() {
		batch := names(fmt.Sprintf("%d-", len(all)), 300)
		w.produce(batch...)
		all = append(all, batch...)
	}
	feed()
	eventually(t, "the first effects", func() bool { return w.effects() > 0 })
	for range 2 {
		feed()
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		feed() // it may have been through with what came before
		eventually(t, "the consumer to say that it waits", func() bool {
			return slices.ContainsFunc(c.Status(), func(s Status) bool { return s.Err != "" })
		})
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), w.dsn)
		if err != nil {
			t.Fatal(err)
		}
		w.conn = conn
		t.Cleanup(func() { conn.Close(context.Background()) })
	}
	feed()
	eventually(t, "all effects", func() bool { return w.effects() == len(all) })
	w.checkOnce("c", all...)
	if n := one[int](w.base, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
