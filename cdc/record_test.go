package cdc

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc/wal"
)

// size must be what a broker counts: compared with a batch that is encoded by
// other code, over the lengths at which varints grow.
func TestSizeIsThatOfTheBatch(t *testing.T) {
	for _, n := range []int{0, 1, 40, 63, 64, 100, 8191, 8192, 70_000, 1_048_575, 1_048_576} {
		row := wal.Row{ID: []byte("id"), Type: []byte("T"), AggregateID: []byte("8842"), Payload: []byte(strings.Repeat("x", n))}
		r := record("orders.events", time.Now(), &row)
		if got, want := size(r), encoded(r); got != want {
			t.Errorf("payload of %d bytes: size %d, want %d", n, got, want)
		}
	}
}

func encoded(r *kgo.Record) int {
	k := kmsg.Record{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	// Length is a varint of what follows it; encoded with 0 it takes one byte.
	k.Length = int32(len(k.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{Records: k.AppendTo(nil)}
	return len(batch.AppendTo(nil))
}

// The receive buffer is overwritten by the next message.
func TestRecordKeepsNothingOfTheBuffer(t *testing.T) {
	buffer := []byte("orders|8842|OrderPlaced|payload|2026-01-02 03:04:05+00|ab")
	row := wal.Row{AggregateType: buffer[:6], AggregateID: buffer[7:11], Type: buffer[12:23], Payload: buffer[24:31],
		OccurredAt: buffer[32:54], ID: buffer[55:]}
	r := record("orders.events", time.Now(), &row)
	clear(buffer)
	got := string(r.Key) + " " + string(r.Value)
	for _, h := range r.Headers {
		got += " " + h.Key + "=" + string(h.Value)
	}
	const want = "8842 payload id=ab eventType=OrderPlaced aggregateType=orders occurredAt=2026-01-02T03:04:05.000000Z"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRecordAllocations(t *testing.T) {
	row := wal.Row{ID: []byte("id"), AggregateType: []byte("orders"), AggregateID: []byte("8842"), Type: []byte("T"), Payload: make([]byte, 200),
		OccurredAt: []byte("2026-01-02 03:04:05+00"), CorrelationID: []byte("8842"), CausationID: []byte("c"), Hop: []byte("1")}
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { record("orders.events", now, &row) }); n > 2 {
		t.Errorf("%.0f allocations a record, want the record and its bytes", n)
	}
	var p publisher
	p.parcels.giveBack(p.parcel())
	if n := testing.AllocsPerRun(100, func() {
		q := p.parcel()
		q.fill("orders.events", now, &row)
		p.parcels.giveBack(q)
	}); n > 0 {
		t.Errorf("%.0f allocations for a parcel that is used again, want none", n)
	}
}

func TestValidTopic(t *testing.T) {
	for name, want := range map[string]bool{
		"orders.events": true, "A_b-9.events": true, ".": false, "..": false, "Köln.events": false, "a b.events": false,
		strings.Repeat("x", 249): true, strings.Repeat("x", 250): false,
	} {
		if got := validTopic(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}
