package quarantine

import (
	"encoding/json"
	"fmt"
	"time"

	"chorus/cdc/wal"
)

// Place is where a row is in the log of its source: the start of its
// transaction's commit record, and its number in the transaction.
type Place struct {
	Commit   wal.LSN
	Sequence uint64
}

// Header is one of a record. Its value is bytes: nil differs from empty.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Record is what would have been sent.
type Record struct {
	Topic     string
	Partition int32 // -1: the key decides
	Key       []byte
	Value     []byte
	Headers   []Header
	Timestamp time.Time
}

// Row is a record that is kept.
type Row struct {
	ID    int64
	Place Place
	State string
	Record
	Reason string // why Kafka refuses it; empty for one that is behind another of its key
	Note   string // why it was skipped
	Kept   time.Time
}

// Held is a key with records that are kept. Records without a key have no order
// and hold nobody.
type Held struct {
	Topic string
	Key   string
}

// Bytes is about the size of the record.
func (r Record) Bytes() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func encodeHeaders(headers []Header) []byte {
	b, err := json.Marshal(headers)
	if err != nil {
		panic(fmt.Sprintf("quarantine: %v", err)) // texts and bytes
	}
	return b
}
