package cdc

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/debezium"
)

// publishRecord sends a record of the open transaction; see place.
func (p *publisher) publishRecord(ctx context.Context, rec *debezium.Record) error {
	if !p.next() {
		return nil
	}
	q := p.parcel()
	q.take(rec, p.at)
	return p.place(ctx, q, p.out.topics[rec.Topic], rec.Topic)
}

// kafkaRecord is a record as the client takes it.
func kafkaRecord(rec *debezium.Record, committed time.Time) *kgo.Record {
	var q parcel
	q.take(rec, committed)
	return &q.Record
}

// take makes a record of one as the router gives it, whose bytes are for good.
func (q *parcel) take(rec *debezium.Record, committed time.Time) {
	q.reset(rec.Topic, committed, sequenceLimit)
	q.Key, q.Value, q.Partition = rec.Key, rec.Value, rec.Partition
	if rec.Timestamp != debezium.NoTimestamp {
		q.Timestamp = time.UnixMilli(rec.Timestamp)
	}
	for _, h := range rec.Headers {
		q.Headers = append(q.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
}

// placed is a partitioner that heeds a partition which a record names (one that
// is not negative), and leaves the others to the key: murmur2, as the Java client.
func placed() kgo.Partitioner { return placedPartitioner{kgo.StickyKeyPartitioner(nil)} }

type placedPartitioner struct{ kgo.Partitioner }

func (p placedPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return placedTopic{p.Partitioner.ForTopic(topic)}
}

type placedTopic struct{ kgo.TopicPartitioner }

func (t placedTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || t.TopicPartitioner.RequiresConsistency(r)
}

func (t placedTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return t.TopicPartitioner.Partition(r, n)
}
