package connect

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// JSON is the schema as JsonConverter writes it.
func (s *Schema) JSON() []byte {
	if s == nil {
		return []byte("null")
	}
	if s.json == nil {
		s.json = append(s.body(nil), '}')
	}
	return s.json
}

// body is the schema's JSON without the closing brace: a field adds its name.
func (s *Schema) body(b []byte) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, s.Type.json()...)
	b = append(b, '"')
	switch s.Type {
	case Array:
		b = append(b, `,"items":`...)
		b = append(b, s.Items.JSON()...)
	case StructType:
		b = append(b, `,"fields":[`...)
		for i, f := range s.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(f.Schema.body(b), `,"field":`...)
			b = append(AppendString(b, f.Name), '}')
		}
		b = append(b, ']')
	}
	b = append(b, `,"optional":`...)
	b = strconv.AppendBool(b, s.Optional)
	if s.Name != "" {
		b = AppendString(append(b, `,"name":`...), s.Name)
	}
	if s.Version != 0 || s.HasVersion {
		b = strconv.AppendInt(append(b, `,"version":`...), int64(s.Version), 10)
	}
	if s.Doc != "" {
		b = AppendString(append(b, `,"doc":`...), s.Doc)
	}
	if len(s.Parameters) > 0 {
		b = append(b, `,"parameters":{`...)
		for i, p := range s.Parameters {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, p.Key), ':')
			b = AppendString(b, p.Value)
		}
		b = append(b, '}')
	}
	if s.Default != nil {
		b = append(b, `,"default":`...)
		b, _ = appendJSON(b, s, s.Default, false) // a default was made by its schema
	}
	return b
}

var errNullRequired = errors.New("null value for a field that is required and has no default value")

// appendJSON appends a value. With plain, decimals are numbers instead of the
// base64 of their bytes.
func appendJSON(b []byte, s *Schema, v any, plain bool) ([]byte, error) {
	if v == nil {
		switch {
		case s == nil || s.Default == nil && s.Optional:
			return append(b, "null"...), nil
		case s.Default != nil:
			v = s.Default
		default:
			return b, errNullRequired
		}
	}
	if s != nil && !fits(s.Type, v) {
		return b, fmt.Errorf("invalid type for %s: %T", s.Type, v)
	}
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v), nil
	case int16:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float32:
		return appendNumber(b, float64(v), 32), nil
	case float64:
		return appendNumber(b, v, 64), nil
	case string:
		return AppendString(b, v), nil
	case []byte:
		return appendBase64(b, v), nil
	case Decimal:
		if plain {
			return append(b, v.String()...), nil
		}
		return appendBase64(b, v.TwosComplement()), nil
	case []any:
		return appendList(b, s, v, plain)
	case *Struct:
		return appendStruct(b, v, plain)
	}
	return b, fmt.Errorf("no JSON of a value of type %T", v)
}

// fits tells whether a value is of a type, as far as JsonConverter looks.
func fits(t Type, v any) bool {
	ok := false
	switch t {
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
		switch v.(type) {
		case []byte, Decimal:
			ok = true
		}
	case Array:
		_, ok = v.([]any)
	case StructType:
		_, ok = v.(*Struct)
	}
	return ok
}

func appendList(b []byte, s *Schema, list []any, plain bool) (_ []byte, err error) {
	var items *Schema
	if s != nil {
		items = s.Items
	}
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, items, e, plain); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendStruct(b []byte, st *Struct, plain bool) (_ []byte, err error) {
	b = append(b, '{')
	for i, f := range st.Schema.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, f.Name), ':')
		if b, err = appendJSON(b, f.Schema, st.Get(i), plain); err != nil {
			return b, fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return append(b, '}'), nil
}

// appendNumber puts what is no JSON number in quotes, as Jackson does.
func appendNumber(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(appendFloat(append(b, '"'), f, bits), '"')
	}
	return appendFloat(b, f, bits)
}

func appendBase64(b, data []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

const hexDigits = "0123456789ABCDEF"

// AppendString appends a JSON string as Jackson writes it in UTF-8.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r > 0xffff {
				b = append(b, s[start:i]...)
				b = appendUnit(b, 0xd800+uint16((r-0x10000)>>10))
				b = appendUnit(b, 0xdc00+uint16((r-0x10000)&0x3ff))
				start = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\t':
			b = append(b, `\t`...)
		case '\n':
			b = append(b, `\n`...)
		case '\f':
			b = append(b, `\f`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			b = appendUnit(b, uint16(c))
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// appendUnit escapes one unit of UTF-16.
func appendUnit(b []byte, u uint16) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
