package debezium

import (
	"slices"
	"strings"
	"testing"
)

// Everything that cannot work, and every option whose neglect would change a
// record, is named at once.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		"connector.class=io.debezium.connector.mysql.MySqlConnector":                 "connector.class",
		"value.converter=io.confluent.connect.avro.AvroConverter":                    "AvroConverter",
		"value.converter.encoding=ISO-8859-1":                                        "UTF-8",
		"snapshot.mode=always":                                                       "snapshot.mode",
		"publication.autocreate.mode=sometimes":                                      "publication.autocreate.mode",
		".route.topic.regex=(unclosed":                                               "unclosed",
		".route.topic.replacement=x.${nope}":                                         "nope",
		".table.fields.additional.placement=":                                        "column:place",
		".table.fields.additional.placement=type:body":                               "no place",
		".table.fields.additional.placement=a:header:b:c":                            "column:place",
		".table.op.invalid.behavior=ignore":                                          "table.op.invalid.behavior",
		".table.expand.json.payload=yes":                                             "neither true nor false",
		"table.include.list=public.(":                                                "unclosed",
		"column.mask.hash.SHA-256.with.salt.x=public.outbox.payload":                 "--ignore-option=column.mask.hash.SHA-256.with.salt.x",
		"transforms=outbox,more":                                                     "transforms.more.type",
		"transforms=other":                                                           "no transform of type",
		"time.precision.mode=connect":                                                "time.precision.mode",
		"provide.transaction.metadata=true":                                          "provide.transaction.metadata",
		"topic.naming.strategy=io.debezium.schema.DefaultTopicNamingStrategy":        "topic.naming.strategy",
		"snapshot.select.statement.overrides=public.outbox":                          "snapshot.select.statement.overrides.public.outbox",
		"value.converter=org.apache.kafka.connect.json.JsonConverter.Other":          "not supported",
		"column.propagate.source.type=.*":                                            "column.propagate.source.type",
		"predicates.p.type=org.apache.kafka.connect.transforms.predicates.HasKey":    "", // nobody uses it
		"heartbeat.interval.ms=300":                                                  "",
		"transforms.outbox.table.fields.additional.error.on.missing=false":           "",
		".table.fields.additional.placement= type : HEADER : t ,aggregateid:header,": "",
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(with(option), Settings{})
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("does not speak of %q: %v", want, err)
			}
		})
	}
}

func TestParseNamesWhatItDoesNotHonour(t *testing.T) {
	t.Parallel()
	c := connector(t, Settings{Ignore: []string{"column.mask.with.5.chars"}},
		"heartbeat.interval.ms=300", "column.mask.with.5.chars=a.b.c", "slot.max.retries=3", "no.such.option=1", "tombstones.on.delete=false", "hstore.handling.mode=json")
	var named []string
	for _, n := range c.Notes {
		named = append(named, n.Option)
	}
	if want := []string{"column.mask.with.5.chars", "heartbeat.interval.ms", "no.such.option", "slot.max.retries"}; !slices.Equal(named, want) {
		t.Errorf("named: %v, want %v", named, want)
	}
}

// A connector of Kafka Connect takes the worker's converters, which are not seen.
func TestParseDemandsConverters(t *testing.T) {
	t.Parallel()
	options := with()
	delete(options, "value.converter")
	if _, err := Parse(options, Settings{}); err == nil || !strings.Contains(err.Error(), "value.converter") {
		t.Errorf("accepted without value.converter: %v", err)
	}
	if _, err := Parse(options, Settings{DefaultConverters: true}); err != nil {
		t.Error(err)
	}
}

func TestCaptures(t *testing.T) {
	t.Parallel()
	c := connector(t, Settings{}, `table.include.list=public\.outbox_[ab], Shop.Outbox`)
	for name, want := range map[string]bool{"public.outbox_a": true, "public.OUTBOX_B": true, "shop.outbox": true, "public.outbox_c": false, "public.outbox_ab": false} {
		schema, table, _ := strings.Cut(name, ".")
		if got := c.Captures(schema, table); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	c = connector(t, Settings{}, "schema.exclude.list=audit", "table.exclude.list=public.x")
	for name, want := range map[string]bool{"public.outbox": true, "audit.outbox": false, "public.x": false, "pg_catalog.pg_class": false} {
		schema, table, _ := strings.Cut(name, ".")
		if got := c.Captures(schema, table); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzParse: whatever a configuration holds, it is read or refused.
func FuzzParse(f *testing.F) {
	f.Add(".route.topic.regex", `(?<a>x)\k<a>[\d&&]`)
	f.Add(".route.topic.replacement", `$1\$${a}`)
	f.Add(".table.fields.additional.placement", `a:b:c,:,`)
	f.Add("table.include.list", `\Qa\E.(?i)*+`)
	f.Fuzz(func(t *testing.T, name, value string) {
		c, err := Parse(with(name+"="+value), Settings{})
		if err != nil {
			return
		}
		_, _ = outbox(c).Route(Insert, row("{}"), nil)
	})
}
