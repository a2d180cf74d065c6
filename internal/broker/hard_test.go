package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/brokertest"
)

// TestSlowMember is CON-11: a handler is still busy when its partition is to go to another member. It is given its time to drain and then abandoned; each
// value takes effect once, and no partition stays unowned.
func TestSlowMember(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 2})
	cfg := groupConfig(b, "t")
	cfg.RebalanceTimeout, cfg.Drain, cfg.BatchRecords = 2*time.Second, time.Second, 1
	s := newStore()
	release := make(chan struct{})
	var stuck atomic.Int32
	first := start(t, cfg, s.claim(func(ctx context.Context, r Record) error {
		stuck.Add(1)
		select { // a call that takes longer than the group waits
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	produce(t, b, "t", 0, 20, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	eventually(t, "both partitions to be stuck", func() bool { return stuck.Load() == 2 })
	second := start(t, cfg, s.claim(nil))
	eventually(t, "the second member to have a partition", func() bool { return second.runs() == 1 })
	eventually(t, "its values", func() bool { return s.count() == 10 })
	close(release)
	eventually(t, "all values", func() bool { return s.count() == 20 })
	s.checkOnce(t, 20)
	if n := first.runs(); n != 1 {
		t.Errorf("the first member has %d partitions, want 1", n)
	}
	eventually(t, "no lag", func() bool { behind, _ := lagOf(t, b, "t"); return behind == 0 })
}

// TestHandlerThatCannotBeEnded: it ignores its context. The rebalance goes on without it, and stopping says that it still runs.
func TestHandlerThatCannotBeEnded(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	cfg := groupConfig(b, "t")
	cfg.Drain = 200 * time.Millisecond
	s := newStore()
	release, stuck := make(chan struct{}), make(chan struct{})
	g := start(t, cfg, s.claim(func(context.Context, Record) error { close(stuck); <-release; return nil }))
	produce(t, b, "t", 0, 1)
	<-stuck
	g.cancel()
	select {
	case err := <-g.done:
		if err == nil {
			t.Error("the group ended in peace with a handler still running")
		}
		g.done <- nil
	case <-time.After(patience):
		t.Fatal("the group waits for the handler for ever")
	}
	second := start(t, cfg, s.claim(nil))
	eventually(t, "another to do the work", func() bool { return s.count() == 1 })
	close(release)
	second.stop()
	g.all.Wait()
	s.checkOnce(t, 1)
}

// TestSubscribedTwice: a partition comes back to a member whose earlier worker on it has not ended yet, because its handler ignores its context. The
// new worker reads from where the fence is, not from where the old one's fetching was, and is not paused for the old one's full queue.
func TestSubscribedTwice(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]int{"paused": 10, "fetching": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Start(t, map[string]int32{"t": 1})
			r, err := newReader(slog.New(slog.NewTextHandler(t.Output(), nil)), groupConfig(b, "t"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var reading sync.WaitGroup
			reading.Go(func() { r.run(ctx) })
			defer reading.Wait()
			defer cancel()
			empty := func(full int) *queue {
				return newQueue("t", 0, [16]byte{}, 1<<20, full, func(on bool) { r.pause("t", 0, on) })
			}
			read := func(q *queue) []Record {
				q.mu.Lock()
				defer q.mu.Unlock()
				return q.records
			}
			produce(t, b, "t", 0, 20)
			old, fresh := empty(full), empty(1000)
			r.subscribe(old, 0)
			eventually(t, "the old worker's records", func() bool { return len(read(old)) == 20 })
			r.subscribe(fresh, 5)
			produce(t, b, "t", 20, 25)
			eventually(t, "the new worker's records", func() bool { return len(read(fresh)) > 0 })
			r.unsubscribe(old) // it ends at last, and takes nothing from its successor
			produce(t, b, "t", 25, 30)
			eventually(t, "all of them", func() bool { got := read(fresh); return got[len(got)-1].Offset == 29 })
			if first := read(fresh)[0].Offset; first != 5 {
				t.Errorf("the new worker begins at offset %d, want 5: what lies before it would be skipped", first)
			}
		})
	}
}

// TestDrainBeforeLeaving is CON-12: a stop lets the batch under way finish, and commits it, before another member gets the partition; no further record is taken.
func TestDrainBeforeLeaving(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	cfg := groupConfig(b, "t")
	cfg.BatchRecords = 1
	s := newStore()
	busy, release := make(chan struct{}), make(chan struct{})
	var handled atomic.Int32
	first := start(t, cfg, s.claim(func(ctx context.Context, r Record) error {
		if handled.Add(1) == 1 {
			close(busy)
			<-release
		}
		return nil
	}))
	produce(t, b, "t", 0, 5)
	<-busy
	second := start(t, cfg, s.claim(nil))
	eventually(t, "the second member to wait in the group", second.Joined)
	first.cancel()
	eventually(t, "the first member to drain", func() bool { st := first.Status(); return len(st) == 1 && st[0].State == Draining })
	if n := s.count(); n != 0 {
		t.Errorf("%d values handled by another while the first member is at work", n)
	}
	close(release)
	first.stop()
	eventually(t, "all values", func() bool { return s.count() == 5 })
	if n := handled.Load(); n != 1 {
		t.Errorf("the stopping member handled %d records, want the one that it had", n)
	}
	s.checkOnce(t, 5)
	if s.claims != 2 {
		t.Errorf("%d claims, want 2", s.claims)
	}
}

// TestBrokerGoesAndComes stops the broker cleanly and uncleanly in the middle: consumption goes on after each, and nothing is lost.
func TestBrokerGoesAndComes(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 3})
	s := newStore()
	start(t, groupConfig(b, "t"), s.claim(nil))
	total := 0
	for _, down := range []func(){b.Stop, b.Crash, b.Stop} {
		produce(t, b, "t", total, total+100)
		total += 100
		eventually(t, "some values", func() bool { return s.count() > total-100 })
		down()
		b.Restart()
	}
	produce(t, b, "t", total, total+100)
	total += 100
	eventually(t, "all values", func() bool { return s.count() == total })
	s.checkOnce(t, total)
	eventually(t, "no lag", func() bool { behind, _ := lagOf(t, b, "t"); return behind == 0 })
}

// TestBrokerAwayAtTheStart starts the group before there is a broker.
func TestBrokerAwayAtTheStart(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	produce(t, b, "t", 0, 10)
	b.Stop()
	s := newStore()
	g := start(t, groupConfig(b, "t"), s.claim(nil))
	if g.Joined() {
		t.Error("joined without a broker")
	}
	b.Restart()
	eventually(t, "all values", func() bool { return s.count() == 10 })
}

// TestTransactionMarkers: what an open or aborted transaction holds is not handed over, and a partition that ends in markers is read to its end, so that the lag is nothing.
func TestTransactionMarkers(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := 0
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(value)
		if end == kgo.TryAbort {
			text = "aborted"
		} else {
			value++
		}
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(text)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	s := newStore()
	start(t, groupConfig(b, "t"), s.claim(nil))
	eventually(t, "both committed values", func() bool { return s.count() == value })
	eventually(t, "no lag", func() bool { behind, noCommit := lagOf(t, b, "t"); return behind == 0 && noCommit == 0 })
	s.checkOnce(t, value)
}

// TestLaneBehind: one partition's handler is stuck with much to read. Its memory stays bounded, and the other partition goes on; then it catches up (E.3 25 and 29).
func TestLaneBehind(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 2})
	cfg := groupConfig(b, "t")
	s := newStore()
	release := make(chan struct{})
	g := start(t, cfg, s.claim(func(ctx context.Context, r Record) error {
		if r.Partition == 0 {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}))
	const each = 20_000
	manual := kgo.RecordPartitioner(kgo.RoundRobinPartitioner())
	for n := range 4 {
		produce(t, b, "t", n*each/2, (n+1)*each/2, manual)
	}
	eventually(t, "the free partition's values", func() bool { return s.count() == each })
	queued := make(chan int)
	g.reader.do(func() {
		q := g.reader.queues[place{"t", 0}]
		q.mu.Lock()
		defer q.mu.Unlock()
		queued <- len(q.records)
	})
	if n := <-queued; n > 10_000+2*cfg.BatchRecords {
		t.Errorf("%d records wait in the memory of a partition that is behind, which is not one fetch more than is wanted", n)
	}
	close(release)
	eventually(t, "all values", func() bool { return s.count() == 2*each })
	s.checkOnce(t, 2*each)
}

