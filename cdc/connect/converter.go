package connect

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Converter makes bytes of a value. Nil bytes are a Kafka null, empty ones are
// not. What names the topic or the header in errors.
type Converter interface {
	Convert(what string, s *Schema, v any) ([]byte, error)
}

// StringConverter is org.apache.kafka.connect.storage.StringConverter.
type StringConverter struct{}

func (StringConverter) Convert(_ string, _ *Schema, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return bytesOf(v), nil
	}
	return appendText(nil, v), nil
}

// bytesOf copies: an empty text is not a null.
func bytesOf(s string) []byte { return append(make([]byte, 0, len(s)), s...) }

// SimpleHeaderConverter is org.apache.kafka.connect.storage.SimpleHeaderConverter.
type SimpleHeaderConverter struct{}

func (SimpleHeaderConverter) Convert(_ string, _ *Schema, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return bytesOf(v), nil
	}
	return appendSimple(make([]byte, 0, 16), v, false), nil
}

// JSONConverter is org.apache.kafka.connect.json.JsonConverter.
type JSONConverter struct {
	Schemas bool // schemas.enable
	Numeric bool // decimal.format=NUMERIC
}

func (c JSONConverter) Convert(_ string, s *Schema, v any) ([]byte, error) {
	if s == nil && v == nil {
		return nil, nil
	}
	if !c.Schemas {
		return appendJSON(nil, s, v, c.Numeric)
	}
	b := append([]byte(`{"schema":`), s.JSON()...)
	b, err := appendJSON(append(b, `,"payload":`...), s, v, c.Numeric)
	return append(b, '}'), err
}

// ByteArrayConverter is org.apache.kafka.connect.converters.ByteArrayConverter.
type ByteArrayConverter struct{}

func (ByteArrayConverter) Convert(what string, s *Schema, v any) ([]byte, error) {
	if s != nil && s.Type != Bytes {
		return nil, fmt.Errorf("%s is a %s, and ByteArrayConverter takes bytes alone", what, s.Type)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return append(make([]byte, 0, len(v)), v...), nil
	}
	return nil, fmt.Errorf("%s is of type %T, and ByteArrayConverter takes bytes alone", what, v)
}

// BinaryDataConverter is io.debezium.converters.BinaryDataConverter.
type BinaryDataConverter struct {
	Delegate Converter // for what is not bytes; nil for none
}

func (c BinaryDataConverter) Convert(what string, s *Schema, v any) ([]byte, error) {
	if s == nil || s.Type == Bytes {
		switch v := v.(type) {
		case nil:
			return nil, nil
		case []byte:
			return append(make([]byte, 0, len(v)), v...), nil
		}
	}
	if c.Delegate == nil {
		return nil, fmt.Errorf("%s is not bytes, and the converter has no delegate.converter.type", what)
	}
	return c.Delegate.Convert(what, s, v)
}

// NumberConverter is one of Connect's converters for one type of number or for
// booleans, which write its bytes, the highest first.
type NumberConverter struct{ Of Type }

func (c NumberConverter) Convert(what string, s *Schema, v any) ([]byte, error) {
	if s != nil && s.Type != c.Of {
		return nil, fmt.Errorf("%s is a %s, and its converter takes %s alone", what, s.Type, c.Of)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		if v {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case int16:
		return binary.BigEndian.AppendUint16(nil, uint16(v)), nil
	case int32:
		return binary.BigEndian.AppendUint32(nil, uint32(v)), nil
	case int64:
		return binary.BigEndian.AppendUint64(nil, uint64(v)), nil
	case float32:
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)), nil
	}
	return nil, fmt.Errorf("%s is of type %T, and its converter takes %s alone", what, v, c.Of)
}
