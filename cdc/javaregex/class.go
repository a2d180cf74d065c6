package javaregex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// class writes a character class. Unions and intersections, which .NET does
// not have, are refused.
func (t *translator) class() error {
	t.out.WriteByte('[')
	if t.at < len(t.in) && t.in[t.at] == '^' {
		t.at++
		t.out.WriteByte('^')
	}
	for first := true; ; first = false {
		if t.at == len(t.in) {
			return errors.New("unclosed character class")
		}
		c := t.in[t.at]
		t.at++
		switch {
		case c == ']' && !first:
			t.out.WriteByte(']')
			return nil
		case c == ']':
			t.out.WriteString(`\]`)
		case c == '[':
			return errors.New("a character class inside another is not supported")
		case c == '&' && t.at < len(t.in) && t.in[t.at] == '&':
			return errors.New("an intersection of character classes is not supported")
		case c == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			t.out.WriteRune(c)
		}
	}
}

// escape writes what a backslash begins.
func (t *translator) escape(inClass bool) error {
	if t.at == len(t.in) {
		return errors.New("pattern ends in a backslash")
	}
	c := t.in[t.at]
	t.at++
	if !inClass {
		t.last = t.out.Len()
	}
	set := func(members string, negated bool) error {
		switch {
		case negated && inClass:
			return fmt.Errorf(`\%c in a character class is not supported`, c)
		case inClass:
			t.out.WriteString(members)
		case negated:
			t.out.WriteString("[^" + members + "]")
		default:
			t.out.WriteString("[" + members + "]")
		}
		return nil
	}
	switch c {
	case 'd', 'D':
		return set(digits, c == 'D')
	case 'w', 'W':
		return set(words, c == 'W')
	case 's', 'S':
		return set(spaces, c == 'S')
	case 'h', 'H':
		return set(` \t\u00A0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000`, c == 'H')
	case 'v', 'V':
		return set(`\v\f`+lines, c == 'V')
	case 'Q':
		return t.quote()
	case 'p', 'P':
		return t.property(c == 'P', set)
	case 'k':
		return t.namedReference()
	case 'b', 'B', 'A', 'z', 'Z', 'G':
		if inClass {
			return fmt.Errorf(`\%c in a character class`, c)
		}
		t.out.WriteString(`\` + string(c))
	case 't', 'n', 'r', 'f', 'a', 'e', 'x', 'u':
		t.out.WriteString(`\` + string(c))
	default:
		return t.otherEscape(c, inClass)
	}
	return nil
}

func (t *translator) otherEscape(c rune, inClass bool) error {
	switch {
	case c >= '1' && c <= '9' && !inClass:
		n := int(c - '0')
		for t.at < len(t.in) && t.in[t.at] >= '0' && t.in[t.at] <= '9' && n*10+int(t.in[t.at]-'0') <= t.groups {
			n = n*10 + int(t.in[t.at]-'0')
			t.at++
		}
		if n > t.groups {
			return fmt.Errorf(`reference to group %d, which does not come before`, n)
		}
		t.out.WriteString(`\k<g` + strconv.Itoa(n) + `>`)
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		return fmt.Errorf(`\%c is not supported`, c)
	default:
		t.out.WriteString(`\` + string(c))
	}
	return nil
}

// quote writes what stands between \Q and \E, letter by letter.
func (t *translator) quote() error {
	text, _, closed := strings.Cut(string(t.in[t.at:]), `\E`)
	t.at += len([]rune(text))
	if closed {
		t.at += 2
	}
	for _, r := range text {
		t.last = t.out.Len()
		if strings.ContainsRune(`\*+?|{}[]()^$.# -&`, r) {
			t.out.WriteByte('\\')
		}
		t.out.WriteRune(r)
	}
	return nil
}

// property writes \p{…}: the ASCII classes of Java, categories and scripts.
func (t *translator) property(negated bool, set func(string, bool) error) error {
	name := ""
	if t.at < len(t.in) && t.in[t.at] != '{' {
		name = string(t.in[t.at])
		t.at++
	} else {
		inner, _, closed := strings.Cut(string(t.in[t.at:]), "}")
		if !closed || len(inner) < 2 {
			return errors.New("unclosed character family")
		}
		name = inner[1:]
		t.at += len([]rune(inner)) + 1
	}
	if members, ok := posix[name]; ok {
		return set(members, negated)
	}
	name = strings.TrimPrefix(name, "Is")
	if len(name) > 2 {
		return fmt.Errorf("character family %q is not supported", name)
	}
	kind := "p"
	if negated {
		kind = "P"
	}
	t.out.WriteString(`\` + kind + "{" + name + "}")
	return nil
}

func (t *translator) namedReference() error {
	rest := string(t.in[t.at:])
	name, _, closed := strings.Cut(strings.TrimPrefix(rest, "<"), ">")
	if !strings.HasPrefix(rest, "<") || !closed || t.names[name] == 0 {
		return fmt.Errorf("reference to group %q, which does not come before", name)
	}
	t.at += len([]rune(name)) + 2
	t.out.WriteString(`\k<g` + strconv.Itoa(t.names[name]) + `>`)
	return nil
}
