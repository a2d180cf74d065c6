package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is one partition of a topic.
type place struct {
	topic     string
	partition int32
}

// reader fetches partitions from given offsets into queues. One goroutine polls, and between two polls does what it is told; so no record that was fetched
// for an earlier subscription of a partition can reach the queue of a later one.
type reader struct {
	log    *slog.Logger
	client *kgo.Client
	queues map[place]*queue // of the polling goroutine

	mu       sync.Mutex
	commands []func()           // guarded by mu
	wake     context.CancelFunc // guarded by mu: ends the poll that is under way
}

func newReader(log *slog.Logger, cfg GroupConfig) (*reader, error) {
	client, err := kgo.NewClient(clientOptions(cfg.Brokers, append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a partition that ends in a marker would otherwise never be read to its end
		// Where to start is the claim's to say. An offset that is not there is an error to show, not something to mend in silence.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(16 << 20),
		kgo.FetchMaxPartitionBytes(int32(min(cfg.BatchBytes, 1<<20))),
		kgo.FetchMaxWait(500 * time.Millisecond), // a partition that is resumed waits so long for its turn at most
	}, cfg.Options...)...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client for reading: %w", err)
	}
	return &reader{log: log, client: client, queues: map[place]*queue{}}, nil
}

// run polls until ctx ends.
func (r *reader) run(ctx context.Context) {
	defer r.client.Close()
	for ctx.Err() == nil {
		began := time.Now()
		fetches := r.client.PollRecords(r.nextPoll(ctx), 10_000)
		r.dispatch(fetches)
		pause(ctx, gather-time.Since(began))
	}
	r.nextPoll(ctx) // nobody may wait for a command for ever
}

// gather is the least time from one poll to the next. A broker answers as soon as it has one record, and the client asks again as soon as that is taken, so under load every
// record would cost a request of each of its consumers.
const gather = 5 * time.Millisecond

// pause waits for d, if it is positive, or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// nextPoll runs the commands and returns the context of the next poll, which a new command ends.
func (r *reader) nextPoll(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.commands) > 0 {
		command := r.commands[0]
		r.commands = r.commands[1:]
		r.mu.Unlock()
		command()
		r.mu.Lock()
	}
	if r.wake != nil {
		r.wake()
	}
	poll, cancel := context.WithCancel(ctx)
	r.wake = cancel
	return poll
}

// do has the polling goroutine run command.
func (r *reader) do(command func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, command)
	if r.wake != nil {
		r.wake()
	}
}

// subscribe fetches q's partition from an offset into q.
func (r *reader) subscribe(q *queue, offset int64) {
	r.do(func() {
		at := place{q.topic, q.partition}
		if !r.reads(q.topic) {
			// A client never follows a topic that was deleted and made anew, unless it forgets the topic first.
			r.client.PurgeTopicsFromConsuming(q.topic)
		}
		if r.queues[at] != nil { // of a worker that was given up and has not ended: adding alone would go on behind what it has, or stay paused for it
			r.forget(at)
		}
		r.queues[at] = q
		r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{q.topic: {q.partition: kgo.NewOffset().At(offset)}})
	})
}

// unsubscribe stops fetching q's partition, if q is what it is fetched into.
func (r *reader) unsubscribe(q *queue) {
	r.do(func() {
		at := place{q.topic, q.partition}
		if r.queues[at] == q {
			r.forget(at)
		}
	})
}

// forget stops fetching a partition.
func (r *reader) forget(at place) {
	delete(r.queues, at)
	partitions := map[string][]int32{at.topic: {at.partition}}
	r.client.RemoveConsumePartitions(partitions)
	r.client.ResumeFetchPartitions(partitions) // a pause must not outlive the assignment
}

func (r *reader) reads(topic string) bool {
	for at := range r.queues {
		if at.topic == topic {
			return true
		}
	}
	return false
}

func (r *reader) pause(topic string, partition int32, on bool) {
	if on {
		r.client.PauseFetchPartitions(map[string][]int32{topic: {partition}})
	} else {
		r.client.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
	}
}

func (r *reader) dispatch(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		q := r.queues[place{p.Topic, p.Partition}]
		if q == nil {
			if p.Err != nil && !errors.Is(p.Err, context.Canceled) && !errors.Is(p.Err, kgo.ErrClientClosed) {
				r.log.Warn("fetch failed", "topic", p.Topic, "partition", p.Partition, "err", p.Err)
			}
			return
		}
		if len(p.Records) > 0 {
			records := make([]Record, len(p.Records))
			for i, rec := range p.Records {
				records[i] = fromKgo(rec, q.topicID)
			}
			q.add(records)
		}
		if p.Err != nil {
			q.fail(fmt.Errorf("fetch %s/%d: %w", p.Topic, p.Partition, p.Err))
		}
	})
}
