package debezium

import (
	"errors"
	"fmt"
	"slices"

	"chorus/cdc/connect"
)

// Op is what happened to a row.
type Op uint8

const (
	Insert Op = iota
	Read      // found in a snapshot
	Update
	Delete
)

// Record is what goes to Kafka. Nil bytes are null. It lives until the next row
// of its table, its bytes for good.
type Record struct {
	Topic     string
	Partition int32 // -1: the key decides
	Key       []byte
	Value     []byte
	Headers   []Header
	Timestamp int64 // milliseconds since 1970; NoTimestamp: that of the commit
}

// NoTimestamp is a record without a time of its own.
const NoTimestamp = -1 << 63

// Header of a record.
type Header struct {
	Key   string
	Value []byte
}

type header struct{ name, value string }

// typed is a header before its converter.
type typed struct {
	name   string
	schema *connect.Schema
	value  any
}

// message is a record before the converters.
type message struct {
	topic     string
	partition int32
	keySchema *connect.Schema
	key       any
	schema    *connect.Schema
	value     any
	timestamp int64
	headers   []typed
	// whole is the value as it is when its expansion has failed half-way, so
	// that a converter may refuse what the router made.
	whole       any
	wholeSchema *connect.Schema
}

// Outcome says what became of a row.
type Outcome struct {
	Record  *Record
	Ignored string // why no record was made of it: "update"; empty for deletes, which are nobody's business
	Error   bool   // it is to be logged as an error, not a warning
	Warning string // something went wrong and the record was made nevertheless
}

// Route makes a record of a row. Old is the row before an update, as far as the
// server sent it; nil when it did not. A *RowError is a row that cannot be
// published as it is.
func (t *Table) Route(op Op, values, old [][]byte) (Outcome, error) {
	c := t.c
	if !t.routed {
		return Outcome{Ignored: "not routed"}, nil
	}
	var headers []typed
	switch op {
	case Delete:
		return Outcome{}, nil
	case Update:
		if c.router.skipUpdates {
			return Outcome{}, nil
		}
		was, changed, err := t.keyUpdate(values, old)
		if err != nil {
			return Outcome{}, err
		}
		if !changed || c.router.keyUpdates {
			return t.invalid()
		}
		headers = append(headers, typed{"__debezium.oldkey", t.key, was})
	case Insert:
		if c.router.skipInserts {
			return Outcome{}, nil
		}
	}
	if t.direct != nil && op != Update {
		if r := t.direct.route(&c.router, values); r != nil {
			return Outcome{Record: r}, nil
		}
	}
	for _, h := range c.context {
		headers = append(headers, typed{h.name, requiredString, h.value})
	}
	row, err := t.row(values)
	if err != nil {
		return Outcome{}, err
	}
	out, err := c.route(row, &t.places, headers)
	if err != nil {
		for column, of := range t.left {
			if slices.Contains(c.router.columns(), column) {
				err = rowErrorf("%v; column %s is of type %s, which is not supported", err, column, of)
			}
		}
	}
	return out, err
}

// keyUpdate tells whether an update changed the primary key. To Debezium that is
// a delete and an insert.
func (t *Table) keyUpdate(values, old [][]byte) (was *connect.Struct, changed bool, err error) {
	if old == nil || t.key == nil {
		return nil, false, nil
	}
	was, before, err := t.keyOf(old)
	if err != nil {
		return nil, false, err
	}
	_, after, err := t.keyOf(values)
	return was, before != after, err
}

func (t *Table) invalid() (Outcome, error) {
	switch t.c.router.invalid {
	case "fatal":
		return Outcome{}, rowErrorf("row of table %s was updated, and table.op.invalid.behavior is fatal", t.Name)
	case "error":
		return Outcome{Ignored: "update", Error: true}, nil
	}
	return Outcome{Ignored: "update"}, nil
}

// route is the router itself, on a row of a table or the content of a message.
func (c *Connector) route(row *connect.Struct, p *places, headers []typed) (Outcome, error) {
	r := &c.router
	if p.payload < 0 {
		return Outcome{}, rowErrorf("no payload column %s", r.payload)
	}
	m := &message{partition: -1, headers: c.trace.headers(headers, row, p.trace)}
	if err := r.head(m, row, p); err != nil {
		return Outcome{}, err
	}
	m.schema, m.value = row.Schema.Fields[p.payload].Schema, row.Get(p.payload)
	m.whole, m.wholeSchema = m.value, m.schema
	warning := r.expandPayload(m)
	var aggregate string
	if a, ok := row.Values[p.routeBy].(string); ok {
		aggregate = a
	} else {
		return Outcome{}, rowErrorf("column %s, which routes, is NULL", r.routeBy)
	}
	tombstone := r.tombstone && (m.value == nil || blank(connect.Text(m.value)))
	if err := r.place(m, row, p); err != nil {
		return Outcome{}, err
	}
	var err error
	if m.topic, err = r.topic(aggregate); err != nil {
		return Outcome{}, err
	}
	record, err := c.finish(m, row, p, aggregate, tombstone)
	if err != nil && warning != "" && !c.Tolerate {
		// The expansion failed half-way and left a text under the schema of a
		// struct. Debezium's task dies of it; here the text is published as if
		// the expansion had failed at once, which is what it promises.
		m.value, m.schema = m.whole, m.wholeSchema
		record, err = c.finish(m, row, p, aggregate, tombstone)
	}
	if errors.Is(err, errFiltered) {
		return Outcome{Ignored: "filtered"}, nil
	}
	if err != nil {
		var refused *RowError
		if !errors.As(err, &refused) {
			err = rowErrorf("%v", err)
		}
		return Outcome{}, err
	}
	return Outcome{Record: record, Warning: warning}, nil
}

