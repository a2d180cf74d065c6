package debezium

import (
	"encoding/hex"

	"chorus/cdc/connect"
)

// direct is the short way from a row to a record, for the usual outbox: texts,
// numbers and bytes that go out as PostgreSQL prints them. It gives the same
// record as the long way, or leaves the row to it.
type direct struct {
	id, key, payload, routeBy directColumn
	bytea                     bool // of the payload, whose bytes go out
	headers                   []directHeader
	tombstone                 bool

	record Record // the last one: it lives until the next row
}

type directColumn struct {
	at        int  // in the row
	defaulted bool // a NULL becomes something else
}

type directHeader struct {
	name   string
	value  []byte       // of one that is always the same
	column directColumn // else
}

// verbatim are types whose text in PostgreSQL is that of the text converters.
func verbatim(t Type) bool {
	switch t.OID {
	case oidText, oidVarchar, oidBpchar, oidName, oidUUID, oidJSON, oidJSONB, oidXML, oidInt2, oidInt4, oidInt8, oidOID, oidInet, oidCIDR:
		return true
	}
	return t.Labels != nil
}

// shortcut makes the short way of a table; nil when it needs the long one.
func (t *Table) shortcut(columns []Column) *direct {
	c, p := t.c, &t.places
	r := &c.router
	if r.expand != nil || r.envelope || r.timestamp != "" || len(c.after) > 0 || c.trace.on || p.id < 0 || p.key < 0 || p.payload < 0 || p.routeBy < 0 {
		return nil
	}
	text := func(by connect.Converter) bool {
		switch by.(type) {
		case connect.StringConverter, connect.SimpleHeaderConverter:
			return true
		}
		return false
	}
	column := func(field int) (directColumn, Type) {
		return directColumn{t.at[field], t.schema.Fields[field].Schema.Default != nil}, columns[t.at[field]].Type
	}
	d := &direct{tombstone: r.tombstone}
	var id, key, payload Type
	d.id, id = column(p.id)
	d.key, key = column(p.key)
	d.payload, payload = column(p.payload)
	d.routeBy, _ = column(p.routeBy)
	switch c.value.(type) {
	case connect.StringConverter:
		if !verbatim(payload) {
			return nil
		}
	case connect.ByteArrayConverter, connect.BinaryDataConverter:
		if d.bytea = payload.OID == oidBytea && c.kinds.binary == "bytes"; !d.bytea {
			return nil
		}
	default:
		return nil
	}
	if !text(c.key) || !text(c.header) || !verbatim(key) || !verbatim(id) || t.schema.Fields[p.routeBy].Schema.Type != connect.String || !verbatim(columns[d.routeBy.at].Type) {
		return nil
	}
	for _, h := range c.context {
		d.headers = append(d.headers, directHeader{name: h.name, value: []byte(h.value)})
	}
	d.headers = append(d.headers, directHeader{name: "id", column: d.id})
	for i, a := range r.additional {
		if p.additional[i] < 0 || a.place != "header" {
			return nil
		}
		col, of := column(p.additional[i])
		if !verbatim(of) {
			return nil
		}
		d.headers = append(d.headers, directHeader{name: a.alias, column: col})
	}
	return d
}

// route makes the record of an inserted row; nil leaves it to the long way.
func (d *direct) route(r *router, values [][]byte) *Record {
	size := 0
	take := func(c directColumn) (b []byte, ok bool) {
		b = values[c.at]
		size += len(b)
		return b, (b != nil || !c.defaulted) && !isUnchanged(b)
	}
	topic, known := r.topics[string(values[d.routeBy.at])]
	key, ok1 := take(d.key)
	payload, ok2 := take(d.payload)
	if !known || values[d.routeBy.at] == nil || !ok1 || !ok2 {
		return nil
	}
	for i := range d.headers {
		if h := &d.headers[i]; h.value == nil {
			if _, ok := take(h.column); !ok {
				return nil
			}
		}
	}
	buf := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(buf)
		buf = append(buf, b...)
		return buf[start:len(buf):len(buf)]
	}
	out := &d.record
	*out = Record{Topic: topic, Partition: -1, Timestamp: NoTimestamp, Headers: out.Headers[:0], Key: keep(key)}
	switch {
	case payload == nil:
	case d.bytea:
		if len(payload) < 2 || payload[0] != '\\' || payload[1] != 'x' {
			return nil
		}
		start := len(buf)
		decoded, err := hex.AppendDecode(buf, payload[2:])
		if err != nil {
			return nil
		}
		buf = decoded
		out.Value = buf[start:len(buf):len(buf)]
	case d.tombstone && blankBytes(payload):
	default:
		out.Value = keep(payload)
	}
	for i := range d.headers {
		h := &d.headers[i]
		v := h.value
		if v == nil {
			v = keep(values[h.column.at])
		}
		out.Headers = append(out.Headers, Header{h.name, v})
	}
	return out
}

func blankBytes(b []byte) bool {
	for _, c := range b {
		if c > ' ' {
			return false
		}
	}
	return true
}
