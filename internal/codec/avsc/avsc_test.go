package avsc

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func record(fields string) string {
	return `{"type":"record","name":"R","namespace":"n","fields":[` + fields + `]}`
}

func field(name, rest string) string { return fmt.Sprintf(`{"name":%q,%s}`, name, rest) }

func mustParse(t *testing.T, text string) *Type {
	t.Helper()
	shape, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return shape
}

// TestSCH03DefaultsThatDoNotFit also holds the neighbours of the case's three defaults.
func TestSCH03DefaultsThatDoNotFit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rest string
		ok   bool
		want any
	}{
		{`"type":["null","long"],"default":"null"`, false, nil},
		{`"type":["int","null"],"default":123`, true, map[string]any{"int": int32(123)}},
		{`"type":["null","string"],"default":""`, false, nil},
		{`"type":["null","string"],"default":null`, true, nil},
		{`"type":["string","null"],"default":null`, false, nil},
		{`"type":"string","default":null`, false, nil},
		{`"type":"string","default":5`, false, nil},
		{`"type":"long","default":"5"`, false, nil},
		{`"type":"long","default":5.0`, false, nil},
		{`"type":"long","default":9007199254740993`, true, int64(9007199254740993)},
		{`"type":"long","default":9223372036854775808`, false, nil},
		{`"type":"int","default":2147483647`, true, int32(math.MaxInt32)},
		{`"type":"int","default":2147483648`, false, nil},
		{`"type":"boolean","default":0`, false, nil},
		{`"type":{"type":"array","items":"string"},"default":[]`, true, []any{}},
		{`"type":{"type":"array","items":"string"},"default":[1]`, false, nil},
		{`"type":{"type":"array","items":"string"},"default":{}`, false, nil},
		{`"type":{"type":"enum","name":"E","symbols":["A"]},"default":"A"`, true, "A"},
		{`"type":{"type":"enum","name":"E","symbols":["A"]},"default":"B"`, false, nil},
		{`"type":{"type":"enum","name":"E","symbols":["A"],"default":"B"}`, false, nil},
		{`"type":{"type":"record","name":"I","fields":[{"name":"a","type":"int","default":1}]},"default":{}`, true, map[string]any{"a": int32(1)}},
		{`"type":{"type":"record","name":"I","fields":[{"name":"a","type":"int"}]},"default":{}`, false, nil},
	}
	for _, c := range cases {
		shape, err := Parse(record(field("f", c.rest)))
		switch {
		case c.ok && err != nil:
			t.Errorf("%s: %v", c.rest, err)
		case !c.ok && (err == nil || !strings.Contains(err.Error(), "n.")):
			t.Errorf("%s: got %v, want it refused with its name", c.rest, err)
		case c.ok:
			if diff := cmp.Diff(c.want, shape.Fields[0].Default); diff != "" {
				t.Errorf("%s: %s", c.rest, diff)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                   "EOF",
		`"string" "string"`:                  "more after its end",
		`"strung"`:                           "not defined",
		`7`:                                  "want a type",
		`[]`:                                 "union of nothing",
		`["null","null"]`:                    "twice in one union",
		`["null",["int"]]`:                   "union in a union",
		`{"type":"record"}`:                  "no good name",
		record(`5`):                          "no good name",
		record(field("a-b", `"type":"int"`)): "no good name",
		record(field("a", `"type":"int"`) + "," + field("a", `"type":"int"`)): "two fields",
		record(field("a", `"type":["null","R"]`)):                             "contains itself",
		`{"type":"array","items":"null"}`:                                     "take no bytes",
		`{"type":"array","items":` + record(``) + `}`:                         "take no bytes",
		`{"type":"array","items":{"type":"fixed","name":"F","size":0}}`:       "take no bytes",
		`{"type":"enum","name":"E","symbols":[]}`:                             "without symbols",
		`{"type":"enum","name":"E","symbols":["A","A"]}`:                      "there twice",
		`{"type":"fixed","name":"F"}`:                                         "without size",
		`{"type":"record","name":"R"}`:                                        "without fields",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestSCH13IncompatibleChanges lists changes of a schema and what must be said about each.
func TestSCH13IncompatibleChanges(t *testing.T) {
	t.Parallel()
	str, long := `"type":"string"`, `"type":"long"`
	enum := func(symbols string, rest ...string) string {
		return `"type":{"type":"enum","name":"E","symbols":[` + symbols + `]` + strings.Join(rest, "") + `}`
	}
	def := `,"default":"A"`
	cases := []struct {
		what, older, newer, want string
	}{
		{"same", field("a", str), field("a", str), ""},
		{"field added without default", field("a", str), field("a", str) + "," + field("channel", str), "n.R.channel: the newer version cannot read the older"},
		{"field added with default", field("a", str), field("a", str) + "," + field("channel", str+`,"default":""`), ""},
		{"nullable field added", field("a", str), field("a", str) + "," + field("channel", `"type":["null","string"],"default":null`), ""},
		{"field removed that has no default", field("a", str) + "," + field("b", str), field("a", str), "n.R.b: the older version cannot read the newer"},
		{"field removed that has a default", field("a", str) + "," + field("b", str+`,"default":""`), field("a", str), ""},
		{"field renamed", field("a", str), field("b", str), "n.R.b: the newer version cannot read the older"},
		{"long narrowed to int", field("a", long), field("a", `"type":"int"`), "n.R.a: the newer version cannot read the older: long is not int"},
		{"int widened to long", field("a", `"type":"int"`), field("a", long), "n.R.a: the older version cannot read the newer: long is not int"},
		{"became nullable", field("a", str), field("a", `"type":["null","string"]`), "n.R.a: the older version cannot read the newer"},
		{"symbols in another order", field("a", enum(`"A","B"`, def)), field("a", enum(`"B","A"`, def)), "n.R.a: symbol A moved"},
		{"symbol in the middle", field("a", enum(`"A","B"`, def)), field("a", enum(`"A","C","B"`, def)), "n.R.a: symbol B moved"},
		{"symbol added, no default", field("a", enum(`"A"`)), field("a", enum(`"A","B"`)), "n.R.a: the older version cannot read the newer: symbol B"},
		{"symbol added, default", field("a", enum(`"A"`, def)), field("a", enum(`"A","B"`, def)), ""},
		{"symbols of a nullable in another order", field("a", `"type":["null",`+enum(`"A","B"`, def)[7:]+`]`), field("a", `"type":["null",`+enum(`"B","A"`, def)[7:]+`]`), "n.R.a: symbol A moved"},
		{"symbols of an array in another order", field("a", `"type":{"type":"array","items":`+enum(`"A","B"`, def)[7:]+`}`), field("a", `"type":{"type":"array","items":`+enum(`"B","A"`, def)[7:]+`}`), "n.R.a[]: symbol A moved"},
		{"milliseconds to microseconds", field("a", `"type":{"type":"long","logicalType":"timestamp-millis"}`), field("a", `"type":{"type":"long","logicalType":"timestamp-micros"}`), "means something else"},
		{"number to instant", field("a", long), field("a", `"type":{"type":"long","logicalType":"timestamp-micros"}`), "means something else"},
		{"another record inside", field("a", `"type":{"type":"record","name":"I","fields":[]}`), field("a", `"type":{"type":"record","name":"J","fields":[]}`), "the name changed"},
	}
	for _, c := range cases {
		got := strings.Join(Full(mustParse(t, record(c.older)), mustParse(t, record(c.newer))), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}
