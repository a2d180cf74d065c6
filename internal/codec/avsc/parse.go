package avsc

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// parser holds the named types that are complete. One that is still being read is not among
// them, so a type that contains itself is refused: hostile bytes could nest it without end.
type parser struct {
	named map[string]*Type
}

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// parse reads one node; space is the namespace around it and path where it stands.
func (p parser) parse(v any, space, path string) (*Type, error) {
	t, err := p.node(v, space, path)
	if err != nil || t.nodes > 0 {
		return t, err
	}
	t.nodes = 1
	for _, f := range t.Fields {
		t.nodes += f.Type.nodes
	}
	for _, b := range t.Branches {
		t.nodes += b.nodes
	}
	if t.Items != nil {
		t.nodes += t.Items.nodes
	}
	if t.nodes > mostNodes {
		return nil, fmt.Errorf("%s: comes to more than %d nodes", path, mostNodes)
	}
	return t, nil
}

func (p parser) node(v any, space, path string) (*Type, error) {
	switch v := v.(type) {
	case string:
		return p.byName(v, space, path)
	case []any:
		return p.union(v, space, path)
	case map[string]any:
		switch kind, _ := v["type"].(string); kind {
		case "record", "error":
			return p.record(v, space, path)
		case "enum":
			return p.enum(v, space, path)
		case "fixed":
			return p.fixed(v, space, path)
		case "array", "map":
			return p.sequence(Kind(kind), v, space, path)
		}
		t, err := p.parse(v["type"], space, path)
		if err != nil {
			return nil, err
		}
		if logical, _ := v["logicalType"].(string); logical != "" && t.Name == "" {
			t = &Type{Kind: t.Kind, Logical: logical}
		}
		return t, nil
	}
	return nil, fmt.Errorf("%s: want a type, got %T", path, v)
}

func (p parser) byName(name, space, path string) (*Type, error) {
	if slices.Contains(primitives, Kind(name)) {
		return &Type{Kind: Kind(name)}, nil
	}
	if t := p.named[qualify(name, space)]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%s: type %q is not defined before its use, or contains itself", path, name)
}

func (p parser) union(branches []any, space, path string) (*Type, error) {
	t := &Type{Kind: Union}
	for _, b := range branches {
		branch, err := p.parse(b, space, path)
		if err != nil {
			return nil, err
		}
		if branch.Kind == Union {
			return nil, fmt.Errorf("%s: a union in a union", path)
		}
		if slices.ContainsFunc(t.Branches, func(o *Type) bool { return o.Branch() == branch.Branch() }) {
			return nil, fmt.Errorf("%s: %s twice in one union", path, branch.Branch())
		}
		t.Branches = append(t.Branches, branch)
	}
	if len(t.Branches) == 0 {
		return nil, fmt.Errorf("%s: a union of nothing", path)
	}
	return t, nil
}

func (p parser) record(v map[string]any, space, path string) (*Type, error) {
	t, space, err := p.open(Record, v, space, path)
	if err != nil {
		return nil, err
	}
	fields, ok := v["fields"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s: a record without fields", t.Name)
	}
	for i, raw := range fields {
		m, _ := raw.(map[string]any)
		f := Field{Doc: text(m, "doc"), Name: text(m, "name")}
		where := t.Name + "." + f.Name
		if !nameForm.MatchString(f.Name) || strings.Contains(f.Name, ".") {
			return nil, fmt.Errorf("%s: field %d has no good name", t.Name, i+1)
		}
		if _, twice := t.Field(f.Name); twice {
			return nil, fmt.Errorf("%s: two fields of that name", where)
		}
		if f.Type, err = p.parse(m["type"], space, where); err != nil {
			return nil, err
		}
		if def, given := m["default"]; given {
			f.HasDefault = true
			if f.Default, err = native(f.Type, def); err != nil {
				return nil, fmt.Errorf("%s: default does not fit: %w", where, err)
			}
		}
		t.Fields = append(t.Fields, f)
	}
	p.named[t.Name] = t
	return t, nil
}

func (p parser) enum(v map[string]any, space, path string) (*Type, error) {
	t, _, err := p.open(Enum, v, space, path)
	if err != nil {
		return nil, err
	}
	symbols, _ := v["symbols"].([]any)
	for _, s := range symbols {
		s, _ := s.(string)
		if !nameForm.MatchString(s) || slices.Contains(t.Symbols, s) {
			return nil, fmt.Errorf("%s: symbol %q is no name, or there twice", t.Name, s)
		}
		t.Symbols = append(t.Symbols, s)
	}
	if len(t.Symbols) == 0 {
		return nil, fmt.Errorf("%s: an enum without symbols", t.Name)
	}
	if def, given := v["default"]; given {
		t.Default, _ = def.(string)
		if !slices.Contains(t.Symbols, t.Default) {
			return nil, fmt.Errorf("%s: default %v is not one of its symbols", t.Name, def)
		}
	}
	p.named[t.Name] = t
	return t, nil
}

func (p parser) fixed(v map[string]any, space, path string) (*Type, error) {
	t, _, err := p.open("fixed", v, space, path)
	if err != nil {
		return nil, err
	}
	n, _ := v["size"].(json.Number)
	size, err := n.Int64()
	if err != nil || size < 0 {
		return nil, fmt.Errorf("%s: a fixed without size", t.Name)
	}
	t.Size = int(size)
	p.named[t.Name] = t
	return t, nil
}

func (p parser) sequence(kind Kind, v map[string]any, space, path string) (*Type, error) {
	items := v["items"]
	if kind == "map" {
		items = v["values"]
	}
	of, err := p.parse(items, space, path+"[]")
	if err != nil {
		return nil, err
	}
	if of.empty() {
		return nil, fmt.Errorf("%s: items take no bytes, so a few bytes could stand for any number of them", path)
	}
	return &Type{Kind: kind, Items: of}, nil
}

// open starts a named type, and returns the namespace inside it.
func (p parser) open(kind Kind, v map[string]any, space, path string) (*Type, string, error) {
	name := text(v, "name")
	if !nameForm.MatchString(name) {
		return nil, "", fmt.Errorf("%s: %s %q: no good name", path, kind, name)
	}
	if own, given := v["namespace"].(string); given {
		space = own
	}
	t := &Type{Kind: kind, Name: qualify(name, space), Doc: text(v, "doc")}
	if p.named[t.Name] != nil {
		return nil, "", fmt.Errorf("%s: defined twice", t.Name)
	}
	return t, t.Name[:max(strings.LastIndexByte(t.Name, '.'), 0)], nil
}

func qualify(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
