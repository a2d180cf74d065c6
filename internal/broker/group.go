package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupConfig is what a Group needs. All fields but InstanceID and Options must be set.
type GroupConfig struct {
	Brokers    []string
	Group      string
	Topics     []string
	InstanceID string    // static membership when set: a restart within the session timeout causes no rebalance
	Options    []kgo.Opt // for both clients: TLS, SASL, hooks

	BatchRecords int // handed to a lane at once, at most; a queue holds twice as many before its partition is paused
	BatchBytes   int // the same in bytes

	// Pace is the least time between the beginnings of two batches of a partition, unless the second is full; it is longer when batches take long. What comes after a pause is handed on at once; a steady
	// stream is gathered, because a transaction of thirty records costs hardly more than one of three. 0 hands everything on at once.
	Pace time.Duration

	Idle time.Duration // after so long without a record a lane is told to rest

	Drain            time.Duration // how long a lane may finish its batch when its partition is taken away; below RebalanceTimeout (CON-11)
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
}

// Group consumes topics as a member of a consumer group.
type Group struct {
	log    *slog.Logger
	cfg    GroupConfig
	claim  Claim
	member *kgo.Client
	reader *reader

	mu       sync.Mutex
	workers  map[place]*worker // guarded by mu, as is all below: of the partitions that are assigned
	joined   bool
	stopping bool
	all      sync.WaitGroup // every worker's goroutine, also of partitions that were taken away
}

// NewGroup contacts nobody; Run does.
func NewGroup(log *slog.Logger, cfg GroupConfig, claim Claim) *Group {
	return &Group{log: log.With("group", cfg.Group), cfg: cfg, claim: claim, workers: map[place]*worker{}}
}

// memberOptions makes a client that joins the group and fetches nothing. Cooperative-sticky, so that a rebalance leaves the other partitions alone; the classic protocol, because both
// Apache Kafka and the embedded broker do it without delay.
func (g *Group) memberOptions() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(g.cfg.Group),
		kgo.ConsumeTopics(g.cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(g.cfg.SessionTimeout),
		kgo.RebalanceTimeout(g.cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(min(time.Second, g.cfg.SessionTimeout/4)),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // of no effect, because nothing is fetched; but what it would have to be (CON-03)
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) { g.assigned(assigned) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) { g.revoked(revoked) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { g.lost(lost) }),
	}
	if g.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(g.cfg.InstanceID))
	}
	return clientOptions(g.cfg.Brokers, append(opts, g.cfg.Options...)...)
}

// SameInstanceError says that another process has joined the group under this one's instance id and so has taken its place. Joining again would
// only throw the other one out, and so on for ever.
type SameInstanceError struct{ Group, Instance string }

func (e *SameInstanceError) Error() string {
	return fmt.Sprintf("another process runs as instance %q of consumer group %s: give every process an instance of its own, or none", e.Instance, e.Group)
}

// Run joins the group and consumes until ctx ends; then it drains, commits and leaves. The error says what did not end in time, or is a *SameInstanceError.
func (g *Group) Run(ctx context.Context) error {
	ctx, displaced := context.WithCancelCause(ctx)
	defer displaced(nil)
	reader, err := newReader(g.log, g.cfg)
	if err != nil {
		return err
	}
	g.reader = reader
	if err := g.join(); err != nil {
		reader.client.Close()
		return err
	}

	background, cancel := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { reader.run(background) })
	helpers.Go(func() { g.commitLoop(background) })
	helpers.Go(func() { g.watchMember(background, displaced) })

	<-ctx.Done()
	g.log.Info("draining")
	g.mu.Lock()
	g.stopping = true
	rest := make([]*worker, 0, len(g.workers))
	for _, w := range g.workers {
		rest = append(rest, w)
	}
	g.mu.Unlock()
	g.finish(rest) // while still a member, so that nobody takes over before the work is done (CON-12)
	g.member.CloseAllowingRebalance()
	cancel()
	helpers.Wait()
	if same := (*SameInstanceError)(nil); errors.As(context.Cause(ctx), &same) {
		return errors.Join(same, g.waitAll())
	}
	return g.waitAll()
}

// join makes the member, which begins to join at once. The lock keeps its first assignment back until everything is in place.
func (g *Group) join() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	member, err := kgo.NewClient(g.memberOptions()...)
	if err != nil {
		return fmt.Errorf("make a Kafka client for group %s: %w", g.cfg.Group, err)
	}
	member.PauseFetchTopics(g.cfg.Topics...)
	g.member = member
	return nil
}

