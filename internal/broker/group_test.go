package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/brokertest"
)

const patience = 60 * time.Second

// store stands for the database: what was handled, by partition, and where to go on.
type store struct {
	mu     sync.Mutex
	next   map[place]int64
	values map[string]int // value to how often it was handled
	epoch  map[place]int
	claims int
}

func newStore() *store {
	return &store{next: map[place]int64{}, values: map[string]int{}, epoch: map[place]int{}}
}

// lane is a Lane on a store, fenced as the inbox is.
type storeLane struct {
	s      *store
	at     place
	epoch  int
	next   int64
	handle func(ctx context.Context, r Record) error // before a record is stored; nil for nothing
}

// claim returns a Claim for one consumer.
func (s *store) claim(handle func(ctx context.Context, r Record) error) Claim {
	return func(ctx context.Context, p Partition) (Lane, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := place{p.Topic, p.Partition}
		next, ok := s.next[at]
		if !ok {
			next = p.Start
			s.next[at] = next
		}
		s.epoch[at]++
		s.claims++
		return &storeLane{s: s, at: at, epoch: s.epoch[at], next: next, handle: handle}, nil
	}
}

var errFenced = errors.New("fenced")

func (l *storeLane) Next() int64 { return l.next }
func (l *storeLane) Handle(ctx context.Context, records []Record) error {
	for _, r := range records {
		if l.handle != nil && !r.Control {
			if err := l.handle(ctx, r); err != nil {
				return err
			}
		}
		if err := l.s.put(l, r); err != nil {
			return err
		}
		l.next = r.Offset + 1
	}
	return nil
}

func (s *store) put(l *storeLane, r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch[l.at] != l.epoch {
		return errFenced
	}
	if r.Offset < s.next[l.at] {
		return fmt.Errorf("offset %d handed over after %d", r.Offset, s.next[l.at])
	}
	s.next[l.at] = r.Offset + 1
	if !r.Control {
		s.values[string(r.Value)]++
	}
	return nil
}

func (l *storeLane) Drain()                                {}
func (l *storeLane) Rest()                                 {}
func (l *storeLane) Trouble() (since time.Time, err error) { return time.Time{}, nil }
func (l *storeLane) Close()                                {}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// checkOnce fails the test unless the values 0..n-1 were handled once each.
func (s *store) checkOnce(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if got := s.values[strconv.Itoa(i)]; got != 1 {
			t.Errorf("value %d was handled %d times", i, got)
		}
	}
	if len(s.values) != n {
		t.Errorf("%d values were handled, want %d", len(s.values), n)
	}
}

func groupConfig(b *brokertest.Broker, topics ...string) GroupConfig {
	return GroupConfig{
		Idle:    time.Minute,
		Brokers: []string{b.Addr()}, Group: "g", Topics: topics, BatchRecords: 50, BatchBytes: 1 << 20,
		Drain: 5 * time.Second, SessionTimeout: 6 * time.Second, RebalanceTimeout: 10 * time.Second,
	}
}

// running is a group in a goroutine.
type running struct {
	*Group
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, cfg GroupConfig, claim Claim) *running {
	t.Helper()
	r := &running{Group: NewGroup(slog.New(slog.NewTextHandler(t.Output(), nil)), cfg, claim), t: t, done: make(chan error, 1)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(func() { r.stop() })
	return r
}

// stop asks the group to end and waits for it.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("group: %v", err)
		}
		r.done <- nil
	case <-time.After(patience):
		r.t.Fatal("the group does not end")
	}
}

// runs counts the partitions that work.
func (r *running) runs() int {
	n := 0
	for _, s := range r.Status() {
		if s.State == Running {
			n++
		}
	}
	return n
}

