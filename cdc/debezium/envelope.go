package debezium

import (
	"fmt"
	"strings"

	"chorus/cdc/connect"
)

// wrap puts the payload in an envelope with the fields that are placed there.
// The schema of an envelope is remembered by that of its payload, as Debezium
// does: so it keeps the name of the aggregate type that came first. It is
// remembered by the version and the placed columns too. (In Debezium a version
// alone is enough, and columns are not looked at; what does not fit ends the
// task.)
func (r *router) wrap(m *message, row *connect.Struct, p *places, aggregate string) (*connect.Schema, any, error) {
	if m.schema == nil {
		return nil, nil, rowErrorf("payload has no schema, so it fits no envelope")
	}
	v := envelopeKey{payload: m.schema, row: row.Schema}
	if r.version != "" {
		if p.version < 0 || row.Schema.Fields[p.version].Schema.Type != connect.Int32 {
			return nil, nil, rowErrorf("column %s, the schema version, is not there or not an INT32", r.version)
		}
		v.version, v.versioned = row.Values[p.version].(int32)
	}
	if r.lastKey != v {
		s, err := r.envelopeSchema(v, p, aggregate)
		if err != nil {
			return nil, nil, err
		}
		r.lastKey, r.lastEnvelope = v, s
	}
	s := r.lastEnvelope
	st := &connect.Struct{Schema: s, Values: make([]any, len(s.Fields))}
	put := func(name string, v any) error {
		i := s.Field(name)
		if i < 0 {
			return rowErrorf("envelope has no field %s: its schema was made before the column was there", name)
		}
		if err := connect.Validate(name, s.Fields[i].Schema, v); err != nil {
			return err
		}
		st.Values[i] = v
		return nil
	}
	if err := put("payload", m.value); err != nil {
		return nil, nil, err
	}
	for i, a := range r.additional {
		if at := p.additional[i]; a.place == "envelope" && at >= 0 {
			if err := put(a.alias, row.Get(at)); err != nil {
				return nil, nil, err
			}
		}
	}
	return s, st, nil
}

// envelopeKey says of what an envelope's schema is made.
type envelopeKey struct {
	payload, row *connect.Schema
	version      int32
	versioned    bool
}

// envelopeSchema finds the schema that was made of the same schemas, or makes it.
func (r *router) envelopeSchema(v envelopeKey, p *places, aggregate string) (*connect.Schema, error) {
	memory := fmt.Sprint(v.version, v.versioned) + string(v.payload.JSON())
	for i, a := range r.additional {
		if at := p.additional[i]; a.place == "envelope" && at >= 0 {
			memory += a.alias + string(v.row.Fields[at].Schema.JSON())
		}
	}
	if s := r.envelopes[memory]; s != nil {
		return s, nil
	}
	s := &connect.Schema{Type: connect.StructType, Name: envelopeName(v.row.Name, aggregate), Version: int(v.version), HasVersion: v.versioned}
	s.Fields = append(s.Fields, connect.Field{Name: "payload", Schema: v.payload})
	for i, a := range r.additional {
		if at := p.additional[i]; a.place == "envelope" && at >= 0 {
			if s.Field(a.alias) >= 0 {
				return nil, rowErrorf("two fields of the envelope are called %s", a.alias)
			}
			s.Fields = append(s.Fields, connect.Field{Name: a.alias, Schema: v.row.Fields[at].Schema})
		}
	}
	if len(r.envelopes) >= 10_000 {
		clear(r.envelopes)
	}
	r.envelopes[memory] = s
	return s, nil
}

// envelopeName puts the routing value before the last part of a schema's name.
func envelopeName(table, aggregate string) string {
	if table == "" {
		return aggregate
	}
	if i := strings.LastIndexByte(table, '.'); i >= 0 {
		return table[:i+1] + aggregate + "." + table[i+1:]
	}
	return aggregate + "." + table
}
