package debezium

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf16"

	"chorus/cdc/connect"
)

// hstore makes JSON of an hstore (hstore.handling.mode=json), with the pairs in
// the order of Java's HashMap.
func hstore(b []byte) (any, error) {
	pairs, err := hstorePairs(string(b))
	if err != nil {
		return nil, err
	}
	buckets := 16
	for len(pairs)*4 > buckets*3 {
		buckets *= 2
	}
	slices.SortStableFunc(pairs, func(x, y hstorePair) int { return x.bucket(buckets) - y.bucket(buckets) })
	out := []byte{'{'}
	for i, p := range pairs {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(plainString(out, p.key), ':')
		if p.value == nil {
			out = append(out, "null"...)
		} else {
			out = plainString(out, *p.value)
		}
	}
	return string(append(out, '}')), nil
}

// plainString is a JSON string that Jackson writes as characters: those beyond
// the basic plane stay as they are.
func plainString(b []byte, s string) []byte {
	start := 0
	b = append(b, '"')
	for i, r := range s {
		if r > 0xffff {
			q := connect.AppendString(nil, s[start:i])
			b = append(append(b, q[1:len(q)-1]...), string(r)...)
			start = i + len(string(r))
		}
	}
	q := connect.AppendString(nil, s[start:])
	return append(b, q[1:]...)
}

type hstorePair struct {
	key   string
	value *string // nil is NULL
}

// bucket is where Java's HashMap of a size has a key.
func (p hstorePair) bucket(of int) int {
	var h uint32
	for _, u := range utf16.Encode([]rune(p.key)) {
		h = 31*h + uint32(u)
	}
	return int((h ^ h>>16) & uint32(of-1))
}

// hstorePairs reads "a"=>"1", "b"=>NULL.
func hstorePairs(text string) ([]hstorePair, error) {
	var pairs []hstorePair
	malformed := errors.New("malformed hstore")
	quoted := func() (string, bool) {
		var s strings.Builder
		if text == "" || text[0] != '"' {
			return "", false
		}
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == '\\' && i+1 < len(text):
				i++
				s.WriteByte(text[i])
			case text[i] == '"':
				text = text[i+1:]
				return s.String(), true
			default:
				s.WriteByte(text[i])
			}
		}
		return "", false
	}
	for text != "" {
		key, ok := quoted()
		if ok {
			text, ok = strings.CutPrefix(text, "=>")
		}
		if !ok {
			return nil, malformed
		}
		p := hstorePair{key: key}
		if rest, null := strings.CutPrefix(text, "NULL"); null {
			text = rest
		} else {
			v, ok := quoted()
			if !ok {
				return nil, malformed
			}
			p.value = &v
		}
		pairs = append(pairs, p)
		text = strings.TrimPrefix(text, ", ")
	}
	return pairs, nil
}