// produce writes the values from..to-1, each under its own key.
func produce(t *testing.T, b *brokertest.Broker, topic string, from, to int, opts ...kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var batch []*kgo.Record
	for i := from; i < to; i++ {
		batch = append(batch, &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte(strconv.Itoa(i))})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func admin(t *testing.T, b *brokertest.Broker) *kadm.Client {
	t.Helper()
	client, err := NewClient([]string{b.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

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

// lagOf returns the group's lag over all partitions and how many of them have no commit.
func lagOf(t *testing.T, b *brokertest.Broker, topics ...string) (behind int64, noCommit int) {
	t.Helper()
	client, err := NewClient([]string{b.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	state, err := GroupLag(t.Context(), client, "g", topics)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range state.Lags {
		behind += l.Behind
		if l.NoCommit {
			noCommit++
		}
	}
	return behind, noCommit
}

// TestHistoryIsRead starts a new group on a topic with history (CON-03), and sees the lag go from all of it to nothing; a later start has nothing to do.
func TestHistoryIsRead(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 3})
	produce(t, b, "t", 0, 500)
	if behind, noCommit := lagOf(t, b, "t"); behind != 500 || noCommit != 3 {
		t.Errorf("before the start: behind %d, %d partitions without commit; want 500, 3", behind, noCommit)
	}
	s := newStore()
	g := start(t, groupConfig(b, "t"), s.claim(nil))
	eventually(t, "all values", func() bool { return s.count() == 500 })
	eventually(t, "no lag", func() bool { behind, noCommit := lagOf(t, b, "t"); return behind == 0 && noCommit == 0 })
	g.stop()
	s.checkOnce(t, 500)
	produce(t, b, "t", 500, 510)
	if behind, _ := lagOf(t, b, "t"); behind != 10 {
		t.Errorf("behind %d after the stop, want 10", behind)
	}
	start(t, groupConfig(b, "t"), s.claim(nil))
	eventually(t, "the rest", func() bool { return s.count() == 510 })
	s.checkOnce(t, 510)
}

// TestDatabaseIsTheTruth moves the group's commit to and fro: reading starts where the claim says.
func TestDatabaseIsTheTruth(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	produce(t, b, "t", 0, 100)
	for _, commit := range []int64{0, 90, 100} {
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, commit, -1)
		if err := admin(t, b).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
			t.Fatal(err)
		}
		s := newStore()
		s.next[place{"t", 0}] = 50
		g := start(t, groupConfig(b, "t"), s.claim(nil))
		eventually(t, "the second half", func() bool { return s.count() == 50 })
		g.stop()
		if slices.Contains([]int{s.values["49"], 1 - s.values["50"]}, 1) {
			t.Errorf("with a commit of %d reading did not start at 50", commit)
		}
	}
}

// TestNewPartitions is CON-03: a topic grows while the group runs; what is written to the new partitions at once is all handled, soon.
func TestNewPartitions(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 1})
	s := newStore()
	g := start(t, groupConfig(b, "t"), s.claim(nil))
	eventually(t, "the first partition", func() bool { return g.runs() == 1 })
	if _, err := admin(t, b).UpdatePartitions(t.Context(), 4, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, b, "t", 0, 20)
	eventually(t, "all values", func() bool { return s.count() == 20 })
	s.checkOnce(t, 20)
}

// TestRebalances lets members come and go under load: each value is handled once, no partition is left alone, and the lag ends at nothing (E.1 4 and 5).
func TestRebalances(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 6, "u": 2})
	s := newStore()
	first := start(t, groupConfig(b, "t", "u"), s.claim(nil))
	total := 0
	load := func() {
		produce(t, b, "t", total, total+300)
		produce(t, b, "u", total+300, total+400)
		total += 400
	}
	load()
	second := start(t, groupConfig(b, "t", "u"), s.claim(nil))
	load()
	eventually(t, "both to have partitions", func() bool { return first.runs() == 4 && second.runs() == 4 })
	third := start(t, groupConfig(b, "t", "u"), s.claim(nil))
	load()
	eventually(t, "three to have partitions", func() bool { return third.runs() >= 2 && first.runs()+second.runs()+third.runs() == 8 })
	second.stop()
	load()
	eventually(t, "two to have all partitions", func() bool { return first.runs()+third.runs() == 8 })
	first.stop()
	load()
	eventually(t, "all values", func() bool { return s.count() == total })
	s.checkOnce(t, total)
	eventually(t, "no lag", func() bool { behind, _ := lagOf(t, b, "t", "u"); return behind == 0 })
}
