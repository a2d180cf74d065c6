package connect

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Text is a value's toString, which is what StringConverter writes.
func Text(v any) string { return string(appendText(nil, v)) }

func appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return append(b, v...)
	case []byte:
		return fmt.Appendf(b, "java.nio.HeapByteBuffer[pos=0 lim=%d cap=%[1]d]", len(v))
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendText(b, e)
		}
		return append(b, ']')
	case *Struct:
		b = append(b, "Struct{"...)
		first := true
		for i, f := range v.Schema.Fields {
			if v.Values[i] == nil {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(b, f.Name...), '=')
			b = appendText(b, v.Values[i])
		}
		return append(b, '}')
	}
	return appendScalar(b, v)
}

// appendScalar prints numbers and booleans, the same for all text converters.
func appendScalar(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int16:
		return strconv.AppendInt(b, int64(v), 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float32:
		return AppendFloat(b, v)
	case float64:
		return AppendDouble(b, v)
	case Decimal:
		return append(b, v.String()...)
	}
	return fmt.Append(b, v)
}

var simpleEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// appendSimple is the text of a value as SimpleHeaderConverter writes it; in a
// list or a struct, strings are quoted.
func appendSimple(b []byte, v any, embedded bool) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		if !embedded {
			return append(b, v...)
		}
		return append(append(append(b, '"'), simpleEscapes.Replace(v)...), '"')
	case []byte:
		if embedded {
			return appendBase64(b, v)
		}
		return base64.StdEncoding.AppendEncode(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSimple(b, e, true)
		}
		return append(b, ']')
	case *Struct:
		b = append(b, '{')
		for i, f := range v.Schema.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSimple(b, f.Name, true)
			b = append(b, ':')
			b = appendSimple(b, v.Get(i), true)
		}
		return append(b, '}')
	}
	return appendScalar(b, v)
}
