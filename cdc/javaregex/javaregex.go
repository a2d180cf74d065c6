// Package javaregex matches and replaces by regular expressions as Java's
// java.util.regex does, look-around, back references and possessive quantifiers
// included. A pattern that it cannot translate is refused when it is compiled,
// with the reason; none is matched in another way than in Java knowingly.
//
// Matching ends with an error when it takes longer than Limit: a pattern that
// backtracks without end would otherwise stop the stream without a word.
package javaregex

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// Limit is how long one match may take.
const Limit = time.Second

// Regex is a compiled pattern. It is safe for use by several goroutines.
type Regex struct {
	whole  *regexp2.Regexp // matches from end to end
	within *regexp2.Regexp
	names  map[string]int
	groups int
}

// Compile translates a Java pattern.
func Compile(pattern string) (*Regex, error) { return compile(pattern, regexp2.None) }

// CompileFold is Compile for a pattern without regard to case.
func CompileFold(pattern string) (*Regex, error) { return compile(pattern, regexp2.IgnoreCase) }

func compile(pattern string, options regexp2.RegexOptions) (*Regex, error) {
	t := &translator{in: []rune(pattern), names: map[string]int{}}
	if err := t.run(); err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	within, err := regexp2.Compile(t.out.String(), options)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	whole, err := regexp2.Compile(`\A(?:`+t.out.String()+`)\z`, options)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	within.MatchTimeout, whole.MatchTimeout = Limit, Limit
	return &Regex{whole: whole, within: within, names: t.names, groups: t.groups}, nil
}

// Matches tells whether the whole text matches (Matcher.matches).
func (r *Regex) Matches(text string) (bool, error) { return r.whole.MatchString(text) }

// Replacement is a replacement text of Matcher.replaceFirst, read for a Regex.
type Replacement []part

type part struct {
	text  string
	group int // 0 and no text: the whole match; -1: the text
}

// Replacement reads ${name}, $1 and \x. As in Java a number takes as many
// digits as make a group that exists.
func (r *Regex) Replacement(text string) (Replacement, error) {
	var parts Replacement
	literal := func(c rune) {
		if n := len(parts); n > 0 && parts[n-1].group < 0 {
			parts[n-1].text += string(c)
			return
		}
		parts = append(parts, part{text: string(c), group: -1})
	}
	in := []rune(text)
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case c == '\\' && i+1 == len(in):
			return nil, fmt.Errorf("replacement %q ends in a backslash", text)
		case c == '\\':
			i++
			literal(in[i])
		case c != '$':
			literal(c)
		default:
			group, n, err := r.reference(string(in[i+1:]))
			if err != nil {
				return nil, fmt.Errorf("replacement %q: %w", text, err)
			}
			parts = append(parts, part{group: group})
			i += n
		}
	}
	return parts, nil
}

// reference reads what follows a dollar, and how many characters that is.
func (r *Regex) reference(rest string) (group, length int, err error) {
	if strings.HasPrefix(rest, "{") {
		name, _, closed := strings.Cut(rest[1:], "}")
		n, ok := r.names[name]
		if !closed || !ok {
			return 0, 0, fmt.Errorf("no group with name {%s}", name)
		}
		return n, len([]rune(name)) + 2, nil
	}
	if rest == "" || rest[0] < '0' || rest[0] > '9' {
		return 0, 0, fmt.Errorf("no group after a dollar")
	}
	n := int(rest[0] - '0')
	if n > r.groups {
		return 0, 0, fmt.Errorf("no group %d", n)
	}
	length = 1
	for length < len(rest) && rest[length] >= '0' && rest[length] <= '9' {
		more := n*10 + int(rest[length]-'0')
		if more > r.groups {
			break
		}
		n, length = more, length+1
	}
	return n, length, nil
}

// ReplaceFirst replaces the first match within the text.
func (r *Regex) ReplaceFirst(text string, by Replacement) (string, error) {
	m, err := r.within.FindStringMatch(text)
	if err != nil || m == nil {
		return text, err
	}
	in := []rune(text)
	var b strings.Builder
	b.WriteString(string(in[:m.Index]))
	for _, p := range by {
		switch {
		case p.group < 0:
			b.WriteString(p.text)
		case p.group == 0:
			b.WriteString(m.String())
		default:
			if g := m.GroupByName("g" + strconv.Itoa(p.group)); g != nil {
				b.WriteString(g.String())
			}
		}
	}
	b.WriteString(string(in[m.Index+m.Length:]))
	return b.String(), nil
}
