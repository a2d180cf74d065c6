package schemas_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
	"chorus/schemas"
)

func parse(t *testing.T, s schemas.Schema) *avsc.Type {
	t.Helper()
	shape, err := avsc.Parse(s.Text)
	if err != nil {
		t.Fatalf("%s version %d: %v", s.Subject, s.Version, err)
	}
	return shape
}

func TestEveryFactHasASchema(t *testing.T) {
	t.Parallel()
	list := schemas.List()
	var got, want []string
	for _, s := range list {
		got = append(got, s.Type)
		if shape := parse(t, s); shape.Name != s.Subject || shape.Kind != avsc.Record {
			t.Errorf("%s holds the %s %s", s.Subject, shape.Kind, shape.Name)
		}
	}
	for _, f := range event.Catalogue() {
		want = append(want, string(f.Type()))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("schemas of\n%v, facts are\n%v", got, want)
	}
	for pattern, n := range map[string]int{"*.avsc": len(list), "released/*.avsc": len(schemas.Released())} {
		if files, err := filepath.Glob(pattern); err != nil || len(files) != n {
			t.Errorf("%s: %d files (%v), %d in the table", pattern, len(files), err, n)
		}
	}
}

// TestReleasedNeverChanges compares ids and texts of all released versions with a list to which
// lines are only added. There is no -update: records in topics hold these ids.
func TestReleasedNeverChanges(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/released.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, s := range schemas.Released() {
		fmt.Fprintf(&got, "%d %s %d %x\n", s.ID, s.Subject, s.Version, sha256.Sum256([]byte(s.Text)))
	}
	if got.String() != string(want) {
		t.Errorf("released schemas changed. Now:\n%s\nin testdata/released.txt:\n%s", got.String(), want)
	}
}

// TestPresentIsReleased finds a schema that was edited without becoming a version of its own.
func TestPresentIsReleased(t *testing.T) {
	t.Parallel()
	newest := map[string]schemas.Schema{}
	for _, s := range schemas.Released() {
		if s.Version != newest[s.Type].Version+1 {
			t.Errorf("%s: version %d follows %d", s.Subject, s.Version, newest[s.Type].Version)
		}
		newest[s.Type] = s
	}
	for _, s := range schemas.List() {
		if s != newest[s.Type] {
			t.Errorf("%s.avsc is not released/%s.v%d.avsc: copy it there as the next version, with a new id", s.Type, s.Type, newest[s.Type].Version)
		}
	}
}

// incompatible returns what keeps any two versions of a schema from reading each other's facts (SCH-13).
func incompatible(t *testing.T, all []schemas.Schema) (problems []string) {
	t.Helper()
	versions := map[string][]*avsc.Type{}
	for _, s := range all {
		shape := parse(t, s)
		for _, older := range versions[s.Subject] {
			for _, problem := range avsc.Full(older, shape) {
				problems = append(problems, fmt.Sprintf("%s version %d: %s", s.Subject, s.Version, problem))
			}
		}
		versions[s.Subject] = append(versions[s.Subject], shape)
	}
	return problems
}

// TestFullTransitive checks D9: every version against every other.
func TestFullTransitive(t *testing.T) {
	t.Parallel()
	for _, problem := range incompatible(t, schemas.Released()) {
		t.Error(problem)
	}
}

// TestFullTransitiveFinds breaks each schema as a careless change would, and wants it found, with subject and field. The last kind agrees
// with the version before it and not with the one before that.
func TestFullTransitiveFinds(t *testing.T) {
	t.Parallel()
	type field = map[string]any
	changed := func(s schemas.Schema, change func(fields []any) []any) string {
		t.Helper()
		var record map[string]any
		if err := json.Unmarshal([]byte(s.Text), &record); err != nil {
			t.Fatal(err)
		}
		record["fields"] = change(record["fields"].([]any))
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, s := range schemas.List() {
		strict := changed(s, func(fields []any) []any { return append(fields, field{"name": "channel", "type": "string"}) })
		lenient := changed(s, func(fields []any) []any {
			return append(fields, field{"name": "channel", "type": "string", "default": ""})
		})
		var first string
		other := changed(s, func(fields []any) []any {
			first = fields[0].(field)["name"].(string)
			fields[0] = field{"name": first, "type": "boolean"}
			return fields
		})
		for _, c := range []struct {
			what, field string
			texts       []string
		}{
			{"a field without default", "channel", []string{strict}},
			{"another type", first, []string{other}},
			{"a default that goes", "channel", []string{lenient, strict}},
		} {
			all := schemas.Released()
			for i, text := range c.texts {
				next := s
				next.Version, next.Text = s.Version+1+i, text
				all = append(all, next)
			}
			if found := strings.Join(incompatible(t, all), "\n"); !strings.Contains(found, s.Subject+"."+c.field+": ") {
				t.Errorf("%s in %s: found %q", c.what, s.Subject, found)
			}
		}
	}
}

// TestSchemasKeepToOurRules checks what makes the schemas easy to evolve and to read for others.
func TestSchemasKeepToOurRules(t *testing.T) {
	t.Parallel()
	named := map[string]*avsc.Type{}
	var check func(path string, n *avsc.Type)
	check = func(path string, n *avsc.Type) {
		switch n.Kind {
		case avsc.Int, avsc.String, avsc.Null:
		case avsc.Long:
			if n.Logical != "" && n.Logical != avsc.TimestampMicros {
				t.Errorf("%s: logical type %s", path, n.Logical)
			}
		case avsc.Enum:
			if n.Default == "" {
				t.Errorf("%s: an enum without default can never have another symbol", path)
			}
		case avsc.Union:
			if len(n.Branches) != 2 || n.Branches[0].Kind != avsc.Null {
				t.Errorf("%s: unions are of null and one type", path)
				return
			}
			check(path, n.Branches[1])
		case avsc.Array:
			check(path+"[]", n.Items)
		case avsc.Record:
			for _, f := range n.Fields {
				if f.Doc == "" {
					t.Errorf("%s.%s has no doc", path, f.Name)
				}
				if f.Type.Kind == avsc.Union && !f.HasDefault {
					t.Errorf("%s.%s may be null but has no default", path, f.Name)
				}
				check(path+"."+f.Name, f.Type)
			}
		default:
			t.Errorf("%s: %s is not among the types that the codec maps", path, n.Kind)
		}
		if n.Name == "" {
			return
		}
		if n.Doc == "" {
			t.Errorf("%s: %s has no doc", path, n.Name)
		}
		if other := named[n.Name]; other != nil && !reflect.DeepEqual(other, n) {
			t.Errorf("%s: %s is not what it is elsewhere; one class is generated for both", path, n.Name)
		}
		named[n.Name] = n
	}
	for _, s := range schemas.List() {
		check(s.Subject, parse(t, s))
		if strings.Contains(s.Text, "\t") || !strings.HasSuffix(s.Text, "}\n") {
			t.Errorf("%s is not laid out like the others", s.Subject)
		}
	}
}
