package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"chorus/internal/codec/avsc"
)

// instantForm is how instants are written in JSON and in the occurredAt header.
const instantForm = "2006-01-02T15:04:05.000000Z"

// appendJSON writes a value in goavro's form as plain JSON, its fields in the schema's order. A union
// is its value or null, without Avro's wrapping: our unions are of null and one type.
func appendJSON(buf []byte, t *avsc.Type, v any) []byte {
	switch t.Kind {
	case avsc.Union:
		if v == nil {
			return append(buf, "null"...)
		}
		for _, b := range t.Branches {
			if inner, ok := v.(map[string]any)[b.Branch()]; ok {
				return appendJSON(buf, b, inner)
			}
		}
	case avsc.Record:
		buf = append(buf, '{')
		for i, f := range t.Fields {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = append(appendText(buf, f.Name), ':')
			buf = appendJSON(buf, f.Type, v.(map[string]any)[f.Name])
		}
		return append(buf, '}')
	case avsc.Array:
		buf = append(buf, '[')
		for i, item := range v.([]any) {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendJSON(buf, t.Items, item)
		}
		return append(buf, ']')
	}
	switch v := v.(type) {
	case int32:
		return strconv.AppendInt(buf, int64(v), 10)
	case int64:
		return strconv.AppendInt(buf, v, 10)
	case time.Time:
		return append(v.UTC().AppendFormat(append(buf, '"'), instantForm), '"')
	case string:
		return appendText(buf, v)
	}
	panic(fmt.Sprintf("codec: no JSON for %s (%T)", t.Branch(), v)) // toNative makes nothing else
}

// appendText writes a JSON string as it is, so that names stay readable in a terminal, with what must be
// escaped escaped. s is UTF-8.
func appendText(buf []byte, s string) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			buf = append(buf, '\\', b)
		case b < 0x20:
			buf = append(buf, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			buf = append(buf, b)
		}
	}
	return append(buf, '"')
}

// parseJSON reads a value into goavro's form. Unknown fields are dropped, as those of a newer version;
// a field that is not there takes its default; a field that is there twice is refused, because readers would differ
// in which one they take.
func parseJSON(t *avsc.Type, value []byte) (map[string]any, error) {
	if !utf8.Valid(value) {
		return nil, undecodable("", "is JSON, but not UTF-8")
	}
	p := jsonParser{json.NewDecoder(bytes.NewReader(value))}
	p.dec.UseNumber()
	v, err := p.parse(t, "")
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, undecodable("", "there is more after the JSON object")
	}
	return v.(map[string]any), nil
}

type jsonParser struct{ dec *json.Decoder }

// token returns the next token, or why there is none.
func (p jsonParser) token(path string) (json.Token, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, undecodable(path, fmt.Sprintf("is broken JSON: %v", err))
	}
	return tok, nil
}

func (p jsonParser) parse(t *avsc.Type, path string) (any, error) {
	tok, err := p.token(path)
	if err != nil {
		return nil, err
	}
	return p.value(t, tok, path)
}

// value reads the value that begins with tok.
func (p jsonParser) value(t *avsc.Type, tok json.Token, path string) (any, error) {
	switch t.Kind {
	case avsc.Union:
		return p.union(t, tok, path)
	case avsc.Record:
		if tok == json.Delim('{') {
			return p.record(t, path)
		}
	case avsc.Array:
		if tok == json.Delim('[') {
			return p.array(t, path)
		}
	case avsc.Int, avsc.Long:
		return number(t, tok, path)
	case avsc.String:
		if s, ok := tok.(string); ok {
			return s, nil
		}
	case avsc.Enum:
		if s, ok := tok.(string); ok {
			return symbol(t, s, path)
		}
	}
	return nil, undecodable(path, fmt.Sprintf("want %s, got %v", t.Branch(), quote(fmt.Append(nil, tok))))
}

func (p jsonParser) union(t *avsc.Type, tok json.Token, path string) (any, error) {
	for _, b := range t.Branches {
		if (b.Kind == avsc.Null) != (tok == nil) {
			continue
		}
		if tok == nil {
			return nil, nil
		}
		inner, err := p.value(b, tok, path)
		if err != nil {
			return nil, err
		}
		return map[string]any{b.Branch(): inner}, nil
	}
	return nil, undecodable(path, "is of no branch of its union")
}

func (p jsonParser) record(t *avsc.Type, path string) (any, error) {
	out := make(map[string]any, len(t.Fields))
	unknown := map[string]bool{}
	for p.dec.More() {
		key, err := p.token(path)
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		f, known := t.Field(name)
		if _, twice := out[name]; twice || unknown[name] {
			return nil, undecodable(join(path, quote([]byte(name))), "is there twice")
		}
		if !known {
			unknown[name] = true
			var skipped json.RawMessage
			if err := p.dec.Decode(&skipped); err != nil {
				return nil, undecodable(join(path, quote([]byte(name))), fmt.Sprintf("is broken JSON: %v", err))
			}
			continue
		}
		if out[name], err = p.parse(f.Type, join(path, name)); err != nil {
			return nil, err
		}
	}
	if _, err := p.token(path); err != nil {
		return nil, err
	}
	for _, f := range t.Fields {
		if _, given := out[f.Name]; given {
			continue
		}
		if !f.HasDefault {
			return nil, undecodable(join(path, f.Name), "is missing")
		}
		out[f.Name] = f.Default
	}
	return out, nil
}

func (p jsonParser) array(t *avsc.Type, path string) (any, error) {
	out := []any{}
	for p.dec.More() {
		v, err := p.parse(t.Items, fmt.Sprintf("%s[%d]", path, len(out)))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := p.token(path)
	return out, err
}

// number reads a whole number exactly, or an instant.
func number(t *avsc.Type, tok json.Token, path string) (any, error) {
	if t.Logical == avsc.TimestampMicros {
		s, ok := tok.(string)
		at, err := time.Parse(time.RFC3339Nano, s)
		if !ok || err != nil {
			return nil, undecodable(path, fmt.Sprintf("%s is no time in RFC 3339", quote(fmt.Append(nil, tok))))
		}
		return at.UTC(), nil
	}
	bits := 64
	if t.Kind == avsc.Int {
		bits = 32
	}
	n, ok := tok.(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, bits)
	switch {
	case !ok || err != nil:
		return nil, undecodable(path, fmt.Sprintf("%s is no whole number of %d bits in digits", quote(fmt.Append(nil, tok)), bits))
	case t.Kind == avsc.Int:
		return int32(i), nil
	}
	return i, nil
}
