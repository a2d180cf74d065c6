package broker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	commitInterval = 200 * time.Millisecond // coalesces commits; they are for lag alone, so a late one costs nothing
	commitRetry    = 2 * time.Second        // after a refused one
)

func (g *Group) commitLoop(ctx context.Context) {
	tick := time.NewTicker(commitInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		g.mu.Lock()
		workers := make([]*worker, 0, len(g.workers))
		for _, w := range g.workers {
			workers = append(workers, w)
		}
		g.mu.Unlock()
		anew := map[string]bool{}
		for at, err := range g.commit(ctx, workers, false) {
			if errors.Is(err, kerr.UnknownTopicID) {
				anew[at.topic] = true
			}
		}
		for topic := range anew {
			g.readmit(ctx, topic)
		}
	}
}

// commit tells Kafka how far workers are and returns what it refused. A refusal is logged once and nothing else: the database knows (CON-11).
func (g *Group) commit(ctx context.Context, workers []*worker, last bool) map[place]error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, w := range workers {
		if next, ok := w.uncommitted(last); ok {
			if offsets[w.at.topic] == nil {
				offsets[w.at.topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[w.at.topic][w.at.partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	refused := map[place]error{}
	var failed error
	g.member.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil || resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					refused[place{t.Topic, p.Partition}] = err
				}
			}
		}
	})
	for _, w := range workers {
		next, asked := offsets[w.at.topic][w.at.partition]
		if !asked {
			continue
		}
		err := errors.Join(failed, refused[w.at])
		if news := w.committed(next.Offset, err); news && err != nil && ctx.Err() == nil {
			g.log.Warn("offset not committed; the database has it", "topic", w.at.topic, "partition", w.at.partition, "offset", next.Offset, "err", err)
		}
	}
	return refused
}

// readmit has the member forget a topic that was deleted and made anew, and subscribe to it again: a client never follows by itself. Its partitions are revoked
// and assigned again.
func (g *Group) readmit(ctx context.Context, topic string) {
	if _, err := TopicIDs(ctx, g.member, topic); err != nil {
		return // not made anew yet
	}
	g.log.Warn("topic was made anew, subscribing again", "topic", topic)
	g.member.PurgeTopicsFromConsuming(topic)
	g.member.AddConsumeTopics(topic)
}
