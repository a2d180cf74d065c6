package javaregex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// translator writes a Java pattern in the dialect of regexp2, which is .NET's.
// They share look-around, lazy quantifiers, atomic groups and back references.
// What differs: .NET numbers named groups last, so all groups get names of
// their own; it has no possessive quantifiers and no \Q…\E; its \d, \w, \s and
// its dot are wider.
type translator struct {
	in     []rune
	at     int
	out    strings.Builder
	names  map[string]int // of groups
	groups int
	last   int  // where the last atom begins in out
	dotAll bool // the flag s occurs
	free   bool // the flag x occurs
	open   []int
}

const (
	digits = "0-9"
	words  = "a-zA-Z0-9_"
	spaces = `\t\n\v\f\r `
	lines  = `\n\r\u0085\u2028\u2029`
)

var posix = map[string]string{
	"Lower": "a-z", "Upper": "A-Z", "ASCII": `\x00-\x7F`, "Alpha": "a-zA-Z", "Digit": digits, "Alnum": "a-zA-Z0-9",
	"Punct": `!-/:-@\[-` + "`{-~", "Graph": "!-~", "Print": " -~", "Blank": ` \t`, "Cntrl": `\x00-\x1F\x7F`,
	"XDigit": "0-9a-fA-F", "Space": spaces,
}

func (t *translator) run() error {
	for t.at < len(t.in) {
		if err := t.step(); err != nil {
			return err
		}
	}
	if len(t.open) > 0 {
		return errors.New("unclosed group")
	}
	return nil
}

func (t *translator) step() error {
	c := t.in[t.at]
	t.at++
	switch c {
	case '\\':
		return t.escape(false)
	case '[':
		t.last = t.out.Len()
		return t.class()
	case '(':
		return t.group()
	case ')':
		if len(t.open) == 0 {
			return errors.New("unmatched closing )")
		}
		t.last = t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.out.WriteByte(')')
	case '.':
		t.last = t.out.Len()
		if t.dotAll {
			t.out.WriteByte('.')
		} else {
			t.out.WriteString("[^" + lines + "]")
		}
	case '*', '+', '?':
		return t.quantifier(string(c))
	case '{':
		end := strings.IndexRune(string(t.in[t.at:]), '}')
		if end < 0 {
			return errors.New("unclosed counted closure")
		}
		count := string(t.in[t.at-1 : t.at+end+1])
		t.at += end + 1
		return t.quantifier(count)
	case '#':
		if t.free {
			return errors.New("comments in a pattern are not supported")
		}
		t.literal(c)
	default:
		t.literal(c)
	}
	return nil
}

func (t *translator) literal(c rune) {
	t.last = t.out.Len()
	t.out.WriteRune(c)
}

// quantifier writes one. A possessive one becomes an atomic group.
func (t *translator) quantifier(q string) error {
	if t.at < len(t.in) && t.in[t.at] == '+' {
		t.at++
		all := t.out.String()
		t.out.Reset()
		t.out.WriteString(all[:t.last] + "(?>" + all[t.last:] + q + ")")
		return nil
	}
	t.out.WriteString(q)
	if t.at < len(t.in) && t.in[t.at] == '?' {
		t.at++
		t.out.WriteByte('?')
	}
	return nil
}

// group writes the opening of a group.
func (t *translator) group() error {
	start := t.out.Len()
	t.open = append(t.open, start)
	if t.at == len(t.in) || t.in[t.at] != '?' {
		t.groups++
		t.out.WriteString("(?<g" + strconv.Itoa(t.groups) + ">")
		return nil
	}
	rest := string(t.in[t.at:])
	switch {
	case strings.HasPrefix(rest, "?<") && !strings.HasPrefix(rest, "?<=") && !strings.HasPrefix(rest, "?<!"):
		name, _, closed := strings.Cut(rest[2:], ">")
		if !closed || name == "" || t.names[name] != 0 {
			return fmt.Errorf("group name %q", name)
		}
		t.groups++
		t.names[name] = t.groups
		t.at += 3 + len([]rune(name))
		t.out.WriteString("(?<g" + strconv.Itoa(t.groups) + ">")
		return nil
	}
	for _, opening := range []string{"?:", "?=", "?!", "?>", "?<=", "?<!"} {
		if strings.HasPrefix(rest, opening) {
			t.at += len(opening)
			t.out.WriteString("(" + opening)
			return nil
		}
	}
	return t.flags(start)
}

// flags writes (?i) or (?i: .
func (t *translator) flags(start int) error {
	end := t.at + 1
	for end < len(t.in) && t.in[end] != ')' && t.in[end] != ':' {
		switch t.in[end] {
		case 'i', 'm', '-':
		case 's':
			t.dotAll = true
		case 'x':
			t.free = true
		default:
			return fmt.Errorf("flag %q is not supported", string(t.in[end]))
		}
		end++
	}
	if end == len(t.in) {
		return errors.New("unclosed group")
	}
	t.out.WriteString("(" + string(t.in[t.at:end+1]))
	if t.in[end] == ')' {
		t.open = t.open[:len(t.open)-1]
		t.last = start
	}
	t.at = end + 1
	return nil
}
