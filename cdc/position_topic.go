package cdc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/bookmark"
)

// positionTopic is where a source's position is kept: one key of one partition.
type positionTopic struct {
	name      string
	partition int32
	key       []byte
}

// positionSettings are those of a position topic that is made here. Compaction
// leaves the segment alone that is written to: a small one keeps a start short.
var positionSettings = map[string]string{"cleanup.policy": "compact", "segment.bytes": "8388608", "min.cleanable.dirty.ratio": "0.1"}

// positionPartitions spreads the sources: a start waits for the open
// transactions of those that share its partition.
const positionPartitions = 16

// findPositionTopic finds the position's topic and partition, and makes the
// topic if it is not there. One that forgets by age is refused: a position that
// is gone would be taken for a source that was never published.
func (e *exactly) findPositionTopic(ctx context.Context) (*positionTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	name := e.config.PositionTopic
	admin := kadm.NewClient(e.out.client)
	partitions, err := makePositionTopic(ctx, admin, name)
	if err != nil {
		return nil, fmt.Errorf("find topic %s, which keeps positions: %w", name, err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of topic %s: %w", name, err)
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if kv.Key == "cleanup.policy" && kv.MaybeValue() != "compact" {
				return nil, problem{fmt.Sprintf("topic %s, which keeps positions, has cleanup.policy %s and would forget them", name, kv.MaybeValue()), "set cleanup.policy=compact"}
			}
		}
	}
	p := &positionTopic{name: name, key: []byte(e.cfg.Name + "/" + e.cfg.Slot)}
	p.partition = int32(kgo.StickyKeyPartitioner(nil).ForTopic(name).Partition(&kgo.Record{Key: p.key}, partitions))
	return p, nil
}

// makePositionTopic returns how many partitions the topic has, when all of them
// have a leader.
func makePositionTopic(ctx context.Context, admin *kadm.Client, name string) (partitions int, err error) {
	settings := map[string]*string{}
	for k, v := range positionSettings {
		settings[k] = &v
	}
	wait := time.NewTicker(50 * time.Millisecond)
	defer wait.Stop()
	for made := false; ; {
		found, err := admin.ListTopics(ctx, name)
		if err != nil {
			return 0, err
		}
		d := found[name]
		led := !slices.ContainsFunc(d.Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return p.Leader < 0 })
		switch {
		case d.Err == nil && len(d.Partitions) > 0 && led:
			return len(d.Partitions), nil
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition) && !made:
			topic, err := admin.CreateTopic(ctx, positionPartitions, -1, settings, name)
			if err != nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
				return 0, fmt.Errorf("create it: %w", err)
			}
			made = true
		case d.Err != nil && !kerr.IsRetriable(d.Err):
			return 0, d.Err
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// record is the record of a position.
func (t *positionTopic) record(p bookmark.Position) *kgo.Record {
	return &kgo.Record{Topic: t.name, Partition: t.partition, Key: t.key, Value: p.Encode(), Timestamp: time.Now()}
}

// claim is a record that tells who has the slot. No two are alike.
func (t *positionTopic) claim() *kgo.Record {
	host, _ := os.Hostname() // for people
	value, err := json.Marshal(struct {
		Claim string    `json:"claim"`
		Host  string    `json:"host"`
		PID   int       `json:"pid"`
		At    time.Time `json:"at"`
	}{uuid.NewString(), host, os.Getpid(), time.Now().UTC()})
	if err != nil {
		panic(fmt.Sprintf("claim: %v", err)) // texts, a number and a time
	}
	return &kgo.Record{Topic: t.name, Partition: t.partition, Key: append(bytes.Clone(t.key), "/owner"...), Value: value, Timestamp: time.Now()}
}
