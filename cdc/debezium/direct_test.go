package debezium

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The short way gives what the long way gives.
func TestDirect(t *testing.T) {
	t.Parallel()
	column := func(name string, oid uint32, def string) Column {
		return Column{Name: name, Type: Type{OID: oid, Mod: -1}, Default: def}
	}
	var rows [][][]byte
	for _, key := range []string{"o-1", "", "NULL"} {
		for _, payload := range []string{`{"n": 1}`, "", " \t\n", "\u00a0", "NULL", "text"} {
			for _, x := range []string{"7", "-7", "NULL"} {
				r := row(payload, x)
				r[2] = []byte(key)
				if key == "NULL" {
					r[2] = nil
				}
				rows = append(rows, r)
			}
		}
	}
	for name, options := range map[string][]string{
		"plain":           nil,
		"placed":          {".table.fields.additional.placement=type:header:eventType,x:header"},
		"tombstones":      {".route.tombstone.on.empty.payload=true"},
		"context headers": {"extended.headers.enabled=true"},
	} {
		for _, def := range []string{"", "5"} {
			t.Run(name+def, func(t *testing.T) {
				t.Parallel()
				short := outbox(connector(t, Settings{RunID: "r"}, options...), column("x", oidInt4, def))
				long := outbox(connector(t, Settings{RunID: "r"}, options...), column("x", oidInt4, def))
				if long.direct = nil; short.direct == nil {
					t.Fatal("no short way")
				}
				for range 2 { // at first the topic is not known yet
					for _, values := range rows {
						if diff := cmp.Diff(*routed(t, long, values), *routed(t, short, slices.Clone(values))); diff != "" {
							t.Errorf("%q: %s", values, diff)
						}
					}
				}
			})
		}
	}
}

func TestDirectBytes(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{`\x00ff`: "\x00\xff", `\x`: "", "NULL": "<nil>"} {
		c := connector(t, Settings{}, "value.converter=io.debezium.converters.BinaryDataConverter", ".table.field.event.payload=b")
		table := outbox(c, Column{Name: "b", Type: Type{OID: oidBytea}})
		if table.direct == nil {
			t.Fatal("no short way")
		}
		for range 2 {
			got := "<nil>"
			if v := routed(t, table, row("x", payload)).Value; v != nil {
				got = string(v)
			}
			if got != want {
				t.Errorf("%s: %q, want %q", payload, got, want)
			}
		}
	}
}

// What the short way cannot do it is not made for.
func TestNoDirect(t *testing.T) {
	t.Parallel()
	for _, option := range []string{
		".table.expand.json.payload=true", ".table.fields.additional.placement=type:envelope", ".table.fields.additional.placement=x:partition",
		".table.field.event.timestamp=x", "value.converter=" + jsonConverter, "key.converter=" + jsonConverter, "header.converter=" + jsonConverter,
		".table.fields.additional.placement=b:header", ".table.field.event.key=b", ".table.fields.additional.placement=nope:header",
	} {
		table := outbox(connector(t, Settings{}, option), Column{Name: "x", Type: Type{OID: oidInt4}}, Column{Name: "b", Type: Type{OID: oidBool}})
		if table.direct != nil {
			t.Errorf("%s has a short way", option)
		}
	}
}

func ExampleTable_Route() {
	c, err := Parse(with(), Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := outbox(c).Route(Insert, row(`{"n": 1}`), nil)
	fmt.Println(out.Record.Topic, string(out.Record.Key), string(out.Record.Value), string(out.Record.Headers[0].Value), err)
	// Output: outbox.event.order o-1 {"n": 1} e-1 <nil>
}
