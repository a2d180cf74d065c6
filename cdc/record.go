package cdc

import (
	"math/bits"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/wal"
)

// topicSuffix follows the aggregate type in a topic's name (D4).
const topicSuffix = ".events"

// ownTopic is the topic of an aggregate type in our own outboxes. It may be one
// that no topic can have.
func ownTopic(aggregateType []byte) string {
	if len(aggregateType) == 0 {
		return ""
	}
	return string(aggregateType) + topicSuffix
}

// byKey leaves a record's partition to its key.
const byKey = -1

// record makes the Kafka record of a row.
func record(topic string, committed time.Time, row *wal.Row) *kgo.Record {
	var q parcel
	q.fill(topic, committed, row)
	return &q.Record
}

// fill makes the record of a row. The row lives in the receive buffer, so its
// bytes are copied.
func (q *parcel) fill(topic string, committed time.Time, row *wal.Row) {
	const longerTime = 8 // what AppendRFC3339 may add
	q.reset(topic, committed, longerTime+sequenceLimit+len(row.ID)+len(row.AggregateType)+len(row.AggregateID)+len(row.Type)+len(row.Payload)+
		len(row.OccurredAt)+len(row.CorrelationID)+len(row.CausationID)+len(row.Hop)+len(row.TraceParent)+len(row.TraceState))
	q.Key = q.keep(row.AggregateID)
	q.Value = q.keep(row.Payload)
	q.header("id", q.keep(row.ID))
	q.header("eventType", q.keep(row.Type))
	q.header("aggregateType", q.keep(row.AggregateType))
	if row.OccurredAt != nil {
		start := len(q.room)
		q.room = wal.AppendRFC3339(q.room, row.OccurredAt)
		q.header("occurredAt", q.room[start:len(q.room):len(q.room)])
	}
	q.header("correlationId", q.keep(row.CorrelationID))
	q.header("causationId", q.keep(row.CausationID))
	q.header("hop", q.keep(row.Hop))
	q.header("traceparent", q.keep(row.TraceParent))
	q.header("tracestate", q.keep(row.TraceState))
}

// size is the length in bytes of a batch that holds the record alone,
// uncompressed, which is what brokers limit.
func size(r *kgo.Record) int {
	const attributes, timestamp, offset = 1, 1, 1
	n := attributes + timestamp + offset + field(len(r.Key)) + field(len(r.Value)) + varint(len(r.Headers))
	for _, h := range r.Headers {
		n += field(len(h.Key)) + field(len(h.Value))
	}
	return batchOverhead + varint(n) + n
}

// batchOverhead is the length of a batch without records.
const batchOverhead = 61

func field(n int) int { return varint(n) + n }

// varint is the length of a zigzag varint of n >= 0.
func varint(n int) int { return (bits.Len(uint(n)<<1|1) + 6) / 7 }
