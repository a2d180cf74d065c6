package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TailConfig says what to read.
type TailConfig struct {
	Brokers []string
	Topics  []string
	Last    int64     // begin so many records before the end of each partition; negative for all there are
	Follow  bool      // go on after the end that was reached at the start
	Options []kgo.Opt // TLS, SASL
}

// Tail hands committed records to fn, each partition in order, until fn returns an error, ctx ends (then it returns nil), or, without Follow, all that
// was there at the start has been read. It belongs to no group and leaves no trace.
func Tail(ctx context.Context, cfg TailConfig, fn func(Record) error) error {
	client, err := kgo.NewClient(clientOptions(cfg.Brokers, append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	}, cfg.Options...)...)...)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	ids, err := TopicIDs(ctx, client, cfg.Topics...)
	if err != nil {
		return err
	}
	left, err := seek(ctx, client, cfg)
	if err != nil {
		return err
	}
	for cfg.Follow || len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			rec := it.Next()
			at := place{rec.Topic, rec.Partition}
			end, unfinished := left[at]
			if !cfg.Follow && (!unfinished || rec.Offset >= end) {
				delete(left, at)
				continue
			}
			if !rec.Attrs.IsControl() {
				if err := fn(fromKgo(rec, ids[rec.Topic])); err != nil {
					return err
				}
			}
			if rec.Offset+1 >= end {
				delete(left, at)
			}
		}
	}
	return nil
}

// seek sets the client to where reading begins and returns the end of each partition that has something to read.
func seek(ctx context.Context, client *kgo.Client, cfg TailConfig) (map[place]int64, error) {
	start, err := ListStartOffsets(ctx, client, cfg.Topics...)
	if err != nil {
		return nil, err
	}
	end, err := ListEndOffsets(ctx, client, cfg.Topics...)
	if err != nil {
		return nil, err
	}
	left := map[place]int64{}
	from := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range end {
		from[topic] = map[int32]kgo.Offset{}
		for partition, reached := range partitions {
			first := start[topic][partition]
			if cfg.Last >= 0 {
				first = max(first, reached-cfg.Last)
			}
			from[topic][partition] = kgo.NewOffset().At(first)
			if first < reached {
				left[place{topic, partition}] = reached
			}
		}
	}
	if len(from) == 0 {
		return nil, errors.New("no partitions to read")
	}
	client.AddConsumePartitions(from)
	return left, nil
}
