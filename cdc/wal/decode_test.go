package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// msg builds a message as the server does. Strings end with a zero byte.
func msg(kind byte, parts ...any) []byte {
	m := []byte{kind}
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			m = append(m, p)
		case uint16:
			m = binary.BigEndian.AppendUint16(m, p)
		case uint32:
			m = binary.BigEndian.AppendUint32(m, p)
		case uint64:
			m = binary.BigEndian.AppendUint64(m, p)
		case string:
			m = append(append(m, p...), 0)
		case []byte:
			m = append(m, p...)
		default:
			panic(fmt.Sprintf("%T", p))
		}
	}
	return m
}

const micros = uint64(800_000_000_123_456) // since 2000

func begin(xid uint32) []byte { return msg('B', uint64(90), micros, xid) }
func commit(end uint64) []byte {
	return msg('C', byte(0), uint64(90), end, micros)
}

// table announces a table; a column is "name" (text), "name:bytea".
func table(id uint32, schema, name string, columns ...string) []byte {
	m := msg('R', id, schema, name, byte('d'), uint16(len(columns)))
	for _, c := range columns {
		n, typ, _ := strings.Cut(c, ":")
		oid := uint32(25)
		if typ == "bytea" {
			oid = byteaOID
		}
		m = append(m, msg(0, n, oid, ^uint32(0))...)
	}
	return m
}

// tuple holds values; nil is NULL.
func tuple(values ...any) []byte {
	m := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			m = append(m, 'n')
			continue
		}
		m = append(m, 't')
		m = binary.BigEndian.AppendUint32(m, uint32(len(v.(string))))
		m = append(m, v.(string)...)
	}
	return m
}

func insert(id uint32, values ...any) []byte { return msg('I', id, byte('N'), tuple(values...)) }

var outbox = Table{"public", "outbox"}
var required = []string{"id", "aggregatetype", "aggregateid", "type", "payload:bytea"}

// read decodes all messages and writes down what is not Nothing.
func read(t *testing.T, messages ...[]byte) ([]string, *Decoder, error) {
	t.Helper()
	d := NewDecoder(outbox)
	var got []string
	for _, m := range messages {
		ev, err := d.Decode(m)
		if err != nil {
			return got, d, err
		}
		switch ev.Kind {
		case Nothing:
		case Begin:
			got = append(got, fmt.Sprintf("begin %d", ev.Tx.XID))
		case Commit:
			got = append(got, fmt.Sprintf("commit %d to %s", ev.Tx.XID, ev.Tx.End))
		case Insert:
			got = append(got, fmt.Sprintf("%s %s %s %s %q", ev.Row.ID, ev.Row.AggregateType, ev.Row.AggregateID, ev.Row.Type, ev.Row.Payload))
		default:
			got = append(got, fmt.Sprintf("kind %d of %s", ev.Kind, ev.Table))
		}
	}
	return got, d, nil
}

