package provider

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Fault is something wrong with a providers file, and where.
type Fault struct {
	File         string
	Line, Column int
	What         string
}

func (f Fault) Error() string { return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.What) }

// Faults is every fault of a file, in the order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// reader walks a file's syntax tree. It goes on after a fault, so that all of them are reported together.
type reader struct {
	file   string
	env    func(name string) (string, bool)
	faults Faults
}

// node is a value in the file. The zero node is one that is not there.
type node struct{ ast.Node }

func (n node) there() bool { return n.Node != nil && n.Type() != ast.NullType }

func (r *reader) fault(at node, format string, args ...any) {
	f := Fault{File: r.file, Line: 1, Column: 1, What: fmt.Sprintf(format, args...)}
	if at.Node != nil {
		if t := at.GetToken(); t != nil && t.Position != nil {
			f.Line, f.Column = t.Position.Line, t.Position.Column
		}
	}
	r.faults = append(r.faults, f)
}

// err is all faults so far, sorted.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(r.faults)
}

// root is the file's one document.
func (r *reader) root(text []byte) node {
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return node{}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		r.fault(node{}, "want one YAML document, found %d", len(file.Docs))
		return node{}
	}
	return node{file.Docs[0].Body}
}

// syntax reports an error of the YAML itself. Its message says "[line:column] what" and shows the place below.
func (r *reader) syntax(err error) {
	f := Fault{File: r.file, Line: 1, Column: 1, What: strings.SplitN(err.Error(), "\n", 2)[0]}
	if place, what, ok := strings.Cut(strings.TrimPrefix(f.What, "["), "] "); ok {
		if line, column, ok := strings.Cut(place, ":"); ok {
			l, err1 := strconv.Atoi(line)
			c, err2 := strconv.Atoi(column)
			if err1 == nil && err2 == nil {
				f.Line, f.Column, f.What = l, c, what
			}
		}
	}
	r.faults = append(r.faults, f)
}

// pair is an entry of a mapping.
type pair struct {
	key   string
	at    node // the key
	value node
}

// pairs are the entries of a mapping, each key once.
func (r *reader) pairs(n node) []pair {
	var entries []*ast.MappingValueNode
	switch m := n.Node.(type) {
	case *ast.MappingNode:
		entries = m.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{m}
	default:
		if n.there() {
			r.fault(n, "want a mapping of names to values")
		}
		return nil
	}
	var all []pair
	seen := map[string]bool{}
	for _, e := range entries {
		at := node{e.Key}
		key := r.key(at)
		if seen[key] {
			r.fault(at, "key %q is there twice", key)
			continue
		}
		seen[key] = true
		all = append(all, pair{key, at, node{e.Value}})
	}
	return all
}

func (r *reader) key(n node) string {
	if s, ok := n.Node.(*ast.StringNode); ok {
		return s.Value
	}
	return n.String()
}

// fields reads a mapping whose keys are all known.
func (r *reader) fields(n node, known map[string]func(node)) {
	for _, p := range r.pairs(n) {
		read := known[p.key]
		if read == nil {
			r.fault(p.at, "unknown key %q: want one of %s", p.key, strings.Join(sortedKeys(known), ", "))
			continue
		}
		if !p.value.there() {
			r.fault(p.at, "key %q has no value", p.key)
			continue
		}
		read(p.value)
	}
}

// items are the elements of a list.
func (r *reader) items(n node) []node {
	list, ok := n.Node.(*ast.SequenceNode)
	if !ok {
		r.fault(n, "want a list")
		return nil
	}
	all := make([]node, len(list.Values))
	for i, v := range list.Values {
		all[i] = node{v}
	}
	return all
}

// text is a scalar as it stands: 50 and "50" are the same text.
func (r *reader) text(n node) string {
	switch s := n.Node.(type) {
	case *ast.StringNode:
		return s.Value
	case *ast.LiteralNode:
		return s.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	}
	r.fault(n, "want a text or a number")
	return ""
}

func (r *reader) texts(n node) []string {
	if _, ok := n.Node.(*ast.SequenceNode); !ok {
		return []string{r.text(n)}
	}
	var all []string
	for _, item := range r.items(n) {
		all = append(all, r.text(item))
	}
	return all
}

func (r *reader) whole(n node, least, most int) int {
	i, err := strconv.Atoi(r.text(n))
	if err != nil || i < least || i > most {
		r.fault(n, "want a whole number from %d to %d", least, most)
		return least
	}
	return i
}

func (r *reader) duration(n node, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(r.text(n))
	if err != nil || d < least || d > most {
		r.fault(n, "want a duration from %s to %s, such as 5s", least, most)
		return least
	}
	return d
}

func (r *reader) oneOf(n node, known ...string) string {
	s := strings.ToLower(r.text(n))
	if !slices.Contains(known, s) {
		r.fault(n, "unknown %q: want one of %s", s, strings.Join(known, ", "))
		return known[0]
	}
	return s
}

// referring reads a text in which ${env:NAME} and ${file:PATH} stand for what is there. secret reports whether any did: such a
// text is never recorded.
func (r *reader) referring(n node) (text string, secret bool) {
	left := r.text(n)
	var b strings.Builder
	for {
		before, after, found := strings.Cut(left, "${")
		b.WriteString(before)
		if !found {
			return b.String(), secret
		}
		reference, rest, closed := strings.Cut(after, "}")
		if !closed {
			r.fault(n, "${ without }")
			return "", true
		}
		b.WriteString(r.resolve(n, reference))
		left, secret = rest, true
	}
}

func (r *reader) resolve(n node, reference string) string {
	kind, name, _ := strings.Cut(reference, ":")
	switch kind {
	case "env":
		value, ok := r.env(name)
		if !ok || value == "" {
			r.fault(n, "the environment has no %s", name)
		}
		return value
	case "file":
		raw, err := os.ReadFile(name)
		if err != nil {
			r.fault(n, "read a secret: %v", err)
		}
		return strings.TrimSpace(string(raw))
	}
	r.fault(n, "unknown reference %q: want env:NAME or file:PATH", kind)
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
