package debezium

import (
	"slices"
	"strings"

	"chorus/cdc/connect"
)

// Column is one of a table, as the relation and the catalog have it.
type Column struct {
	Name    string
	Type    Type
	NotNull bool
	Default string // the expression; empty for none
	Key     bool   // of the primary key
}

// Table is a compiled table: its rows may be given to Route.
type Table struct {
	Name   Name
	c      *Connector
	schema *connect.Schema // of the row
	at     []int           // where the value of each field of schema is in a row
	conv   []convert       // how each is converted
	key    *connect.Schema // of the primary key; nil without one
	keyAt  []int           // where its values are in a row
	keys   []convert       // how each is converted
	places places
	taken  []int // the fields of places
	direct *direct
	routed bool
	// left are columns of types that are left out, with the names of the types:
	// a row whose router looks for one tells why it is not there.
	left map[string]string
}

// places says which fields of a row the router takes; -1 for one that is
// missing.
type places struct {
	id, key, payload, timestamp, version, routeBy, trace int
	additional                                           []int
}

// Table compiles a table of the given columns, in the order of its rows.
func (c *Connector) Table(name Name, columns []Column) *Table {
	full := c.Prefix + "." + name.String()
	t := &Table{Name: name, c: c, routed: c.Routes(name), left: map[string]string{}, schema: &connect.Schema{Type: connect.StructType, Optional: true, Name: c.schemaName(full + ".Value")}}
	key := &connect.Schema{Type: connect.StructType, Name: c.schemaName(full + ".Key")}
	for i, col := range columns {
		s, conv := c.kinds.column(col.Type)
		if s == nil {
			t.left[col.Name] = col.Type.Name
			continue
		}
		s.Optional = !col.NotNull
		s.Default = defaultOf(col.Type, col.Default, conv)
		field := connect.Field{Name: c.fieldName(col.Name), Schema: s}
		if col.Key {
			key.Fields = append(key.Fields, field)
			t.keyAt, t.keys = append(t.keyAt, i), append(t.keys, conv)
		}
		if !c.capturesColumn(name, col.Name) {
			continue
		}
		t.schema.Fields = append(t.schema.Fields, field)
		t.at = append(t.at, i)
		t.conv = append(t.conv, conv)
	}
	if len(key.Fields) > 0 {
		t.key = key
	}
	t.places = c.places(t.schema)
	p := &t.places
	t.taken = append([]int{p.id, p.key, p.payload, p.timestamp, p.version, p.routeBy, p.trace}, p.additional...)
	slices.Sort(t.taken)
	t.taken = slices.DeleteFunc(slices.Compact(t.taken), func(i int) bool { return i < 0 })
	t.direct = t.shortcut(columns)
	return t
}

// places finds the router's fields in the schema of a row.
func (c *Connector) places(s *connect.Schema) places {
	r := &c.router
	p := places{
		id: s.Field(r.id), key: s.Field(r.key), payload: s.Field(r.payload), routeBy: s.Field(r.routeBy),
		timestamp: s.Field(r.timestamp), version: s.Field(r.version), trace: s.Field(c.trace.column),
	}
	for _, a := range r.additional {
		p.additional = append(p.additional, s.Field(a.column))
	}
	return p
}

// unchanged stands for the value of a column that an update left alone and that
// the server did not send.
var unchanged = []byte("unchanged")

// Unchanged is what Route is given for such a value.
func Unchanged() []byte { return unchanged }

// row makes the values of a row. Only the columns that the router takes are
// converted: those that nobody looks at cannot fail.
func (t *Table) row(values [][]byte) (*connect.Struct, error) {
	st := &connect.Struct{Schema: t.schema, Values: make([]any, len(t.at))}
	for _, i := range t.taken {
		if err := t.fill(st, i, values); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (t *Table) fill(st *connect.Struct, i int, values [][]byte) error {
	text := values[t.at[i]]
	f := t.schema.Fields[i]
	switch {
	case text == nil:
		return nil
	case isUnchanged(text) && f.Schema.Type == connect.Bytes:
		st.Values[i] = []byte(t.c.toast)
		return nil
	case isUnchanged(text) && f.Schema.Type == connect.String:
		st.Values[i] = t.c.toast
		return nil
	}
	v, err := t.conv[i](text)
	if err != nil {
		return rowErrorf("column %s of table %s: %v", f.Name, t.Name, err)
	}
	st.Values[i] = v
	return nil
}

func isUnchanged(text []byte) bool { return len(text) > 0 && &text[0] == &unchanged[0] }

// keyOf makes the primary key of a row, and its text to compare by.
func (t *Table) keyOf(values [][]byte) (*connect.Struct, string, error) {
	st := &connect.Struct{Schema: t.key}
	var text strings.Builder
	for k, i := range t.keyAt {
		b := values[i]
		var v any
		if b != nil {
			var err error
			if v, err = t.keys[k](b); err != nil {
				return nil, "", rowErrorf("key of table %s: %v", t.Name, err)
			}
		}
		st.Values = append(st.Values, v)
		text.Write(b)
		text.WriteByte(0)
	}
	return st, text.String(), nil
}
