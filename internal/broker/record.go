package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as it was read.
type Record struct {
	Topic     string
	TopicID   [16]byte // tells a topic from a later one of the same name; zero where unknown
	Partition int32
	Offset    int64
	Timestamp time.Time
	Key       []byte
	Value     []byte // nil for a record without a value
	Headers   []Header
	Control   bool // a transaction marker: it has an offset and nothing to handle
}

// Size is what the record holds in memory, in bytes, roughly.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value) + 128
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 40
	}
	return n
}

func fromKgo(r *kgo.Record, topicID [16]byte) Record {
	out := Record{Topic: r.Topic, TopicID: topicID, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Control: r.Attrs.IsControl()}
	if len(r.Headers) > 0 {
		out.Headers = make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = Header(h)
		}
	}
	return out
}
