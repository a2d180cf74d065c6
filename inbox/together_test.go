package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// in is records in a partition, named after it so that no two partitions share one.
func in(partition int32, first int64, names ...string) []broker.Record {
	for i := range names {
		names[i] = fmt.Sprintf("%s.%d", names[i], partition)
	}
	all := records(first, names...)
	for i := range all {
		all[i].Partition = partition
	}
	return all
}

func together(b *base, consumer string) Config {
	cfg := b.config(consumer)
	cfg.Together = true
	return cfg
}

func claimPartition(t *testing.T, c *Consumer, n int32, end int64) *lane {
	t.Helper()
	p := partition(end)
	p.Partition = n
	return mustClaim(t, c, p)
}

// stage is a Handler that stops the first call until the test lets it go on, and notes how many partitions each call has facts of.
type stage struct {
	Handler
	begun chan struct{}
	on    chan struct{}

	mu    sync.Mutex
	calls []int // guarded by mu
}

func newStage(h Handler) *stage {
	return &stage{Handler: h, begun: make(chan struct{}), on: make(chan struct{})}
}

func (s *stage) handle(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
	partitions := map[int32]bool{}
	for _, f := range facts {
		partitions[f.Partition] = true
	}
	s.mu.Lock()
	first := len(s.calls) == 0
	s.calls = append(s.calls, len(partitions))
	s.mu.Unlock()
	if first {
		close(s.begun)
		<-s.on
	}
	return s.Handler(ctx, tx, facts)
}

// aboard waits until so many lanes wait for the next transaction.
func aboard(t *testing.T, c *Consumer, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d partitions wait", n), func() bool {
		c.crew.mu.Lock()
		defer c.crew.mu.Unlock()
		return len(c.crew.waiting) >= n
	})
}

// ridden runs Handle of several lanes at once, the first of them alone at first, and returns their errors.
func ridden(t *testing.T, s *stage, c *Consumer, lanes []*lane, meanwhile func(), batches ...[]broker.Record) []error {
	t.Helper()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	handle := func(i int) {
		wg.Go(func() { errs[i] = lanes[i].Handle(t.Context(), batches[i]) })
	}
	handle(0)
	within(t, "the first transaction begins", s.begun)
	for i := 1; i < len(lanes); i++ {
		handle(i)
	}
	aboard(t, c, len(lanes)-1) // the first was taken
	meanwhile()
	close(s.on)
	wg.Wait()
	return errs
}

// TestTogether: what comes in from several partitions while a transaction runs goes into one, and the progress of each is in its own row.
func TestTogether(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	s := newStage(apply("c"))
	var told int
	cfg := together(b, "c")
	cfg.Committed = func(facts []Fact, verdicts []Verdict) { told += len(facts) }
	c := newConsumer(t, cfg, s.handle)
	lanes := []*lane{claimPartition(t, c, 0, 1), claimPartition(t, c, 1, 2), claimPartition(t, c, 2, 3), claimPartition(t, c, 3, 1)}
	errs := ridden(t, s, c, lanes, func() {},
		in(0, 0, "a"), in(1, 0, "a", "b"), in(2, 0, "a", "b", "dead"), in(3, 0, "a"))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(s.calls), "[1 3]"; got != want {
		t.Errorf("partitions in a call: %s, want %s", got, want)
	}
	b.checkOnce("c", "a.0", "a.1", "b.1", "a.2", "b.2", "a.3")
	if got, want := fmt.Sprint(many[int64](b, `SELECT next_offset FROM partition_owner ORDER BY partition`)), "[1 2 3 1]"; got != want {
		t.Errorf("fences at %s, want %s", got, want)
	}
	for i, l := range lanes {
		if want := []int64{1, 2, 3, 1}[i]; l.Next() != want {
			t.Errorf("partition %d goes on at %d, want %d", i, l.Next(), want)
		}
	}
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 1 {
		t.Errorf("%d dead letters", n)
	}
	if told != 7 {
		t.Errorf("told of %d facts", told)
	}
}

