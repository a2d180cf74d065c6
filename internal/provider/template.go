package provider

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/yosida95/uritemplate/v3"
)

// template is a request to a provider in which names stand in braces. In the URL it is RFC 6570, which escapes for the place
// where a value lands: {x} for a path segment or a query value, {+x} for text that is a URL already. In the body a text that
// is one name alone becomes the value with its type; a name within a text becomes its text, escaped by JSON.
type template struct {
	method string
	url    *uritemplate.Template
	body   any // the tree of a body; nil for the exchange's usual one
	values map[string]source
}

// placeholder is a text of a body's tree: literal, name, literal, name, ...
type placeholder []string

// names that are there without values: of every exchange, and of those that take back.
var (
	always  = []string{"base", "key", "order"}
	undoing = []string{"reason"}
)

// readTemplate reads {method, url, body, values} and whatever more holds. builtin are the names that need no value; of are the
// documents that values may come from.
func (r *reader) readTemplate(n node, method string, builtin, of []string, request any, more map[string]func(node)) *template {
	t := &template{method: method}
	var address, body, values node
	known := map[string]func(node){
		"url":    func(n node) { address = n },
		"method": func(n node) { t.method = strings.ToUpper(r.oneOf(n, "post", "get", "put", "patch", "delete")) },
		"body":   func(n node) { body = n },
		"values": func(n node) { values = n },
	}
	for k, read := range more {
		known[k] = read
	}
	r.fields(n, known)
	t.values = r.readValues(values, of, request)
	names := slices.Concat(builtin, sortedKeys(t.values))
	used := map[string]bool{}
	if body.Node != nil {
		t.body = r.tree(body, names, used)
	}
	if t.method == "GET" && t.body != nil {
		r.fault(body, "a GET has no body")
	}
	t.url = r.readURL(n, address, names, used)
	for _, name := range sortedKeys(t.values) {
		if !used[name] {
			r.fault(t.values[name].at, "value %q is not used", name)
		}
	}
	return t
}

func (r *reader) readURL(n, address node, names []string, used map[string]bool) *uritemplate.Template {
	if address.Node == nil {
		r.fault(n, "no url")
		return nil
	}
	text := r.text(address)
	t, err := uritemplate.New(text)
	if err != nil {
		r.fault(address, "%q is no URI template: %v", text, err)
		return nil
	}
	all := uritemplate.Values{"base": uritemplate.String("http://provider.example")}
	for _, name := range t.Varnames() {
		used[name] = true
		if !slices.Contains(names, name) {
			r.fault(address, "{%s} can never have a value here: want one of %s", name, strings.Join(names, ", "))
		}
		if name != "base" {
			all.Set(name, uritemplate.String("x"))
		}
	}
	expanded, err := t.Expand(all)
	if err == nil {
		err = checkURL(expanded)
	}
	if err != nil {
		r.fault(address, "%v", err)
	}
	return t
}

// checkURL keeps the URL itself out of the message: it may hold a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("not an http or https URL")
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("the URL has a user or a fragment; URLs are recorded, so they hold no secrets")
	}
	return nil
}

// readValues reads name: "request:$.path", or name: {from, as: decimal, currency}. A path alone is read from the answer.
func (r *reader) readValues(n node, of []string, request any) map[string]source {
	all := map[string]source{}
	if n.Node == nil {
		return all
	}
	for _, p := range r.pairs(n) {
		if slices.Contains(always, p.key) || slices.Contains(undoing, p.key) || p.key == "reference" {
			r.fault(p.at, "{%s} has its value already", p.key)
			continue
		}
		s := source{at: p.at}
		from, currency := p.value, node{}
		switch p.value.Node.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			from = node{}
			r.fields(p.value, map[string]func(node){
				"from":     func(n node) { from = n },
				"as":       func(n node) { s.decimal = r.oneOf(n, "decimal") == "decimal" },
				"currency": func(n node) { currency = n },
			})
		}
		if from.Node == nil {
			r.fault(p.at, "value %q has no source", p.key)
			continue
		}
		if s.of, s.path = r.readSource(from, of, request); s.path == nil {
			continue
		}
		if s.decimal {
			if currency.Node == nil {
				r.fault(p.value, "a decimal amount needs the path of its currency")
				continue
			}
			if _, s.currency = r.readSource(currency, []string{s.of}, request); s.currency == nil {
				continue
			}
		}
		all[p.key] = s
	}
	return all
}

