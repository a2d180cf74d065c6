package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets tells how far partitions reach: topic to partition to offset.
type Offsets map[string]map[int32]int64

// ListEndOffsets returns, for each partition of the topics, the offset that a reader of committed records reaches when it has read all there is: the
// last stable offset. A missing topic is an error.
func ListEndOffsets(ctx context.Context, client *kgo.Client, topics ...string) (Offsets, error) {
	return listOffsets(ctx, kadm.NewClient(client).ListCommittedOffsets, topics)
}

// ListStartOffsets returns, for each partition of the topics, the offset of the earliest record that is still there.
func ListStartOffsets(ctx context.Context, client *kgo.Client, topics ...string) (Offsets, error) {
	return listOffsets(ctx, kadm.NewClient(client).ListStartOffsets, topics)
}

func listOffsets(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), topics []string) (Offsets, error) {
	if len(topics) == 0 {
		return Offsets{}, nil // kadm would take it for "all topics"
	}
	listed, err := list(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %v: %w", topics, err)
	}
	out := Offsets{}
	var faults []error
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			faults = append(faults, fmt.Errorf("list offsets of %s/%d: %w", o.Topic, o.Partition, o.Err))
			return
		}
		if out[o.Topic] == nil {
			out[o.Topic] = map[int32]int64{}
		}
		out[o.Topic][o.Partition] = o.Offset
	})
	return out, errors.Join(faults...)
}

// TopicIDs returns the ids of topics. A missing topic is an error.
func TopicIDs(ctx context.Context, client *kgo.Client, topics ...string) (map[string][16]byte, error) {
	listed, err := kadm.NewClient(client).ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("look up topics %v: %w", topics, err)
	}
	out := map[string][16]byte{}
	for _, name := range topics {
		t, ok := listed[name]
		if !ok || t.Err != nil {
			return nil, fmt.Errorf("look up topic %s: %w", name, errors.Join(t.Err, missing(!ok)))
		}
		out[name] = t.ID
	}
	return out, nil
}

func missing(is bool) error {
	if is {
		return errors.New("no answer")
	}
	return nil
}
