package debezium

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// node is a JSON value as Jackson reads it: the order of fields is kept, of a
// repeated name the last value counts, in the place of the first.
type node struct {
	kind   nodeKind
	text   string  // of a string
	truth  bool    // of a boolean
	number any     // int32, int64, *big.Int or float64
	items  []*node // of an array
	names  []string
	fields map[string]*node // of an object
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	booleanNode
	numberNode
	stringNode
	arrayNode
	objectNode
)

// Jackson's limits.
const (
	maxDepth  = 1000
	maxNumber = 1000 // characters
)

// parse reads the first value of a text; what follows it is of no interest.
func parse(text string) (*node, error) {
	p := parser{text: text}
	return p.value(0)
}

type parser struct {
	text string
	at   int
}

func (p *parser) fail(what string) error {
	return fmt.Errorf("JSON: %s at byte %d", what, p.at)
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// next is the next byte that is no blank; 0 at the end.
func (p *parser) next() byte {
	p.blanks()
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) value(depth int) (*node, error) {
	c := p.next()
	switch {
	case depth > maxDepth:
		return nil, p.fail("nested too deep")
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.quoted()
		return &node{kind: stringNode, text: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return p.numeral()
	}
	for word, n := range map[string]node{"true": {kind: booleanNode, truth: true}, "false": {kind: booleanNode}, "null": {}} {
		if strings.HasPrefix(p.text[p.at:], word) {
			p.at += len(word)
			return &n, nil
		}
	}
	return nil, p.fail("no value")
}

func (p *parser) object(depth int) (*node, error) {
	p.at++
	n := &node{kind: objectNode, fields: map[string]*node{}}
	if p.next() == '}' {
		p.at++
		return n, nil
	}
	for {
		if p.next() != '"' {
			return nil, p.fail("no field name")
		}
		name, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, p.fail("no colon")
		}
		p.at++
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if _, repeated := n.fields[name]; !repeated {
			n.names = append(n.names, name)
		}
		n.fields[name] = v
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			return n, nil
		default:
			return nil, p.fail("object does not go on")
		}
	}
}

func (p *parser) array(depth int) (*node, error) {
	p.at++
	n := &node{kind: arrayNode}
	if p.next() == ']' {
		p.at++
		return n, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, v)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return n, nil
		default:
			return nil, p.fail("array does not go on")
		}
	}
}

func (p *parser) quoted() (string, error) {
	p.at++
	if i := strings.IndexAny(p.text[p.at:], "\"\\"); i >= 0 && p.text[p.at+i] == '"' {
		s := p.text[p.at : p.at+i]
		if strings.IndexFunc(s, func(r rune) bool { return r < ' ' }) < 0 {
			p.at += i + 1
			return s, nil
		}
	}
	var b []byte
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			return "", p.fail("control character in a string")
		case c != '\\':
			b = append(b, c)
		default:
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		}
	}
	return "", p.fail("string without end")
}

func (p *parser) escape() (rune, error) {
	if p.at == len(p.text) {
		return 0, p.fail("escape without end")
	}
	c := p.text[p.at]
	p.at++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, p.fail("unknown escape")
	}
	r, err := p.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !strings.HasPrefix(p.text[p.at:], `\u`) {
		return 0, p.fail("half a surrogate pair")
	}
	p.at += 2
	low, err := p.unit()
	if r = utf16.DecodeRune(r, low); err == nil && r == utf8.RuneError {
		err = p.fail("half a surrogate pair")
	}
	return r, err
}

func (p *parser) unit() (rune, error) {
	if len(p.text)-p.at < 4 {
		return 0, p.fail("escape without end")
	}
	u, err := strconv.ParseUint(p.text[p.at:p.at+4], 16, 16)
	if err != nil {
		return 0, p.fail("escape without digits")
	}
	p.at += 4
	return rune(u), nil
}

// numeral reads a number: int32 or int64 when it fits, a larger integer as it
// is, everything else as a double.
func (p *parser) numeral() (*node, error) {
	start := p.at
	if p.text[p.at] == '-' {
		p.at++
	}
	whole := p.digits()
	first := strings.TrimPrefix(p.text[start:p.at], "-")
	if whole == 0 || whole > 1 && first[0] == '0' {
		return nil, p.fail("malformed number")
	}
	integer := true
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		integer = false
		if p.digits() == 0 {
			return nil, p.fail("malformed number")
		}
	}
	if p.at < len(p.text) && (p.text[p.at] == 'e' || p.text[p.at] == 'E') {
		p.at++
		integer = false
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return nil, p.fail("malformed number")
		}
	}
	text := p.text[start:p.at]
	if len(text) > maxNumber {
		return nil, p.fail("number too long")
	}
	return &node{kind: numberNode, number: number(text, integer)}, nil
}

func (p *parser) digits() int {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at - start
}

func number(text string, integer bool) any {
	if !integer {
		f, _ := strconv.ParseFloat(text, 64) // beyond the range it gives infinity, as Java does
		return f
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		b, _ := new(big.Int).SetString(text, 10)
		return b
	case n == int64(int32(n)):
		return int32(n)
	}
	return n
}
