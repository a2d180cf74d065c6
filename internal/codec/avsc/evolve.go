package avsc

import (
	"fmt"
	"slices"
)

// Full returns what keeps two versions of a schema from being read by each other's
// readers (Avro's FULL compatibility), each with the path of the field; none when they
// are compatible. Checked against every released version it is FULL_TRANSITIVE.
//
// Beyond Avro's rules the symbols of an enum keep their order, for consumers that decode with
// their own schema, and a logical type stays what it is: Avro would read milliseconds as microseconds.
func Full(older, newer *Type) []string {
	problems := reads(older, newer, newer.Branch(), "the newer version cannot read the older")
	problems = append(problems, reads(newer, older, newer.Branch(), "the older version cannot read the newer")...)
	return append(problems, order(older, newer, newer.Branch())...)
}

// reads returns why a reader cannot read what a writer wrote.
func reads(writer, reader *Type, path, who string) []string {
	problem := func(format string, args ...any) []string {
		return []string{path + ": " + who + ": " + fmt.Sprintf(format, args...)}
	}
	if writer.Kind == Union {
		var all []string
		for _, b := range writer.Branches {
			all = append(all, reads(b, reader, path, who)...)
		}
		return all
	}
	if reader.Kind == Union {
		for _, b := range reader.Branches {
			if len(reads(writer, b, path, who)) == 0 {
				return nil
			}
		}
		return problem("no branch of the union takes %s", writer.Branch())
	}
	if !promotes(writer.Kind, reader.Kind) {
		return problem("%s is not %s", writer.Branch(), reader.Branch())
	}
	if writer.Logical != reader.Logical {
		return problem("%s means something else than %s", writer.Branch(), reader.Branch())
	}
	if writer.Name != reader.Name {
		return problem("the name changed: %s, %s", writer.Name, reader.Name)
	}
	switch reader.Kind {
	case Array, "map":
		return reads(writer.Items, reader.Items, path+"[]", who)
	case "fixed":
		if writer.Size != reader.Size {
			return problem("the size changed")
		}
	case Enum:
		for _, s := range writer.Symbols {
			if !slices.Contains(reader.Symbols, s) && reader.Default == "" {
				return problem("symbol %s is not known there, and the enum has no default", s)
			}
		}
	case Record:
		var all []string
		for _, f := range reader.Fields {
			if w, ok := writer.Field(f.Name); ok {
				all = append(all, reads(w.Type, f.Type, path+"."+f.Name, who)...)
			} else if !f.HasDefault {
				all = append(all, fmt.Sprintf("%s.%s: %s: the field is not there, and has no default", path, f.Name, who))
			}
		}
		return all
	}
	return nil
}

// promotes reports whether a reader of kind to takes values of kind from.
func promotes(from, to Kind) bool {
	wider := map[Kind][]Kind{
		Int: {Long, "float", "double"}, Long: {"float", "double"}, "float": {"double"},
		String: {"bytes"}, "bytes": {String},
	}
	return from == to || slices.Contains(wider[from], to)
}

// order returns the enums whose symbols changed their places.
func order(older, newer *Type, path string) []string {
	switch {
	case older.Kind != newer.Kind:
		return nil
	case older.Kind == Enum:
		for i, s := range older.Symbols {
			if j := slices.Index(newer.Symbols, s); j >= 0 && j != i {
				return []string{fmt.Sprintf("%s: symbol %s moved from place %d to %d: new symbols go to the end", path, s, i, j)}
			}
		}
	case older.Kind == Array:
		return order(older.Items, newer.Items, path+"[]")
	case older.Kind == Union:
		var all []string
		for _, o := range older.Branches {
			for _, n := range newer.Branches {
				if o.Branch() == n.Branch() {
					all = append(all, order(o, n, path)...)
				}
			}
		}
		return all
	case older.Kind == Record:
		var all []string
		for _, f := range newer.Fields {
			if o, ok := older.Field(f.Name); ok {
				all = append(all, order(o.Type, f.Type, path+"."+f.Name)...)
			}
		}
		return all
	}
	return nil
}