// TestLaneErrors: a lane that fails is claimed again, from where it was; a claim that is refused says why, and is tried until it is granted.
func TestLaneErrors(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	produce(t, b, "t", 0, 100)
	s := newStore()
	var refusals, failures atomic.Int32
	good := s.claim(func(ctx context.Context, r Record) error {
		if r.Offset == 30 && failures.Add(1) <= 2 {
			return errors.New("no")
		}
		return nil
	})
	allow := make(chan struct{})
	g := start(t, groupConfig(b, "t"), func(ctx context.Context, p Partition) (Lane, error) {
		select {
		case <-allow:
			return good(ctx, p)
		default:
			refusals.Add(1)
			return nil, errors.New("not yours")
		}
	})
	eventually(t, "refusals", func() bool { return refusals.Load() >= 2 })
	if st := g.Status(); len(st) != 1 || st[0].State != Claiming || st[0].Err != "not yours" || st[0].Next != -1 || st[0].Since.IsZero() {
		t.Errorf("status of a refused partition: %+v", st)
	}
	close(allow)
	eventually(t, "all values", func() bool { return s.count() == 100 })
	s.checkOnce(t, 100)
	eventually(t, "a clean status", func() bool { st := g.Status(); return st[0].State == Running && st[0].Err == "" && st[0].Next == 100 })
}

// TestTopicMadeAnew deletes a topic under a running group and makes it again. The claim sees another id, and what it decides is done: here, to begin anew.
func TestTopicMadeAnew(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	produce(t, b, "t", 0, 10)
	s := newStore()
	var ids []([16]byte)
	inner := s.claim(nil)
	g := start(t, groupConfig(b, "t"), func(ctx context.Context, p Partition) (Lane, error) {
		s.mu.Lock()
		if len(ids) == 0 || ids[len(ids)-1] != p.TopicID {
			ids = append(ids, p.TopicID)
			s.next[place{p.Topic, p.Partition}] = p.Start
		}
		s.mu.Unlock()
		return inner(ctx, p)
	})
	eventually(t, "the old topic's values", func() bool { return s.count() == 10 })
	if _, err := admin(t, b).DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss to be seen", func() bool { return g.runs() == 0 })
	b.CreateTopic("t", 1)
	produce(t, b, "t", 10, 20)
	eventually(t, "the new topic's values", func() bool { return s.count() == 20 })
	s.checkOnce(t, 20)
	eventually(t, "no lag in the new topic", func() bool { behind, noCommit := lagOf(t, b, "t"); return behind == 0 && noCommit == 0 })
}
