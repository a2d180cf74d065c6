package debezium

import (
	"maps"
	"strings"
	"testing"
)

// connector compiles the options of a connector with the router and String
// converters, and those given, name=value.
func connector(t *testing.T, s Settings, options ...string) *Connector {
	t.Helper()
	c, err := Parse(with(options...), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func with(options ...string) map[string]string {
	all := maps.Clone(base)
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if strings.HasPrefix(name, ".") {
			name = "transforms.outbox" + name
		}
		all[name] = value
	}
	return all
}

var base = map[string]string{
	"connector.class": postgresConnector, "topic.prefix": "p", "extended.headers.enabled": "false",
	"key.converter": stringConverter, "value.converter": stringConverter,
	"transforms": "outbox", "transforms.outbox.type": eventRouter,
}

// text columns of the documented outbox, and more of other types.
func outbox(c *Connector, more ...Column) *Table {
	columns := []Column{{Name: "id", Type: Type{OID: oidText, Mod: -1}, NotNull: true, Key: true}}
	for _, name := range []string{"aggregatetype", "aggregateid", "type", "payload"} {
		columns = append(columns, Column{Name: name, Type: Type{OID: oidText, Mod: -1}})
	}
	return c.Table(Name{"public", "outbox"}, append(columns, more...))
}

// row is a row of that table; "NULL" is NULL.
func row(payload string, more ...string) [][]byte {
	var values [][]byte
	for _, v := range append([]string{"e-1", "order", "o-1", "Placed", payload}, more...) {
		if v == "NULL" {
			values = append(values, nil)
			continue
		}
		values = append(values, []byte(v))
	}
	return values
}

// routed routes a row and demands a record.
func routed(t *testing.T, table *Table, values [][]byte) *Record {
	t.Helper()
	out, err := table.Route(Insert, values, nil)
	if err != nil || out.Record == nil {
		t.Fatalf("no record: %+v, %v", out, err)
	}
	return out.Record
}
