package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/bojanz/currency"
	"github.com/theory/jsonpath"
)

// document is JSON as jsonpath reads it, with numbers as they were written.
func document(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more follows the JSON value")
	}
	return v, nil
}

// sample turns a Go value into a document.
func sample(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal a sample: %v", err))
	}
	doc, err := document(raw)
	if err != nil {
		panic(fmt.Sprintf("read a sample: %v", err))
	}
	return doc
}

// textOf is the text form of a JSON value; ok is false for null and for what is not there.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	raw, err := json.Marshal(v)
	return string(raw), err == nil
}

// source is where a value of a template comes from.
type source struct {
	of       string // request or response, those of the call with the effect
	path     *jsonpath.Path
	decimal  bool // an amount in minor units is written in major units, with the currency's digits
	currency *jsonpath.Path
	at       node
}

// history is what is known of the call with the effect when another exchange is made about it.
type history struct{ request, response any }

// find returns the value. A value that is not there is an error: a template never goes out with a hole in it.
func (s source) find(name string, h history) (any, error) {
	doc := h.request
	if s.of == "response" {
		doc = h.response
	}
	if doc == nil {
		return nil, fmt.Errorf("value {%s}: the %s is not there (any more)", name, s.of)
	}
	found := s.path.Select(doc)
	if len(found) != 1 || found[0] == nil {
		return nil, fmt.Errorf("value {%s}: %s finds %d values in the %s", name, s.path, len(found), s.of)
	}
	if !s.decimal {
		return found[0], nil
	}
	codes := s.currency.Select(doc)
	if len(codes) != 1 {
		return nil, fmt.Errorf("value {%s}: no currency", name)
	}
	code, _ := codes[0].(string)
	amount, err := Major(fmt.Sprint(found[0]), code)
	if err != nil {
		return nil, fmt.Errorf("value {%s}: %w", name, err)
	}
	return amount, nil
}

// Major writes an amount in minor units as a decimal number in major units with exactly the currency's digits, by the table of
// ISO 4217: 10000 JPY is 10000, 1234 KWD is 1.234.
func Major(minor, code string) (string, error) {
	digits, known := currency.GetDigits(code)
	if !known {
		return "", fmt.Errorf("unknown currency %q", code)
	}
	n, ok := new(big.Int).SetString(minor, 10)
	if !ok {
		return "", fmt.Errorf("%q is no amount in minor units", minor)
	}
	sign, text := "", n.String()
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	if missing := int(digits) + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	if digits == 0 {
		return sign + text, nil
	}
	point := len(text) - int(digits)
	return sign + text[:point] + "." + text[point:], nil
}

// path reads an RFC 9535 path. possible is a full example of what it is read from, or nil when that is not known: a
// path that names one value and finds none in it can never find any.
func (r *reader) path(n node, possible any) *jsonPath { return r.parsePath(n, r.text(n), possible) }

type jsonPath = jsonpath.Path

func (r *reader) parsePath(n node, text string, possible any) *jsonPath {
	p, err := jsonpath.Parse(text)
	if err != nil {
		r.fault(n, "%q is no JSONPath: %s", text, strings.TrimPrefix(err.Error(), "jsonpath: "))
		return nil
	}
	if possible != nil && p.Query().Singular() != nil && len(p.Select(possible)) == 0 {
		r.fault(n, "%s can never be there: want one of %s", text, strings.Join(leaves("$", possible), ", "))
	}
	return p
}

// leaves lists the paths of a document.
func leaves(at string, doc any) []string {
	var all []string
	switch doc := doc.(type) {
	case map[string]any:
		for _, k := range sortedKeys(doc) {
			all = append(all, leaves(at+"."+k, doc[k])...)
		}
	case []any:
		for _, v := range doc[:min(1, len(doc))] {
			all = append(all, leaves(at+"[0]", v)...)
		}
	default:
		all = append(all, at)
	}
	return all
}