func TestDecode(t *testing.T) {
	row := []any{"1", "orders", "8842", "OrderPlaced", `\x00ff`}
	const text = `1 orders 8842 OrderPlaced "\x00\xff"`
	rel := table(7, "public", "outbox", required...)
	for name, c := range map[string]struct {
		in     [][]byte
		want   []string
		counts Counts
	}{
		"one row": {
			in:     [][]byte{begin(5), rel, insert(7, row...), commit(100)},
			want:   []string{"begin 5", text, "commit 5 to 0/64"},
			counts: Counts{Transactions: 1, Inserts: 1},
		},
		"null, empty and text payloads differ": {
			in: [][]byte{begin(5), rel, insert(7, "1", "a", "b", "c", nil), insert(7, "2", "a", "b", "c", `\x`),
				table(7, "public", "outbox", "id", "aggregatetype", "aggregateid", "type", "payload"), insert(7, "3", "a", "b", "c", `\x00`), commit(100)},
			want:   []string{"begin 5", `1 a b c ""`, `2 a b c ""`, `3 a b c "\\x00"`, "commit 5 to 0/64"},
			counts: Counts{Transactions: 1, Inserts: 3},
		},
		"CDC-08: column dropped and added again": {
			in: [][]byte{begin(5), rel, insert(7, row...), commit(100), begin(6),
				table(7, "public", "outbox", "id", "aggregatetype", "type", "payload:bytea", "note", "aggregateid"),
				insert(7, "2", "orders", "OrderPlaced", `\x01`, nil, "O-2"), commit(200)},
			want:   []string{"begin 5", text, "commit 5 to 0/64", "begin 6", `2 orders O-2 OrderPlaced "\x01"`, "commit 6 to 0/C8"},
			counts: Counts{Transactions: 2, Inserts: 2},
		},
		"CDC-04: truncate, type, origin, message, stream abort and a kind of the future": {
			in: [][]byte{begin(5), msg('O', uint64(1), "elsewhere"), msg('Y', uint32(16400), "public", "mood"), rel, insert(7, row...),
				msg('T', uint32(1), byte(0), uint32(7)), msg('A', uint32(5), uint32(6)), msg('M', byte(1), uint64(1), "p", uint32(0)), msg('z', uint32(1)), commit(100)},
			want:   []string{"begin 5", text, "kind 6 of public.outbox", "commit 5 to 0/64"},
			counts: Counts{Transactions: 1, Inserts: 1, Truncates: 1, Types: 1, Origins: 1, Messages: 1, StreamAborts: 1, Unknown: 1},
		},
		"CDC-18: insert, delete and update": {
			in: [][]byte{begin(5), rel, insert(7, row...), msg('D', uint32(7), byte('K'), tuple("1", nil, nil, nil, nil)), commit(100),
				begin(6), msg('U', uint32(7), byte('N'), tuple(row...)), commit(200)},
			want:   []string{"begin 5", text, "kind 5 of public.outbox", "commit 5 to 0/64", "begin 6", "kind 4 of public.outbox", "commit 6 to 0/C8"},
			counts: Counts{Transactions: 2, Inserts: 1, Updates: 1, Deletes: 1},
		},
		"another table of the publication": {
			in:     [][]byte{begin(5), table(8, "public", "orders", "id", "note"), insert(8, "1", nil), commit(100)},
			want:   []string{"begin 5", "kind 7 of public.orders", "commit 5 to 0/64"},
			counts: Counts{Transactions: 1, Foreign: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, d, err := read(t, c.in...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.counts, d.Counts()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	rel := table(7, "public", "outbox", required...)
	for name, c := range map[string]struct {
		in   [][]byte
		want error
		text string
	}{
		"CDC-09: row of a partition": {
			[][]byte{begin(5), table(8, "public", "outbox_2026", required...), insert(8, "1", "a", "b", "c", nil)}, ErrTable, "publish_via_partition_root"},
		"outbox without a column": {
			[][]byte{begin(5), table(7, "public", "outbox", "id", "aggregateid", "type", "payload"), insert(7, "1", "b", "c", nil)}, ErrTable, "aggregatetype"},
		"bytea in another format": {
			[][]byte{begin(5), rel, insert(7, "1", "a", "b", "c", `\000`)}, ErrTable, "bytea_output"},
		"odd hex":                        {[][]byte{begin(5), rel, insert(7, "1", "a", "b", "c", `\x0`)}, ErrProtocol, "payload of row 1"},
		"begin in a transaction":         {[][]byte{begin(5), begin(6)}, ErrProtocol, "inside"},
		"commit without begin":           {[][]byte{commit(5)}, ErrProtocol, "outside"},
		"row without begin":              {[][]byte{rel, insert(7, "1", "a", "b", "c", nil)}, ErrProtocol, "outside"},
		"row of a table not announced":   {[][]byte{begin(5), insert(7, "1", "a", "b", "c", nil)}, ErrProtocol, "not announced"},
		"row of another width":           {[][]byte{begin(5), rel, insert(7, "1")}, ErrProtocol, "1 columns"},
		"inserted row with a gap":        {[][]byte{begin(5), table(7, "public", "outbox", required...), msg('I', uint32(7), byte('N'), uint16(5), byte('u'))}, ErrProtocol, "without the value"},
		"block in a transaction":         {[][]byte{begin(5), streamStart(6)}, ErrProtocol, "inside"},
		"block in a block":               {[][]byte{streamStart(5), streamStart(6)}, ErrProtocol, "in a block"},
		"begin in a block":               {[][]byte{streamStart(5), begin(6)}, ErrProtocol, "in a block"},
		"commit in a block":              {[][]byte{streamStart(5), streamCommit(5, 9)}, ErrProtocol, "in a block"},
		"end of no block":                {[][]byte{msg('E')}, ErrProtocol, "none is open"},
		"commit of what was not sent":    {[][]byte{streamCommit(5, 9)}, ErrProtocol, "out of turn"},
		"commit of what was rolled back": {[][]byte{streamStart(5), msg('E'), streamAbort(5, 5), streamCommit(5, 9)}, ErrProtocol, "out of turn"},
		"empty message":                  {[][]byte{{}}, ErrProtocol, "empty"},
		"begin cut off":                  {[][]byte{begin(5)[:10]}, ErrProtocol, "cut off"},
		"value longer than the message":  {[][]byte{begin(5), rel, msg('I', uint32(7), byte('N'), uint16(5), byte('t'), ^uint32(0))}, ErrProtocol, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, c.in...)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %v that speaks of %q", err, c.want, c.text)
			}
		})
	}
}

func TestNullAndEmptyPayload(t *testing.T) {
	d := NewDecoder(outbox)
	for _, m := range [][]byte{begin(5), table(7, "public", "outbox", required...)} {
		if _, err := d.Decode(m); err != nil {
			t.Fatal(err)
		}
	}
	null, _ := d.Decode(insert(7, "1", "a", "b", "c", nil))
	if null.Row.Payload != nil {
		t.Errorf("NULL became %q", null.Row.Payload)
	}
	empty, _ := d.Decode(insert(7, "1", "a", "b", "c", `\x`))
	if empty.Row.Payload == nil {
		t.Error("an empty payload became NULL")
	}
}

func TestBeginTellsTheCommit(t *testing.T) {
	ev, err := NewDecoder(outbox).Decode(begin(5))
	want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(micros) * time.Microsecond)
	if err != nil || !ev.Tx.Committed.Equal(want) || ev.Tx.Start != 90 {
		t.Fatalf("committed %s, at %s (%v), want %s, at 0/5A", ev.Tx.Committed, ev.Tx.Start, err, want)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	d := NewDecoder(outbox)
	for _, m := range [][]byte{begin(5), table(7, "public", "outbox", required...)} {
		if _, err := d.Decode(m); err != nil {
			t.Fatal(err)
		}
	}
	row := insert(7, "1", "orders", "8842", "OrderPlaced", `\x00ff00ff`)
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

func TestAppendRFC3339(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-02 03:04:05+00":           "2026-01-02T03:04:05.000000Z",
		"2026-01-02 03:04:05.6+00":         "2026-01-02T03:04:05.600000Z",
		"2026-01-02 03:04:05.123456+00":    "2026-01-02T03:04:05.123456Z",
		"0044-03-15 12:00:00+00 BC":        "0044-03-15 12:00:00+00 BC",
		"12026-01-02 03:04:05+00":          "12026-01-02 03:04:05+00",
		"2026-01-02 03:04:05+02":           "2026-01-02 03:04:05+02",
		"2026-01-02 03:04:05.1234567+00":   "2026-01-02 03:04:05.1234567+00",
		"infinity":                         "infinity",
		"":                                 "",
		"2026-01-02 03:04:05 and more +00": "2026-01-02 03:04:05 and more +00",
	} {
		if got := string(AppendRFC3339(nil, []byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// FuzzDecode feeds a stream of length-prefixed messages: nothing may panic,
// and what is accepted must be in turn.
func FuzzDecode(f *testing.F) {
	stream := func(messages ...[]byte) []byte {
		var s []byte
		for _, m := range messages {
			s = append(binary.BigEndian.AppendUint16(s, uint16(len(m))), m...)
		}
		return s
	}
	rel := table(7, "public", "outbox", append(required, "occurredat", "hop")...)
	f.Add(stream(begin(5), rel, insert(7, "1", "a", "b", "c", `\x00`, "2026-01-02 03:04:05+00", "1"), commit(9)))
	f.Add(stream(begin(5), rel, msg('U', uint32(7), byte('N'), tuple("1")), msg('T', uint32(1), byte(0), uint32(7)), commit(9)))
	f.Add(stream(begin(5), announced("id", uuidOID, "aggregatetype", textOID, "aggregateid", int8OID, "type", boolOID, "payload", jsonbOID, "occurredat", timestamptzOID, "hop", int2OID),
		binaryRow(make([]byte, 16), []byte("a"), be(1, 8), []byte{1}, []byte("\x01{}"), be(micros, 8), be(3, 2)), commit(9)))
	f.Add(stream(streamStart(5), inStream(6, rel), inStream(6, insert(7, "1", "a", "b", "c", `\x00`, "2026-01-02 03:04:05+00", "1")), msg('E'),
		streamAbort(5, 8), begin(9), insert(7, "1", "a", "b", "c", `\x00`, nil, nil), commit(9), streamCommit(5, 10)))
	f.Add(stream(msg('Y', uint32(1), "a", "b"), msg('O', uint64(1), "x"), msg('A', uint32(1), uint32(2)), msg('z')))
	f.Fuzz(func(t *testing.T, s []byte) {
		d := NewDecoder(outbox)
		open := false
		var kept []Part // its slices stay as they are: s is not read again
		for len(s) >= 2 {
			n := min(int(binary.BigEndian.Uint16(s)), len(s)-2)
			ev, err := d.Decode(s[2 : 2+n])
			s = s[2+n:]
			if err != nil {
				if !errors.Is(err, ErrTable) && !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrBinary) {
					t.Fatalf("error of no kind: %v", err)
				}
				return
			}
			switch ev.Kind {
			case Begin:
				if open {
					t.Fatal("transaction in a transaction")
				}
				open = true
			case Commit:
				if !open {
					t.Fatal("commit out of turn")
				}
				open = false
			case Streamed:
				kept = append(kept, ev.Stream)
			case StreamCommit:
				replay(t, d, ev.Tx, kept)
			case Insert, Update, Delete, Foreign:
				if !open {
					t.Fatal("row out of turn")
				}
			}
			if ev.Row != nil {
				AppendRFC3339(nil, ev.Row.OccurredAt)
			}
			if d.Open() != open {
				t.Fatalf("open is %t, want %t", d.Open(), open)
			}
		}
	})
}
