package codec

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/event"
	"chorus/outbox"
)

const (
	goodParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	goodID     = "0195b5f2-7c00-8000-8000-0123456789ab"
)

// record returns what chorus cdc makes of a row.
func record(r outbox.Row) (key []byte, headers []Header, value []byte) {
	add := func(k, v string) { headers = append(headers, Header{k, []byte(v)}) }
	add("id", event.ID(r.ID).String())
	add("eventType", r.Type)
	add("aggregateType", r.AggregateType)
	add("occurredAt", r.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z"))
	add("correlationId", r.CorrelationID)
	add("causationId", r.CausationID)
	add("hop", strconv.Itoa(r.Hop))
	if r.TraceParent != "" {
		add("traceparent", r.TraceParent)
	}
	if r.TraceState != "" {
		add("tracestate", r.TraceState)
	}
	return []byte(r.AggregateID), headers, r.Payload
}

func envelopeOf(f event.Fact) event.Envelope {
	return event.Envelope{
		ID: event.Derive(deadline, event.Orders, 8842, string(f.Type()), 0), Order: 8842, Owner: event.Orders, OccurredAt: deadline,
		CausationID: event.Derive(deadline, event.Orders, 8842, "request", 0), Hop: 3, TraceParent: goodParent, TraceState: "vendor=1", Fact: f,
	}
}

func TestEnvelopeRoundTrips(t *testing.T) {
	t.Parallel()
	c := Embedded()
	for _, s := range samples() {
		for _, e := range []event.Envelope{
			envelopeOf(s.fact),
			{ID: event.ID{15: 1}, Order: math.MaxInt64, Owner: event.Billing, OccurredAt: time.UnixMicro(1).UTC(), Hop: math.MaxInt32, Fact: s.fact},
		} {
			row, err := c.Row(e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Envelope(record(row))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("%s, %s: came back changed:\n%s", s.fact.Type(), s.name, diff)
			}
		}
	}
}

func TestRowKeepsMicroseconds(t *testing.T) {
	t.Parallel()
	e := envelopeOf(event.OrderShipped{})
	e.OccurredAt = deadline.Add(999).In(time.FixedZone("CET", 3600))
	row, err := Embedded().Row(e)
	if err != nil || row.OccurredAt != deadline {
		t.Errorf("got %s, %v, want %s", row.OccurredAt, err, deadline)
	}
}

func TestRowRefusesWhatNobodyCouldRead(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*event.Envelope){
		"it has no id":              func(e *event.Envelope) { e.ID = event.ID{} },
		"it has no order":           func(e *event.Envelope) { e.Order = 0 },
		`"" owns no topic`:          func(e *event.Envelope) { e.Owner = "" },
		`"notifications" owns`:      func(e *event.Envelope) { e.Owner = "notifications" },
		"its time is the zero time": func(e *event.Envelope) { e.OccurredAt = time.Time{} },
		"its time is not between":   func(e *event.Envelope) { e.OccurredAt = deadline.AddDate(9000, 0, 0) },
		"hop is -1":                 func(e *event.Envelope) { e.Hop = -1 },
		"hop is 2147483648":         func(e *event.Envelope) { e.Hop = math.MaxInt32 + 1 },
		"there is none":             func(e *event.Envelope) { e.Fact = nil },
		"reason: is not UTF-8":      func(e *event.Envelope) { e.Fact = event.OrderFailed{Reason: "\xff"} },
	} {
		e := envelopeOf(event.OrderShipped{})
		change(&e)
		if _, err := Embedded().Row(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// faulty returns the record of a good fact with one header set to other values: none removes it, two give it twice.
func faulty(t testing.TB, name string, values ...string) ([]byte, []Header, []byte) {
	t.Helper()
	row, err := Embedded().Row(envelopeOf(event.OrderFailed{Reason: "r"}))
	if err != nil {
		t.Fatal(err)
	}
	key, headers, value := record(row)
	if name == "key" {
		return []byte(strings.Join(values, "")), headers, value
	}
	i := slices.IndexFunc(headers, func(h Header) bool { return h.Key == name })
	headers = slices.Delete(headers, i, i+1)
	for _, v := range values {
		headers = append(headers, Header{name, []byte(v)})
	}
	return key, headers, value
}

func TestCON10EachFaultyHeaderHasItsReason(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 100_000)
	cases := []struct {
		header string
		values []string
		kind   error
		want   string
	}{
		{"id", nil, ErrHeader, "header id: is missing"},
		{"id", []string{""}, ErrHeader, "header id: is empty"},
		{"id", []string{"not-a-uuid"}, ErrHeader, `header id: "not-a-uuid" is no UUID`},
		{"id", []string{"00000000-0000-0000-0000-000000000000"}, ErrHeader, "is no UUID, or the one of zeros"},
		{"id", []string{goodID, "0195b5f2-7c00-8000-8000-0123456789ac"}, ErrHeader, "header id: is there 2 times"},
		{"id", []string{goodID, goodID}, ErrHeader, "header id: is there 2 times"},
		{"id", []string{goodID + " "}, ErrHeader, "is no UUID"},
		{"eventType", nil, ErrHeader, "header eventType: is missing"},
		{"eventType", []string{""}, ErrHeader, "header eventType: is empty"},
		{"eventType", []string{"OrderFailed", "OrderPlaced"}, ErrHeader, "header eventType: is there 2 times"},
		{"eventType", []string{"orderfailed"}, ErrUnknownType, "header eventType: orderfailed is no fact"},
		{"aggregateType", nil, ErrHeader, "header aggregateType: is missing"},
		{"aggregateType", []string{"warehouse"}, ErrHeader, `header aggregateType: "warehouse" owns no topic`},
		{"occurredAt", nil, ErrHeader, "header occurredAt: is missing"},
		{"occurredAt", []string{"1773480413"}, ErrHeader, `header occurredAt: "1773480413" is no time`},
		{"occurredAt", []string{"0001-01-01T00:00:00Z"}, ErrHeader, "is the zero time"},
		{"occurredAt", []string{"infinity"}, ErrHeader, "is no time"},
		{"occurredAt", []string{"2026-03-14T09:26:53.1234567Z"}, ErrHeader, "is finer than a microsecond"},
		{"hop", nil, ErrHeader, "header hop: is missing"},
		{"hop", []string{"-1"}, ErrHeader, `header hop: "-1" is no whole number`},
		{"hop", []string{"01"}, ErrHeader, `header hop: "01"`},
		{"hop", []string{"2147483648"}, ErrHeader, `header hop: "2147483648"`},
		{"hop", []string{long}, ErrHeader, `9…" is no whole number`},
		{"causationId", nil, ErrHeader, "header causationId: is missing"},
		{"causationId", []string{"request-7"}, ErrHeader, `header causationId: "request-7" is no UUID`},
		{"correlationId", nil, ErrHeader, "header correlationId: is missing"},
		{"correlationId", []string{"8843"}, ErrHeader, `header correlationId: "8843" is not the key, "8842"`},
		{"key", nil, ErrHeader, "key: is missing"},
		{"key", []string{"O-1"}, ErrHeader, `key: "O-1" is no order's number`},
		{"key", []string{"08842"}, ErrHeader, "key: "},
		{"key", []string{"0"}, ErrHeader, "key: "},
		{"key", []string{"9223372036854775808"}, ErrHeader, "key: "},
	}
	reasons := map[string]string{}
	for _, k := range cases {
		_, err := Embedded().Envelope(faulty(t, k.header, k.values...))
		what := k.header + " " + strings.Join(k.values, ",")
		if len(what) > 100 {
			what = what[:100]
		}
		wantError(t, what, err, k.kind, k.want)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%s: the reason has %d bytes", what, len(err.Error()))
			}
			reasons[err.Error()] = what
		}
	}
	if _, err := Embedded().Envelope(faulty(t, "causationId", "")); err != nil {
		t.Errorf("no known cause: %v", err)
	}
	key, headers, value := faulty(t, "hop", "0")
	if _, err := Embedded().Envelope(key, append(headers, Header{"__debezium.x", nil}, Header{"id2", []byte("x")}), value); err != nil {
		t.Errorf("headers that are not ours: %v", err)
	}
}

