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
	return p.place(ctx, kafkaRecord(rec, p.at), p.out.topics[rec.Topic], rec.Topic)
}

// kafkaRecord is a record as the client takes it.
func kafkaRecord(rec *debezium.Record, committed time.Time) *kgo.Record {
	r := &kgo.Record{Topic: rec.Topic, Key: rec.Key, Value: rec.Value, Partition: rec.Partition, Timestamp: committed}
	if rec.Timestamp != debezium.NoTimestamp {
		r.Timestamp = time.UnixMilli(rec.Timestamp)
	}
	r.Headers = make([]kgo.RecordHeader, len(rec.Headers))
	for i, h := range rec.Headers {
		r.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
	}
	return r
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
