package avsc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// native turns a default, which is JSON, into the form in which goavro gives values. The default of a
// union belongs to its first branch. Numbers are exact: a default that
// went through a float would be another number above 2^53.
func native(t *Type, v any) (any, error) {
	switch t.Kind {
	case Null:
		if v == nil {
			return nil, nil
		}
	case Union:
		first, err := native(t.Branches[0], v)
		if err != nil || first == nil {
			return nil, err
		}
		return map[string]any{t.Branches[0].Branch(): first}, nil
	case Int, Long:
		return whole(t, v)
	case "float", "double":
		if n, ok := v.(json.Number); ok {
			return n.Float64()
		}
	case "boolean":
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case String, "bytes", "fixed":
		if s, ok := v.(string); ok {
			return s, nil
		}
	case Enum:
		if s, ok := v.(string); ok && slices.Contains(t.Symbols, s) {
			return s, nil
		}
	case Array:
		if items, ok := v.([]any); ok {
			return each(t, items)
		}
	case "map":
		if m, ok := v.(map[string]any); ok && len(m) == 0 {
			return m, nil
		}
	case Record:
		if m, ok := v.(map[string]any); ok {
			return object(t, m)
		}
	}
	return nil, fmt.Errorf("%v (%T) is no %s", v, v, t.Branch())
}

func whole(t *Type, v any) (any, error) {
	bits := 64
	if t.Kind == Int {
		bits = 32
	}
	n, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%v (%T) is no %s", v, v, t.Kind)
	}
	i, err := strconv.ParseInt(n.String(), 10, bits)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is no %s", n, t.Kind)
	case t.Kind == Int:
		return int32(i), nil
	case t.Logical == TimestampMicros:
		return time.UnixMicro(i).UTC(), nil
	}
	return i, nil
}

func each(t *Type, items []any) (any, error) {
	out := make([]any, 0, len(items))
	for _, item := range items {
		n, err := native(t.Items, item)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func object(t *Type, m map[string]any) (any, error) {
	out := make(map[string]any, len(t.Fields))
	for _, f := range t.Fields {
		v, given := m[f.Name]
		if !given {
			if !f.HasDefault {
				return nil, fmt.Errorf("%s.%s is not given", t.Name, f.Name)
			}
			out[f.Name] = f.Default
			continue
		}
		n, err := native(f.Type, v)
		if err != nil {
			return nil, err
		}
		out[f.Name] = n
	}
	return out, nil
}
