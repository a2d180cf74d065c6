package codec

import (
	"fmt"
	"slices"

	"chorus/internal/codec/avsc"
)

// resolve gives a value that was written with one schema the shape of another, by Avro's rules: fields by
// name, defaults for what was not written, wider numbers, a default for an unknown symbol. Both
// forms are goavro's: a value of a union is nil or a map of its branch's name to it. Only values of another
// version come here.
func resolve(w, r *avsc.Type, v any, path string) (any, error) {
	if w.Kind == avsc.Union {
		var err error
		if w, v, err = unwrap(w, v, path); err != nil {
			return nil, err
		}
	}
	if r.Kind == avsc.Union {
		return wrap(w, r, v, path)
	}
	if w.Logical != r.Logical {
		return nil, undecodable(path, fmt.Sprintf("written as %s, read as %s", w.Branch(), r.Branch()))
	}
	switch {
	case w.Kind == avsc.Int && r.Kind == avsc.Long:
		return int64(v.(int32)), nil
	case w.Kind != r.Kind:
		return nil, undecodable(path, fmt.Sprintf("written as %s, read as %s", w.Branch(), r.Branch()))
	case r.Kind == avsc.Enum:
		return symbol(r, v.(string), path)
	case r.Kind == avsc.Array:
		items := v.([]any)
		for i := range items {
			var err error
			if items[i], err = resolve(w.Items, r.Items, items[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return nil, err
			}
		}
		return items, nil
	case r.Kind == avsc.Record:
		return resolveRecord(w, r, v.(map[string]any), path)
	}
	return v, nil
}

func resolveRecord(w, r *avsc.Type, m map[string]any, path string) (any, error) {
	out := make(map[string]any, len(r.Fields))
	for _, f := range r.Fields {
		written, ok := w.Field(f.Name)
		switch {
		case ok:
			v, err := resolve(written.Type, f.Type, m[f.Name], join(path, f.Name))
			if err != nil {
				return nil, err
			}
			out[f.Name] = v
		case f.HasDefault:
			out[f.Name] = f.Default
		default:
			return nil, undecodable(join(path, f.Name), "was not written, and has no default")
		}
	}
	return out, nil
}

// unwrap takes a value out of the union it was written in, with the branch it was written as.
func unwrap(w *avsc.Type, v any, path string) (*avsc.Type, any, error) {
	for _, b := range w.Branches {
		if v == nil && b.Kind == avsc.Null {
			return b, nil, nil
		}
		if m, ok := v.(map[string]any); ok && len(m) == 1 {
			if inner, ok := m[b.Branch()]; ok {
				return b, inner, nil
			}
		}
	}
	return nil, nil, undecodable(path, "is of no branch of its union")
}

// wrap puts a value into the first branch of the reader's union that takes it.
func wrap(w, r *avsc.Type, v any, path string) (any, error) {
	for _, b := range r.Branches {
		inner, err := resolve(w, b, v, path)
		switch {
		case err != nil:
			continue
		case b.Kind == avsc.Null:
			return nil, nil
		}
		return map[string]any{b.Branch(): inner}, nil
	}
	return nil, undecodable(path, fmt.Sprintf("%s is of no branch of the union it is read as", w.Branch()))
}

// symbol returns s, or what stands for it where it is not known.
func symbol(r *avsc.Type, s, path string) (string, error) {
	if slices.Contains(r.Symbols, s) {
		return s, nil
	}
	if r.Default == "" {
		return "", undecodable(path, fmt.Sprintf("%s is no %s that this version knows, and there is no default", quote([]byte(s)), r.Name))
	}
	return r.Default, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
