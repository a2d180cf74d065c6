package debezium

import (
	"errors"
	"fmt"

	"chorus/cdc/connect"
)

// expander makes typed values of JSON texts (table.expand.json.payload).
type expander struct {
	nullBytes    bool // table.json.payload.null.behavior=optional_bytes
	emptyStrings bool // table.json.payload.empty.array.behavior=optional_string
	adjust       func(string) string
	renamed      bool // a renamed field keeps its value, which Debezium loses
}

// Schemas of scalars; Debezium compares those of numbers by identity.
var (
	optionalString  = &connect.Schema{Type: connect.String, Optional: true}
	optionalBoolean = &connect.Schema{Type: connect.Boolean, Optional: true}
	optionalInt32   = &connect.Schema{Type: connect.Int32, Optional: true}
	optionalInt64   = &connect.Schema{Type: connect.Int64, Optional: true}
	optionalDouble  = &connect.Schema{Type: connect.Float64, Optional: true}
	optionalBytes   = &connect.Schema{Type: connect.Bytes, Optional: true}
)

// schema infers the schema of a value; nil when it has none. The key is the
// path of names that leads to it, the name of a struct.
func (e *expander) schema(key string, n *node) (*connect.Schema, error) {
	switch n.kind {
	case stringNode:
		return optionalString, nil
	case booleanNode:
		return optionalBoolean, nil
	case numberNode:
		return numberSchema(n), nil
	case arrayNode:
		if len(n.items) == 0 {
			if e.emptyStrings {
				return &connect.Schema{Type: connect.Array, Items: optionalString, Optional: true}, nil
			}
			return nil, nil
		}
		items, err := e.itemSchema(key, n)
		return &connect.Schema{Type: connect.Array, Items: items, Optional: true}, err
	case objectNode:
		return e.structSchema(key, n)
	}
	if e.nullBytes {
		return optionalBytes, nil
	}
	return nil, nil
}

func numberSchema(n *node) *connect.Schema {
	switch n.number.(type) {
	case int32:
		return optionalInt32
	case int64:
		return optionalInt64
	}
	return optionalDouble
}

func (e *expander) structSchema(key string, n *node) (*connect.Schema, error) {
	s := &connect.Schema{Type: connect.StructType, Name: key, Optional: true}
	for _, name := range n.names {
		field := e.adjust(name)
		path := field
		if !blank(key) {
			path = key + "." + field
		}
		fs, err := e.schema(path, n.fields[name])
		if err != nil {
			return nil, err
		}
		if fs != nil && field == "" {
			return nil, errNoName
		}
		if fs != nil && s.Field(field) < 0 {
			s.Fields = append(s.Fields, connect.Field{Name: field, Schema: fs})
		}
	}
	return s, nil
}

// What ends an expansion.
var (
	errNoSchema = errors.New("array has no member with a schema")
	errNoName   = errors.New("member has no name, which Connect needs")
)

// itemSchema is the schema of the members of an array. Those of objects are
// merged, in the order in which they come first; Debezium merges them in the
// order of a hash that differs from run to run.
func (e *expander) itemSchema(key string, n *node) (*connect.Schema, error) {
	sample, err := firstItem(n)
	if err != nil {
		return nil, err
	}
	if sample.kind != objectNode {
		s, err := e.schema("", sample)
		if err == nil && s == nil {
			err = errNoSchema
		}
		return s, err
	}
	var merged *connect.Schema
	var seen []*connect.Schema
items:
	for _, item := range n.items {
		if item.kind != objectNode {
			continue
		}
		s, err := e.schema(key, item)
		if err != nil {
			return nil, err
		}
		for _, o := range seen {
			if o.Equal(s) {
				continue items
			}
		}
		seen = append(seen, s)
		merged = merge(merged, s)
	}
	return merged, nil
}

// firstItem is the first member that is not null; all the others must be of its
// kind.
func firstItem(n *node) (*node, error) {
	first := &node{}
	for _, item := range n.items {
		if item.kind == nullNode {
			continue
		}
		if first.kind == nullNode {
			first = item
		}
		if item.kind != first.kind || item.kind == numberNode && numberSchema(item) != numberSchema(first) {
			return nil, errors.New("array is not homogeneous")
		}
	}
	return first, nil
}

func merge(left, right *connect.Schema) *connect.Schema {
	if left == nil {
		return right
	}
	m := &connect.Schema{Type: connect.StructType, Name: left.Name}
	m.Fields = append(m.Fields, left.Fields...)
	for _, f := range right.Fields {
		i := m.Field(f.Name)
		if i < 0 {
			m.Fields = append(m.Fields, f)
			continue
		}
		if old := m.Fields[i].Schema; old.Type == connect.Bytes && f.Schema.Type != connect.Bytes {
			m.Fields[i] = f
		}
	}
	return m
}

// data makes the value of an object. The error is a value that does not fit the
// schema that was inferred for it.
func (e *expander) data(n *node, s *connect.Schema) (any, error) {
	if s == nil || s.Type != connect.StructType || n.kind != objectNode {
		return nil, errors.New("JSON text is no object")
	}
	return e.structOf(n, s)
}

func (e *expander) structOf(n *node, s *connect.Schema) (*connect.Struct, error) {
	st := &connect.Struct{Schema: s, Values: make([]any, len(s.Fields))}
	for i, f := range s.Fields {
		member := e.member(n, f.Name)
		if member == nil {
			continue
		}
		v, err := e.valueOf(member, f.Schema)
		if err == nil {
			err = connect.Validate(f.Name, f.Schema, v)
		}
		if err != nil {
			return nil, err
		}
		st.Values[i] = v
	}
	return st, nil
}

// member finds the member of a field. Debezium looks for it by the name of the
// field, so it does not find one that was renamed.
func (e *expander) member(n *node, field string) *node {
	if m := n.fields[field]; m != nil || !e.renamed {
		return m
	}
	for _, name := range n.names {
		if e.adjust(name) == field {
			return n.fields[name]
		}
	}
	return nil
}

func (e *expander) valueOf(n *node, s *connect.Schema) (any, error) {
	switch n.kind {
	case stringNode:
		return n.text, nil
	case booleanNode:
		return n.truth, nil
	case numberNode:
		return n.number, nil
	case arrayNode:
		if s.Type != connect.Array {
			return nil, fmt.Errorf("array where %s is expected", s.Type)
		}
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			v, err := e.valueOf(item, s.Items)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case objectNode:
		if s.Type != connect.StructType {
			return nil, fmt.Errorf("object where %s is expected", s.Type)
		}
		return e.structOf(n, s)
	}
	return nil, nil
}