// TestTogetherWithACulprit: a fact that fails costs the others of its transaction nothing but a second one.
func TestTogetherWithACulprit(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	s := newStage(apply("c"))
	c := newConsumer(t, together(b, "c"), s.handle)
	lanes := []*lane{claimPartition(t, c, 0, 1), claimPartition(t, c, 1, 3), claimPartition(t, c, 2, 2)}
	errs := ridden(t, s, c, lanes, func() {}, in(0, 0, "a"), in(1, 0, "a", "poison", "b"), in(2, 0, "a", "b"))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a.0", "a.1", "b.1", "a.2", "b.2")
	if got := fmt.Sprint(many[string](b, `SELECT partition || ' ' || reason FROM dead_letters`)); got != "[1 poison]" {
		t.Errorf("dead letters %s", got)
	}
}

// TestTogetherWithAStranger: a partition that was claimed by somebody else meanwhile ends its own lane, and nothing of the others'.
func TestTogetherWithAStranger(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	s := newStage(apply("c"))
	c := newConsumer(t, together(b, "c"), s.handle)
	lanes := []*lane{claimPartition(t, c, 0, 1), claimPartition(t, c, 1, 1), claimPartition(t, c, 2, 1)}
	errs := ridden(t, s, c, lanes, func() {
		if _, err := b.conn.Exec(t.Context(), `UPDATE partition_owner SET epoch = epoch + 1 WHERE partition = 1`); err != nil {
			t.Fatal(err)
		}
	}, in(0, 0, "a"), in(1, 0, "a"), in(2, 0, "a"))
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], ErrFenced) {
		t.Errorf("%v, want ErrFenced of the second alone", errs)
	}
	b.checkOnce("c", "a.0", "a.2")
}

// TestTogetherIsLeft: a partition that is taken away while it waits leaves nothing behind, and whoever leads next takes the others.
func TestTogetherIsLeft(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	s := newStage(apply("c"))
	c := newConsumer(t, together(b, "c"), s.handle)
	lanes := []*lane{claimPartition(t, c, 0, 1), claimPartition(t, c, 1, 1), claimPartition(t, c, 2, 1)}
	errs := ridden(t, s, c, lanes, func() {
		lanes[1].Drain()
		eventually(t, "the drained partition has left", func() bool {
			c.crew.mu.Lock()
			defer c.crew.mu.Unlock()
			return len(c.crew.waiting) == 1
		})
	}, in(0, 0, "a"), in(1, 0, "a"), in(2, 0, "a"))
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], errDraining) {
		t.Errorf("%v, want the second alone to be drained", errs)
	}
	b.checkOnce("c", "a.0", "a.2")
}

// TestTogetherFrozen: a process is frozen in a transaction for several partitions. Whoever takes over one that the transaction's connection is not of does not wait for it, and nothing of
// the transaction stays.
func TestTogetherFrozen(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	cfg := together(b, "c")
	cfg.Owner = "one"
	s := newStage(apply("c"))
	frozen, on := make(chan struct{}), make(chan struct{})
	c := newConsumer(t, cfg, func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		if len(facts) == 2 { // the two that go together
			close(frozen)
			<-on
		}
		return s.handle(ctx, tx, facts)
	})
	lanes := []*lane{claimPartition(t, c, 0, 1), claimPartition(t, c, 1, 1), claimPartition(t, c, 2, 1)}
	cfg.Owner = "two"
	other := newConsumer(t, cfg, apply("c"))
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		<-frozen
		leader := int32(1)
		if one[int](b, `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid = $1`, lanes[1].self.pid) == 0 {
			leader = 2
		}
		eventually(t, "it has stood still for a second", func() bool {
			return one[bool](b, `SELECT state_change < clock_timestamp() - interval '1.1 seconds' FROM pg_stat_activity WHERE pid = $1`, lanes[leader].self.pid)
		})
		at := partition(1)
		at.Partition = 3 - leader
		l, err := other.claim(t.Context(), at)
		if err == nil {
			err = l.Handle(t.Context(), in(3-leader, 0, "a"))
			l.Close()
		}
		if err != nil {
			t.Errorf("the new owner: %v", err)
		}
		close(on)
	}()
	errs := ridden(t, s, c, lanes, func() {}, in(0, 0, "a"), in(1, 0, "a"), in(2, 0, "a"))
	within(t, "the other process has taken over", taken)
	fenced := 0
	for _, err := range errs {
		if errors.Is(err, ErrFenced) {
			fenced++
		} else if err != nil {
			t.Error(err)
		}
	}
	if fenced != 1 {
		t.Errorf("%v, want ErrFenced of one", errs)
	}
	b.checkOnce("c", "a.0", "a.1", "a.2")
}

