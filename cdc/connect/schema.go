package connect

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
)

// Type is the kind of a value.
type Type uint8

const (
	Boolean Type = iota
	Int16
	Int32
	Int64
	Float32
	Float64
	String
	Bytes
	Array
	StructType
)

// String is Connect's name in error messages.
func (t Type) String() string {
	return [...]string{"BOOLEAN", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "STRING", "BYTES", "ARRAY", "STRUCT"}[t]
}

// json is the type's name in a schema as JsonConverter writes it.
func (t Type) json() string {
	return [...]string{"boolean", "int16", "int32", "int64", "float", "double", "string", "bytes", "array", "struct"}[t]
}

// Schema describes a value. It must not be changed once it is in use, and may
// be used by one goroutine at a time: it keeps its JSON form.
type Schema struct {
	Type       Type
	Optional   bool
	Name       string // of the logical type or struct; empty for none
	Version    int    // 0 for none
	HasVersion bool   // Version counts although it is 0
	Doc        string
	Parameters []Parameter
	Default    any     // nil for none
	Fields     []Field // of a struct
	Items      *Schema // of an array

	json []byte
}

// Parameter is a named text of a schema.
type Parameter struct{ Key, Value string }

// Field is a named part of a struct.
type Field struct {
	Name   string
	Schema *Schema
}

// DecimalName is the logical type of Decimal values.
const DecimalName = "org.apache.kafka.connect.data.Decimal"

// Field finds a field by its name; -1 when there is none.
func (s *Schema) Field(name string) int {
	return slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name })
}

// Equal tells whether two schemas are the same: Connect compares their content.
func (s *Schema) Equal(o *Schema) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return bytes.Equal(s.JSON(), o.JSON())
}

// Struct is a value with fields. Get gives a field as Connect does.
type Struct struct {
	Schema *Schema
	Values []any // in the order of the schema's fields
}

// Get is the value of a field, or the default of its schema when it is null.
func (s *Struct) Get(i int) any {
	if v := s.Values[i]; v != nil {
		return v
	}
	return s.Schema.Fields[i].Schema.Default
}

// Decimal is Unscaled * 10^-Scale, Java's BigDecimal.
type Decimal struct {
	Unscaled *big.Int
	Scale    int
}

// Validate checks a value against a schema as a struct does when it is given
// one. The error is that of Connect in other words.
func Validate(field string, s *Schema, v any) error {
	if v == nil {
		if s.Optional || s.Default != nil {
			return nil
		}
		return fmt.Errorf("field %s is null and neither optional nor with a default", field)
	}
	ok := false
	switch s.Type {
	case Boolean:
		_, ok = v.(bool)
	case Int16:
		_, ok = v.(int16)
	case Int32:
		_, ok = v.(int32)
	case Int64:
		_, ok = v.(int64)
	case Float32:
		_, ok = v.(float32)
	case Float64:
		_, ok = v.(float64)
	case String:
		_, ok = v.(string)
	case Bytes:
		if _, ok = v.([]byte); !ok {
			_, ok = v.(Decimal)
			ok = ok && s.Name == DecimalName
		}
	case Array:
		return validateArray(field, s, v)
	case StructType:
		st, isStruct := v.(*Struct)
		ok = isStruct && st.Schema.Equal(s)
	}
	if !ok {
		return fmt.Errorf("field %s is a %s and has a value of type %T", field, s.Type, v)
	}
	return nil
}

func validateArray(field string, s *Schema, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("field %s is an ARRAY and has a value of type %T", field, v)
	}
	for _, e := range list {
		if err := Validate(field, s.Items, e); err != nil {
			return err
		}
	}
	return nil
}
