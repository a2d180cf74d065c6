package wal

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// announced is a table whose columns have the types that are named.
func announced(columns ...any) []byte {
	m := msg('R', uint32(7), "public", "outbox", byte('d'), uint16(len(columns)/2))
	for i := 0; i < len(columns); i += 2 {
		m = append(m, msg(0, columns[i].(string), uint32(columns[i+1].(int)), ^uint32(0))...)
	}
	return m
}

// binaryRow holds values in binary form; nil is NULL, a string one in text form.
func binaryRow(values ...any) []byte {
	m := msg('I', uint32(7), byte('N'), uint16(len(values)))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			m = append(m, 'n')
		case []byte:
			m = append(binary.BigEndian.AppendUint32(append(m, 'b'), uint32(len(v))), v...)
		case string:
			m = append(binary.BigEndian.AppendUint32(append(m, 't'), uint32(len(v))), v...)
		}
	}
	return m
}

func be(n uint64, size int) []byte { return binary.BigEndian.AppendUint64(nil, n)[8-size:] }

func TestBinaryRowIsWhatItsTextIs(t *testing.T) {
	d := NewDecoder(outbox)
	uuid := []byte{0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	decode := func(m []byte) Event {
		t.Helper()
		ev, err := d.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	decode(begin(5))
	decode(announced("id", uuidOID, "aggregatetype", varcharOID, "aggregateid", int8OID, "type", textOID, "payload", byteaOID,
		"occurredat", timestamptzOID, "correlationid", uuidOID, "hop", int4OID, "causationid", boolOID, "tracestate", jsonbOID, "note", 600))
	row := decode(binaryRow(uuid, []byte("orders"), be(^uint64(0)-41, 8), "OrderPlaced", []byte{0, 'x', 0xff},
		be(micros, 8), uuid, be(3, 4), []byte{1}, []byte("\x01{}"), []byte{1, 2, 3})).Row
	got := map[string]string{"id": string(row.ID), "aggregatetype": string(row.AggregateType), "aggregateid": string(row.AggregateID), "type": string(row.Type),
		"payload": string(row.Payload), "occurredat": string(row.OccurredAt), "correlationid": string(row.CorrelationID), "hop": string(row.Hop),
		"causationid": string(row.CausationID), "tracestate": string(row.TraceState)}
	if diff := cmp.Diff(map[string]string{"id": "abcdef01-0203-0405-0607-08090a0b0c0d", "aggregatetype": "orders", "aggregateid": "-42", "type": "OrderPlaced",
		"payload": "\x00x\xff", "occurredat": "2025-05-08 06:13:20.123456+00", "correlationid": "abcdef01-0203-0405-0607-08090a0b0c0d", "hop": "3",
		"causationid": "t", "tracestate": "{}"}, got); diff != "" {
		t.Error(diff)
	}
	null := *decode(binaryRow(uuid, []byte("orders"), nil, nil, nil, nil, nil, nil, nil, nil, nil)).Row
	empty := *decode(binaryRow(uuid, []byte(""), nil, nil, []byte{}, nil, nil, nil, nil, nil, nil)).Row
	if null.Payload != nil || null.Hop != nil || empty.Payload == nil || len(empty.Payload) != 0 || empty.AggregateType == nil {
		t.Errorf("NULL is %q, empty is %q", null.Payload, empty.Payload)
	}
	// bytea in text form beside others in binary form: what a server does for a type without one.
	if p := decode(binaryRow(uuid, []byte("orders"), nil, nil, `\x4142`, nil, nil, nil, nil, nil, nil)).Row.Payload; string(p) != "AB" {
		t.Errorf("payload in text form became %q", p)
	}
}

// Others, out of the range of four digits, are compared with PostgreSQL's own in cdc.
func TestBinaryTimestamps(t *testing.T) {
	for micros, want := range map[int64]string{
		0:         "2000-01-01 00:00:00+00",
		-1:        "1999-12-31 23:59:59.999999+00",
		600_000:   "2000-01-01 00:00:00.6+00",
		1<<63 - 1: "infinity",
		-1 << 63:  "-infinity",
	} {
		if got := string(appendTimestamp(nil, micros)); got != want {
			t.Errorf("%d is %s, want %s", micros, got, want)
		}
	}
}

func TestBinaryRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		oid  int
		v    []byte
		want error
	}{
		"a type that is not read": {1700, be(1, 8), ErrBinary},
		"a short uuid":            {uuidOID, be(1, 8), ErrProtocol},
		"jsonb of the future":     {jsonbOID, []byte("\x02{}"), ErrBinary},
	} {
		d := NewDecoder(outbox)
		for _, m := range [][]byte{begin(5), announced("id", c.oid, "aggregatetype", textOID, "aggregateid", textOID, "type", textOID, "payload", byteaOID)} {
			if _, err := d.Decode(m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Decode(binaryRow(c.v, []byte("a"), []byte("b"), []byte("c"), []byte("d"))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestBinaryRowAllocatesNothing(t *testing.T) {
	d := NewDecoder(outbox)
	for _, m := range [][]byte{begin(5), announced("id", uuidOID, "aggregatetype", textOID, "aggregateid", textOID, "type", textOID, "payload", byteaOID, "occurredat", timestamptzOID, "hop", int4OID)} {
		if _, err := d.Decode(m); err != nil {
			t.Fatal(err)
		}
	}
	row := binaryRow(make([]byte, 16), []byte("orders"), []byte("k"), []byte("T"), make([]byte, 200), be(micros, 8), be(0, 4))
	scratch := make([]byte, len(row))
	if n := testing.AllocsPerRun(100, func() {
		copy(scratch, row)
		if _, err := d.Decode(scratch); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Fatalf("%.0f allocations a row, want none", n)
	}
}
