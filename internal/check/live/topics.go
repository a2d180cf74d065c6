package live

import (
	"context"
	"errors"
	"fmt"

	"chorus/internal/broker"
	"chorus/internal/check"
	"chorus/internal/codec"
	"chorus/internal/event"
)

// topics reads all facts, and later what has come since.
type topics struct {
	brokers    []string
	codec      *codec.Codec
	state      check.Topics
	feed       *check.Feed
	next       map[partition]int64 // offset after the last record that was read
	unreadable int64               // records that are no facts: consumers have them as dead letters
	rows       *check.Outboxes     // what the records were made of; nil while that is not known
}

type partition struct {
	topic string
	no    int32
}

func newTopics(src Sources) *topics {
	return &topics{brokers: src.Kafka, codec: src.Codec, feed: check.NewFeed(), next: map[partition]int64{}}
}

// order returns an order with what the topics say about it.
func (t *topics) order(no event.OrderNo) check.Order {
	return check.Order{No: no, Facts: t.feed.Of(no), Topics: t.state}
}

// margin is how many records of each partition are read once more, so that none is missed which comes in between asking for the end
// and reading.
const margin = 10_000

// advance reads up to the present ends.
func (t *topics) advance(ctx context.Context) error {
	if len(t.brokers) == 0 {
		return nil
	}
	var names []string
	for _, owner := range event.Owners() {
		names = append(names, owner.Topic())
	}
	last, err := t.behind(ctx, names)
	if err != nil || last == 0 {
		return err
	}
	err = broker.Tail(ctx, broker.TailConfig{Brokers: t.brokers, Topics: names, Last: last}, func(r broker.Record) error { return t.add(ctx, r) })
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// behind says how much of each partition's end must be read: everything (-1) the first time, nothing (0) when nothing has come.
func (t *topics) behind(ctx context.Context, names []string) (int64, error) {
	client, err := broker.NewClient(t.brokers)
	if err != nil {
		return 0, fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	if t.state == check.Unread {
		start, err := broker.ListStartOffsets(ctx, client, names...)
		if err != nil {
			return 0, err
		}
		t.state = check.Whole
		for _, partitions := range start {
			for _, offset := range partitions {
				if offset > 0 {
					t.state = check.Truncated
				}
			}
		}
		return -1, nil
	}
	end, err := broker.ListEndOffsets(ctx, client, names...)
	if err != nil {
		return 0, err
	}
	var most int64
	for topic, partitions := range end {
		for no, offset := range partitions {
			most = max(most, offset-t.next[partition{topic, no}])
		}
	}
	if most == 0 {
		return 0, nil
	}
	return most + margin, nil
}

func (t *topics) add(ctx context.Context, r broker.Record) error {
	at := partition{r.Topic, r.Partition}
	if r.Offset < t.next[at] {
		return nil
	}
	t.next[at] = r.Offset + 1
	headers := make([]codec.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = codec.Header(h)
	}
	env, err := t.codec.Envelope(r.Key, headers, r.Value)
	var why *codec.Error
	if errors.As(err, &why) && why.SchemaID != 0 && t.codec.Learn(ctx, why.SchemaID) == nil {
		env, err = t.codec.Envelope(r.Key, headers, r.Value)
	}
	if err != nil {
		t.unreadable++
		return nil
	}
	if t.rows != nil {
		t.rows.Read(r.Topic, string(r.Key), env.ID, r.Partition)
	}
	t.feed.Add(check.Record{Envelope: env, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Value: r.Value})
	return nil
}