func (r *reader) readSource(n node, of []string, request any) (string, *jsonPath) {
	text := r.text(n)
	from, path, cut := strings.Cut(text, ":")
	if !cut || strings.HasPrefix(text, "$") {
		from, path = "response", text
	}
	if !slices.Contains(of, from) {
		r.fault(n, "the %s is not there yet: want %s", from, strings.Join(of, " or "))
		return from, nil
	}
	possible := request
	if from == "response" {
		possible = nil // its form is the provider's business
	}
	return from, r.parsePath(n, path, possible)
}

// tree reads a body.
func (r *reader) tree(n node, names []string, used map[string]bool) any {
	switch v := n.Node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		m := map[string]any{}
		for _, p := range r.pairs(n) {
			m[p.key] = r.tree(p.value, names, used)
		}
		return m
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range r.items(n) {
			list = append(list, r.tree(item, names, used))
		}
		return list
	case *ast.IntegerNode, *ast.FloatNode:
		return json.Number(n.GetToken().Value)
	case *ast.BoolNode:
		return v.Value
	case *ast.NullNode:
		return nil
	}
	return r.placeholder(n, names, used)
}

func (r *reader) placeholder(n node, names []string, used map[string]bool) placeholder {
	left := r.text(n)
	var p placeholder
	for {
		before, after, found := strings.Cut(left, "{")
		p = append(p, before)
		if !found {
			return p
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			r.fault(n, "{ without }")
			return p
		}
		if !slices.Contains(names, name) {
			r.fault(n, "{%s} can never have a value here: want one of %s", name, strings.Join(names, ", "))
		}
		used[name] = true
		p, left = append(p, name), rest
	}
}

// fill makes the document of a body.
func fill(tree any, value func(name string) (any, error)) (any, error) {
	var err error
	switch t := tree.(type) {
	case map[string]any:
		m := make(map[string]any, len(t))
		for _, k := range sortedKeys(t) {
			if m[k], err = fill(t[k], value); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		list := make([]any, len(t))
		for i, v := range t {
			if list[i], err = fill(v, value); err != nil {
				return nil, err
			}
		}
		return list, nil
	case placeholder:
		return t.fill(value)
	}
	return tree, nil
}

func (p placeholder) fill(value func(name string) (any, error)) (any, error) {
	if len(p) == 3 && p[0] == "" && p[2] == "" {
		return value(p[1])
	}
	var b strings.Builder
	for i, part := range p {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		v, err := value(part)
		if err != nil {
			return nil, err
		}
		text, ok := textOf(v)
		if !ok {
			return nil, fmt.Errorf("value {%s} is null", part)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// octets has a character for each byte of the text. The template library escapes a character by its number; given bytes, it
// writes what RFC 6570 asks for, the UTF-8 bytes.
func octets(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// expand makes the URL. A value that would lead to another place than its segment is an error.
func (t *template) expand(value func(name string) (any, error)) (string, error) {
	all := uritemplate.Values{}
	for _, name := range t.url.Varnames() {
		v, err := value(name)
		if err != nil {
			return "", err
		}
		text, ok := textOf(v)
		if !ok || strings.Trim(text, ".") == "" {
			return "", fmt.Errorf("value {%s} is %q, which names nothing in a URL", name, text)
		}
		all.Set(name, uritemplate.String(octets(text)))
	}
	text, err := t.url.Expand(all)
	if err != nil {
		return "", fmt.Errorf("expand the URL: %w", err)
	}
	return text, checkURL(text)
}