func TestCON04NullValueAndMalformedTrace(t *testing.T) {
	t.Parallel()
	c := Embedded()
	key, headers, value := faulty(t, "traceparent", goodParent)
	_, err := c.Envelope(key, headers, nil)
	wantError(t, "null value", err, ErrUndecodable, "value: is null")
	_, err = c.Envelope([]byte("O-1"), headers, nil)
	wantError(t, "null value, key O-1", err, ErrHeader, "key: ")
	if e, err := c.Envelope(key, headers, value); err != nil || e.TraceParent != goodParent || e.TraceState != "vendor=1" {
		t.Errorf("the next record: %+v, %v", e, err)
	}
	for _, bad := range []string{
		"00-zz", "", strings.Repeat("0", 2048), "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01",
		strings.ToUpper(goodParent), "ff" + goodParent[2:], goodParent + "-x", strings.Replace(goodParent, "-b7", "--7", 1), "00-" + strings.Repeat("é", 16) + "-b7ad6b7169203331-01",
	} {
		e, err := c.Envelope(faulty(t, "traceparent", bad))
		if err != nil || e.TraceParent != "" || e.TraceState != "" {
			t.Errorf("%.60q: got %q, %q, %v", bad, e.TraceParent, e.TraceState, err)
		}
	}
	if e, err := c.Envelope(faulty(t, "traceparent", goodParent, goodParent)); err != nil || e.TraceParent != "" {
		t.Errorf("twice: got %q, %v", e.TraceParent, err)
	}
	for _, bad := range []string{strings.Repeat("a", 513), "a=\n", "a=é"} {
		if e, err := c.Envelope(faulty(t, "tracestate", bad)); err != nil || e.TraceParent != goodParent || e.TraceState != "" {
			t.Errorf("state %.20q: got %q, %q, %v", bad, e.TraceParent, e.TraceState, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	types := []event.Type{}
	index := map[event.Type]uint8{}
	for i, fact := range event.Catalogue() {
		types = append(types, fact.Type())
		index[fact.Type()] = uint8(i)
	}
	avro, json := newCodec(f, Avro), newCodec(f, JSON)
	for _, s := range samples() {
		for _, c := range []*Codec{avro, json} {
			value, err := c.Encode(s.fact)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(index[s.fact.Type()], value)
		}
	}
	for _, hex := range []string{"", "00", "00000000010000feffffff0f", "0000000005feffffffffffffffff01", "007fffffff0272", "0000000005ffffffffffffffffffffffffffff"} {
		f.Add(uint8(0), unhex(hex))
		f.Add(index["OrderFailed"], unhex(hex))
	}
	newer := schemaOf(f, "OrderPlaced", `"fields": [`, `"fields": [{"name":"tags","type":{"type":"map","values":["null","string"]},"default":{}},`)
	avro = learned(f, map[int]string{900: newer})
	f.Add(uint8(0), framed(f, 900, newer, map[string]any{
		"tags": map[string]any{"a": nil}, "customer": "c", "currency": "EUR", "lines": []any{}, "discount": 0, "tax": 0, "shippingFee": 0, "total": 0,
		"shippingType": "domestic", "deadline": deadline,
	}))

	f.Fuzz(func(t *testing.T, which uint8, value []byte) {
		typ := types[int(which)%len(types)]
		before := bytes.Clone(value)
		fact, err := avro.Decode(typ, value)
		if !bytes.Equal(before, value) {
			t.Fatal("the value was changed")
		}
		if err != nil {
			if fact != nil {
				t.Fatalf("%v beside %v", fact, err)
			}
			return
		}
		for _, c := range []*Codec{avro, json} {
			again, err := c.Encode(fact)
			if err != nil {
				t.Fatalf("%+v was read but cannot be written: %v", fact, err)
			}
			back, err := avro.Decode(typ, again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fact, back); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	row, err := Embedded().Row(envelopeOf(event.OrderFailed{Reason: "r"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("8842", event.ID(row.ID).String(), row.Type, row.AggregateType, "2026-03-14T09:26:53.589793Z", "8842", row.CausationID, "3", goodParent, "vendor=1", row.Payload)
	f.Add("8842", goodID, "OrderShipped", "orders", "2026-03-14T10:26:53+01:00", "8842", "", "0", "00-zz", "", []byte("{}"))
	f.Add("", "", "", "", "", "", "", "", "", "", []byte(nil))
	f.Add("O-1", "not-a-uuid", "Stranger", "warehouse", "infinity", "0", "x", "-1", goodParent+goodParent, "\n", []byte("abcd"))
	c := Embedded()
	f.Fuzz(func(t *testing.T, key, id, typ, owner, at, about, cause, hop, parent, state string, value []byte) {
		e, err := c.Envelope([]byte(key), []Header{
			{"id", []byte(id)}, {"eventType", []byte(typ)}, {"aggregateType", []byte(owner)}, {"occurredAt", []byte(at)}, {"correlationId", []byte(about)},
			{"causationId", []byte(cause)}, {"hop", []byte(hop)}, {"traceparent", []byte(parent)}, {"tracestate", []byte(state)},
		}, value)
		if err != nil {
			return
		}
		row, err := c.Row(e)
		if err != nil {
			t.Fatalf("%+v was read but cannot be written: %v", e, err)
		}
		back, err := c.Envelope(record(row))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Fatal(diff)
		}
	})
}
