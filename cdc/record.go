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

// record makes the Kafka record of a row. The row lives in the receive buffer,
// so its bytes are copied, all of them into one piece of memory.
func record(topic string, committed time.Time, row *wal.Row) *kgo.Record {
	r := &struct {
		kgo.Record
		headers [9]kgo.RecordHeader
	}{Record: kgo.Record{Topic: topic, Partition: byKey, Timestamp: committed}}
	const longerTime = 8 // what AppendRFC3339 may add
	buf := make([]byte, 0, longerTime+len(row.ID)+len(row.AggregateType)+len(row.AggregateID)+len(row.Type)+len(row.Payload)+
		len(row.OccurredAt)+len(row.CorrelationID)+len(row.CausationID)+len(row.Hop)+len(row.TraceParent)+len(row.TraceState))
	keep := func(p []byte) []byte {
		if p == nil {
			return nil
		}
		start := len(buf)
		buf = append(buf, p...)
		return buf[start:len(buf):len(buf)]
	}
	r.Key = keep(row.AggregateID)
	r.Value = keep(row.Payload)
	headers := r.headers[:0]
	header := func(key string, value []byte) {
		if value != nil {
			headers = append(headers, kgo.RecordHeader{Key: key, Value: value})
		}
	}
	header("id", keep(row.ID))
	header("eventType", keep(row.Type))
	header("aggregateType", keep(row.AggregateType))
	if row.OccurredAt != nil {
		start := len(buf)
		buf = wal.AppendRFC3339(buf, row.OccurredAt)
		header("occurredAt", buf[start:len(buf):len(buf)])
	}
	header("correlationId", keep(row.CorrelationID))
	header("causationId", keep(row.CausationID))
	header("hop", keep(row.Hop))
	header("traceparent", keep(row.TraceParent))
	header("tracestate", keep(row.TraceState))
	r.Headers = headers
	return &r.Record
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