// head sets the time, the key and the header of the id.
func (r *router) head(m *message, row *connect.Struct, p *places) error {
	var err error
	if m.timestamp, err = r.time(row, p); err != nil {
		return err
	}
	switch {
	case p.id < 0:
		return rowErrorf("no column %s", r.id)
	case p.key < 0:
		return rowErrorf("no column %s", r.key)
	case p.routeBy < 0:
		return rowErrorf("no column %s", r.routeBy)
	}
	if s := row.Schema.Fields[p.routeBy].Schema; s.Type != connect.String {
		return rowErrorf("column %s, which routes, is a %s and not a text", r.routeBy, s.Type)
	}
	m.headers = append(m.headers, typed{"id", row.Schema.Fields[p.id].Schema, row.Get(p.id)})
	m.keySchema, m.key = row.Schema.Fields[p.key].Schema, row.Get(p.key)
	return nil
}

// time is the record's own, in milliseconds.
func (r *router) time(row *connect.Struct, p *places) (int64, error) {
	if r.timestamp == "" {
		return NoTimestamp, nil
	}
	if p.timestamp < 0 {
		return 0, rowErrorf("no timestamp column %s", r.timestamp)
	}
	s, v := row.Schema.Fields[p.timestamp].Schema, row.Values[p.timestamp]
	if v == nil {
		return NoTimestamp, nil
	}
	var ms int64
	n, _ := v.(int64)
	switch s.Name {
	case milliTimestamp:
		ms = n
	case microTimestamp:
		ms = n / 1000
	case nanoTimestamp:
		ms = n / 1_000_000
	case zonedTimestamp: // Debezium dies of it, for no reason
		text, _ := v.(string)
		at, err := parseZoned(text)
		if err != nil {
			return 0, rowErrorf("timestamp column %s: %v", r.timestamp, err)
		}
		ms = at
	default:
		return 0, rowErrorf("timestamp column %s is neither timestamp nor timestamptz", r.timestamp)
	}
	if ms < 0 {
		return 0, rowErrorf("timestamp column %s is before 1970, which Kafka does not take", r.timestamp)
	}
	return ms, nil
}

// expandPayload makes a typed value of a JSON text. What it returns is a warning.
func (r *router) expandPayload(m *message) string {
	if r.expand == nil || m.value == nil {
		return ""
	}
	text, ok := m.value.(string)
	if !ok {
		return "payload is no text, so it is not expanded"
	}
	const failed = "expansion of the payload failed, it stays a text: "
	if text == "" || text[0] != '{' && text[0] != '[' {
		return failed + "it begins with neither { nor ["
	}
	n, err := parse(text)
	if err != nil {
		return failed + err.Error()
	}
	s, err := r.expand.schema(r.payload, n)
	if err != nil {
		return failed + err.Error()
	}
	m.schema = s // whatever comes, as in Debezium
	v, err := r.expand.data(n, s)
	if err != nil {
		return failed + err.Error()
	}
	m.value = v
	return ""
}

// place puts the additional fields in the headers and sets the partition.
func (r *router) place(m *message, row *connect.Struct, p *places) error {
	for i, a := range r.additional {
		at := p.additional[i]
		if at < 0 && r.missingIgnored {
			continue
		}
		if at < 0 {
			return rowErrorf("no column %s, which is placed in the %s", a.column, a.place)
		}
		s := row.Schema.Fields[at].Schema
		switch a.place {
		case "header":
			m.headers = append(m.headers, typed{a.alias, s, row.Get(at)})
		case "partition":
			if s.Type != connect.Int32 {
				return rowErrorf("column %s, which is the partition, is a %s and not an INT32", a.column, s.Type)
			}
			if n, ok := row.Values[at].(int32); ok {
				if m.partition = n; n < 0 {
					return rowErrorf("column %s, which is the partition, is %d", a.column, n)
				}
			}
		}
	}
	return nil
}

// finish wraps the value and converts everything.
func (c *Connector) finish(m *message, row *connect.Struct, p *places, aggregate string, tombstone bool) (*Record, error) {
	out := *m
	switch {
	case tombstone:
		out.schema, out.value = nil, nil
	case c.router.envelope:
		var err error
		if out.schema, out.value, err = c.router.wrap(m, row, p, aggregate); err != nil {
			return nil, err
		}
	}
	for _, s := range c.after {
		if err := s(&out); err != nil {
			return nil, err
		}
	}
	return c.convert(&out)
}

func (c *Connector) convert(m *message) (*Record, error) {
	r := &Record{Topic: m.topic, Partition: m.partition, Timestamp: m.timestamp, Headers: make([]Header, 0, len(m.headers))}
	var err error
	if r.Key, err = c.key.Convert("key", m.keySchema, m.key); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if r.Value, err = c.value.Convert("value", m.schema, m.value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	for _, h := range m.headers {
		v, err := c.header.Convert("header "+h.name, h.schema, h.value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.name, err)
		}
		r.Headers = append(r.Headers, Header{h.name, v})
	}
	return r, nil
}