// TestTogetherEachStatementFails loses a connection before, after, and without the server's knowledge at, each statement of three partitions that share transactions.
// A lost COMMIT is found out by everybody whom it was for.
func TestTogetherEachStatementFails(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for _, how := range []cut{before, after, silent} {
		t.Run(how.String(), func(t *testing.T) {
			p, dsn := newProxy(t, b.dsn)
			const claims = 12 // statements of the claims, no less
			quiet := 0
			for n := claims / 2; quiet < 3; n++ { // who leads and how often is not fixed, so the number of statements is not either
				consumer := fmt.Sprintf("%s-%d", how, n)
				cfg := together(b, consumer)
				cfg.Postgres = dsn
				c := newConsumer(t, cfg, apply(consumer))
				p.arm(n, how)
				var wg sync.WaitGroup
				for partition := range int32(3) {
					wg.Go(func() {
						pumpPartition(t, c, partition, in(partition, 0, "a", "dead"), in(partition, 2, "b"), in(partition, 3, "c", "d"))
					})
				}
				wg.Wait()
				if t.Failed() {
					t.Fatalf("with a cut %s statement %d", how, n)
				}
				var want []string
				for _, name := range []string{"a", "b", "c", "d"} {
					want = append(want, name+".0", name+".1", name+".2")
				}
				b.checkOnce(consumer, want...)
				if n := one[int](b, `SELECT count(*) FROM dead_letters WHERE consumer = $1`, consumer); n != 3 {
					t.Errorf("%s: %d dead letters", consumer, n)
				}
				if n := one[int](b, `SELECT count(*) FROM partition_owner WHERE consumer = $1 AND next_offset = 5`, consumer); n != 3 {
					t.Errorf("%s: %d fences at the end", consumer, n)
				}
				if p.hasFired() {
					quiet = 0
				} else {
					quiet++
				}
			}
		})
	}
}

// pumpPartition is pump for one partition of several.
func pumpPartition(t *testing.T, c *Consumer, n int32, batches ...[]broker.Record) {
	last := batches[len(batches)-1]
	at := partition(last[len(last)-1].Offset + 1)
	at.Partition = n
	for range 20 {
		l, err := c.claim(t.Context(), at)
		if err != nil {
			t.Logf("claim: %v", err)
			continue
		}
		for _, batch := range batches {
			if batch[len(batch)-1].Offset < l.Next() {
				continue
			}
			if err = l.Handle(t.Context(), batch); err != nil {
				t.Logf("handle: %v", err)
				break
			}
		}
		next := l.Next()
		l.Close()
		if err == nil && next == at.End {
			return
		}
	}
	t.Errorf("partition %d: 20 claims and still not done", n)
}

// TestTogetherKeepsNoKeys: the two settings contradict each other.
func TestTogetherKeepsNoKeys(t *testing.T) {
	t.Parallel()
	cfg := Config{Brokers: []string{"none:1"}, Group: "g", Topics: []string{"t"}, Postgres: "postgres://x", Together: true, HoldKeys: true}
	if _, err := cfg.withDefaults(); err == nil {
		t.Error("accepted")
	}
}
