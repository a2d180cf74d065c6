package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/check"
)

// feed is the topic of one run.
type feed struct {
	client *kgo.Client
	admin  *kadm.Client
	name   string
}

const partitions = 6

// makeTopic makes the topic anew, empty.
func (s *stage) makeTopic(ctx context.Context, name string) (*feed, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Brokers()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	f := &feed{client: client, admin: kadm.NewClient(client), name: name}
	if _, err := f.admin.DeleteTopic(ctx, name); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		client.Close()
		return nil, fmt.Errorf("delete topic %s: %w", name, err)
	}
	for { // until its deletion is done
		made, err := f.admin.CreateTopic(ctx, partitions, 1, nil, name)
		if err == nil {
			err = made.Err
		}
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || ctx.Err() != nil {
			client.Close()
			return nil, fmt.Errorf("make topic %s: %w", name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (f *feed) close() { f.client.Close() }

// held is how many records, markers of transactions included, the broker has.
func (f *feed) held(ctx context.Context) (n int64, err error) {
	offsets, err := f.admin.ListEndOffsets(ctx, f.name)
	if err != nil {
		return 0, err
	}
	offsets.Each(func(o kadm.ListedOffset) { n += max(0, o.Offset) })
	return n, nil
}

// judge reads the whole topic, as a read_committed consumer, and says what is
// wrong with it.
func (f *feed) judge(ctx context.Context, brokers []string, rows int) (*check.Stream, error) {
	ends, err := f.admin.ListCommittedOffsets(ctx, f.name)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(f.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(8<<20))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	stream := check.NewStream()
	for n := 1; n <= rows; n++ {
		stream.Wrote("k"+strconv.Itoa(n%keys), uint64(n))
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(fetches.Err(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("read topic %s: %w", f.name, err)
		}
		var bad error
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			n, err := numberOf(r)
			bad = errors.Join(bad, err)
			stream.Read(strings.Trim(string(r.Key), `"`), n, r.Partition)
		})
		if bad != nil {
			return nil, bad
		}
	}
	return stream, nil
}

// numberOf is the number of the row that a record was made of.
func numberOf(r *kgo.Record) (uint64, error) {
	for _, h := range r.Headers {
		if id := strings.Trim(string(h.Value), `"`); (h.Key == "id" || h.Key == "_watermill_message_uuid") && len(id) == 36 {
			return strconv.ParseUint(id[24:], 16, 64)
		}
	}
	return 0, fmt.Errorf("a record of topic %s has no id: %v", r.Topic, r.Headers)
}