// Reclaim ends the claim on a partition and claims it again, also while no record comes. It does nothing for one that is not assigned.
func (g *Group) Reclaim(topic string, partition int32) {
	g.mu.Lock()
	w := g.workers[place{topic, partition}]
	g.mu.Unlock()
	if w != nil {
		w.reclaim()
	}
}

// waitAll waits for workers that outlived their drain. A handler that ignores its context cannot be ended; it is fenced.
func (g *Group) waitAll() error {
	done := make(chan struct{})
	go func() { g.all.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(g.cfg.Drain):
		return fmt.Errorf("stop consuming as group %s: a handler still runs %s after it was told to end", g.cfg.Group, g.cfg.Drain)
	}
}

// watchMember reports the member's errors, which would otherwise pile up in its client, and ends the group when another has its place.
func (g *Group) watchMember(ctx context.Context, displaced context.CancelCauseFunc) {
	for ctx.Err() == nil {
		for _, e := range g.member.PollFetches(ctx).Errors() {
			if errors.Is(e.Err, kerr.FencedInstanceID) {
				displaced(&SameInstanceError{g.cfg.Group, g.cfg.InstanceID})
			}
			if !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, kgo.ErrClientClosed) {
				g.log.Warn("consumer group", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
			}
			if errors.Is(e.Err, kgo.ErrClientClosed) {
				return
			}
		}
	}
}

// assigned starts a worker for each new partition. It does not wait: heartbeats go on meanwhile.
func (g *Group) assigned(partitions map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joined = true
	if g.stopping {
		return
	}
	for topic, numbers := range partitions {
		for _, n := range numbers {
			at := place{topic, n}
			w := newWorker(g, at)
			g.workers[at] = w
			g.all.Go(w.run)
		}
	}
}

// revoked finishes the partitions that are taken away. The group waits for it, up to the rebalance timeout.
func (g *Group) revoked(partitions map[string][]int32) { g.finish(g.forget(partitions)) }

// lost stops at once, without a commit: the partitions may be another's already.
func (g *Group) lost(partitions map[string][]int32) {
	lost := g.forget(partitions)
	g.mu.Lock()
	g.joined = false
	g.mu.Unlock()
	if len(lost) > 0 {
		g.log.Warn("partitions lost", "partitions", len(lost))
	}
	for _, w := range lost {
		w.abandon()
	}
	for _, w := range lost {
		w.wait(abandonTime)
	}
}

func (g *Group) forget(partitions map[string][]int32) []*worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*worker
	for topic, numbers := range partitions {
		for _, n := range numbers {
			if w := g.workers[place{topic, n}]; w != nil {
				out = append(out, w)
				delete(g.workers, place{topic, n})
			}
		}
	}
	return out
}

// abandonTime is how long a worker gets to end once its context has: a rollback's round trip. One that takes longer is left to the fence.
const abandonTime = 2 * time.Second

// finish lets workers end their batch, all at once, for Drain at most, and commits what they did.
func (g *Group) finish(workers []*worker) {
	if len(workers) == 0 {
		return
	}
	deadline := time.Now().Add(g.cfg.Drain)
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		if !w.wait(time.Until(deadline)) {
			g.log.Warn("batch not finished in time, abandoned", "topic", w.at.topic, "partition", w.at.partition, "drain", g.cfg.Drain)
			w.abandon()
		}
	}
	for _, w := range workers {
		w.wait(abandonTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonTime)
	defer cancel()
	g.commit(ctx, workers, true)
}

// stillMember asks the coordinator whether this member belongs to the group's present generation. A worker that was fenced asks before it claims again: a process that
// was frozen must not take back what has gone to another.
func (g *Group) stillMember(ctx context.Context) error {
	id, generation := g.member.GroupMetadata()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = g.cfg.Group, id, generation
	if g.cfg.InstanceID != "" {
		req.InstanceID = kmsg.StringPtr(g.cfg.InstanceID)
	}
	resp, err := req.RequestWith(ctx, g.member)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("ask whether this is still a member of group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// Joined tells whether the member has an assignment, which may be empty.
func (g *Group) Joined() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joined
}

// Status tells about each assigned partition, sorted by topic and number.
func (g *Group) Status() []Status {
	g.mu.Lock()
	out := make([]Status, 0, len(g.workers))
	for _, w := range g.workers {
		out = append(out, w.status())
	}
	g.mu.Unlock()
	slices.SortFunc(out, func(a, b Status) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return out
}
