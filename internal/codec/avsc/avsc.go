// Package avsc reads Avro schemas as data: what the fields are, what their
// defaults are, and whether one version can be read by another. It decodes no
// values (internal/codec does, with goavro) and does no I/O.
//
// It is stricter than Avro where a lax schema would hurt later: a default must fit
// its type exactly (SCH-03), types may not contain themselves, and array items
// must take at least a byte, so that the size of a value is bounded by the size of its bytes.
package avsc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Kind is the Avro type of a schema node, by its name in the specification.
type Kind string

// The kinds that chorus's own schemas use. Those of others may use the rest of Avro too: what
// a reader does not know it only has to skip.
const (
	Null   Kind = "null"
	Int    Kind = "int"
	Long   Kind = "long"
	String Kind = "string"
	Enum   Kind = "enum"
	Array  Kind = "array"
	Record Kind = "record"
	Union  Kind = "union"
)

// primitives are the kinds that a schema gives by name alone.
var primitives = []Kind{Null, "boolean", Int, Long, "float", "double", "bytes", String}

// TimestampMicros is the logical type of every instant in chorus's schemas.
const TimestampMicros = "timestamp-micros"

// Type is one node of a schema.
type Type struct {
	Kind     Kind
	Logical  string  // logical type, empty for none
	Name     string  // full name of a record, an enum or a fixed
	Doc      string  // of a record or an enum
	Fields   []Field // of a record, in the order of their bytes
	Symbols  []string
	Default  string // the symbol that stands for those that a reader does not know; empty for none
	Items    *Type  // of an array or a map
	Branches []*Type
	Size     int // of a fixed, bytes

	nodes int // how many nodes it has when every name is written out
}

// mostNodes bounds a schema whose names are written out. A few lines of records that hold each other twice come to 2^60 nodes, and some of them to as many values
// in no bytes at all.
const mostNodes = 10_000

// Field is one field of a record.
type Field struct {
	Name       string
	Doc        string
	Type       *Type
	HasDefault bool
	Default    any // native form, as goavro gives values; meaningful when HasDefault
}

// Field returns the record's field of that name.
func (t *Type) Field(name string) (Field, bool) {
	for _, f := range t.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Branch is the name by which a union tells this type from its others: the full name of a named
// type, otherwise the kind with its logical type. goavro wraps values of unions in it.
func (t *Type) Branch() string {
	if t.Name != "" {
		return t.Name
	}
	if t.Logical != "" {
		return string(t.Kind) + "." + t.Logical
	}
	return string(t.Kind)
}

// empty reports whether values of the type take no bytes at all.
func (t *Type) empty() bool {
	switch t.Kind {
	case Null:
		return true
	case Record:
		return !slices.ContainsFunc(t.Fields, func(f Field) bool { return !f.Type.empty() })
	case "fixed":
		return t.Size == 0
	}
	return false
}

// Parse reads a schema. The error names the record and field at fault.
func Parse(text string) (*Type, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read schema: there is more after its end")
	}
	p := parser{named: map[string]*Type{}}
	t, err := p.parse(v, "", "schema")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return t, nil
}
