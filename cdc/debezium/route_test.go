package debezium

import (
	"errors"
	"strings"
	"testing"
)

// The types of a column by the text converter: what stands in a header.
func TestColumnTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of      Type
		text    string
		want    string
		options []string
	}{
		"smallint":               {Type{OID: oidInt2}, "-7", "-7", nil},
		"oid":                    {Type{OID: oidOID}, "4294967295", "4294967295", nil},
		"boolean":                {Type{OID: oidBool}, "t", "true", nil},
		"real":                   {Type{OID: oidFloat4}, "0.1", "0.1", nil},
		"double NaN":             {Type{OID: oidFloat8}, "NaN", "NaN", nil},
		"numeric(12,4)":          {Type{OID: oidNumeric, Mod: 12<<16 | 4 + 4}, "12345.6700", "12345.6700", nil},
		"numeric":                {Type{OID: oidNumeric, Mod: -1}, "1.10", `{"scale":1,"value":"Cw=="}`, nil},
		"numeric by string":      {Type{OID: oidNumeric, Mod: -1}, "1.10", "1.10", []string{"decimal.handling.mode=string"}},
		"numeric by double":      {Type{OID: oidNumeric, Mod: -1}, "1.10", "1.1", []string{"decimal.handling.mode=double"}},
		"money":                  {Type{OID: oidMoney}, "-$1,234.50", "-1234.50", nil},
		"date":                   {Type{OID: oidDate}, "2026-02-28", "20512", nil},
		"date before Christ":     {Type{OID: oidDate}, "0001-12-31 BC", "-719163", nil},
		"date of year 10000":     {Type{OID: oidDate}, "10000-01-01", "2932897", nil},
		"time":                   {Type{OID: oidTime, Mod: -1}, "03:04:05.678901", "11045678901", nil},
		"time(3)":                {Type{OID: oidTime, Mod: 3}, "03:04:05.678", "11045678", nil},
		"time, microseconds":     {Type{OID: oidTime, Mod: 3}, "03:04:05.678", "11045678000", []string{"time.precision.mode=adaptive_time_microseconds"}},
		"timestamp":              {Type{OID: oidTimestamp, Mod: -1}, "2026-01-02 03:04:05.678901", "1767323045678901", nil},
		"timestamp(3)":           {Type{OID: oidTimestamp, Mod: 3}, "2026-01-02 03:04:05.678", "1767323045678", nil},
		"timestamp infinity":     {Type{OID: oidTimestamp, Mod: -1}, "infinity", "9223372036825200000", nil},
		"in milliseconds":        {Type{OID: oidTimestamp, Mod: 3}, "-infinity", "-9223372036832400", nil},
		"in nanoseconds":         {Type{OID: oidTimestamp, Mod: -1}, "infinity", "9223372036854775807", []string{"time.precision.mode=nanoseconds"}},
		"date infinity":          {Type{OID: oidDate, Mod: -1}, "infinity", "-2147472692", nil},
		"timestamp before epoch": {Type{OID: oidTimestamp, Mod: 3}, "1969-12-31 23:59:59.5", "-500", nil},
		"timestamptz":            {Type{OID: oidTimestamptz, Mod: -1}, "2026-01-02 01:04:05.6+00", "2026-01-02T01:04:05.600000Z", nil},
		"timestamptz(0)":         {Type{OID: oidTimestamptz, Mod: 0}, "2026-01-02 01:04:05+00", "2026-01-02T01:04:05Z", nil},
		"timetz":                 {Type{OID: oidTimetz, Mod: -1}, "03:04:05+02", "01:04:05Z", nil},
		"interval":               {Type{OID: oidInterval, Mod: -1}, "1 day 02:00:00", "93600000000", nil},
		"interval, negative":     {Type{OID: oidInterval, Mod: -1}, "-1 days -00:00:01.5", "-86401500000", nil},
		"interval of a month":    {Type{OID: oidInterval, Mod: -1}, "1 mon", "2629800000000", nil},
		"bytea":                  {Type{OID: oidBytea}, `\x01ff`, "Af8=", nil},
		"bytea by hex":           {Type{OID: oidBytea}, `\x01ff`, "01ff", []string{"binary.handling.mode=hex"}},
		"bit(1)":                 {Type{OID: oidBit, Mod: 1}, "1", "true", nil},
		"bit(9)":                 {Type{OID: oidBit, Mod: 9}, "100000001", "AQE=", nil},
		"enum":                   {Type{OID: 99999, Mod: -1, Labels: []string{"sad", "happy"}}, "happy", "happy", nil},
		"citext":                 {Type{OID: 99998, Mod: -1, Name: "citext"}, "Ab", "Ab", nil},
		"text[]":                 {Type{OID: 1009, Mod: -1, Element: &Type{OID: oidText, Mod: -1}}, `{a,"b \"c",NULL,"NULL"}`, `["a","b \"c",null,"NULL"]`, nil},
		"int[]":                  {Type{OID: 1007, Mod: -1, Element: &Type{OID: oidInt4, Mod: -1}}, `[0:1]={1,2}`, `[1,2]`, nil},
		"int[], empty":           {Type{OID: 1007, Mod: -1, Element: &Type{OID: oidInt4, Mod: -1}}, `{}`, `[]`, nil},
		"hstore":                 {Type{OID: 99997, Mod: -1, Name: "hstore"}, `"b"=>"2", "a"=>NULL, "zz"=>"q\"", "qty"=>"1"`, `{"zz":"q\"","a":null,"b":"2","qty":"1"}`, nil},
		"point":                  {Type{OID: oidPoint, Mod: -1}, "(1,2.5)", `{"x":1.0,"y":2.5,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAARA","srid":null}`, nil},
		"numeric NaN by string":  {Type{OID: oidNumeric, Mod: -1}, "NaN", "NAN", []string{"decimal.handling.mode=string"}},
		"xml":                    {Type{OID: oidXML}, "<a/>", "<a/>", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connector(t, Settings{}, append(c.options, ".table.fields.additional.placement=x:header")...)
			r := routed(t, outbox(k, Column{Name: "x", Type: c.of}), row("{}", c.text))
			if got := string(r.Headers[1].Value); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// An explicit NULL becomes the default, as far as the expression is understood.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`'none'::text`: "none", `'it''s'::character varying`: "it", `NULL::text`: "<nil>", ``: "<nil>", `lower('X'::text)`: "", `'a'::text || 'b'::text`: "a",
	} {
		k := connector(t, Settings{}, ".table.fields.additional.placement=x:header")
		r := routed(t, outbox(k, Column{Name: "x", Type: Type{OID: oidText}, Default: expression}), row("{}", "NULL"))
		got := "<nil>"
		if v := r.Headers[1].Value; v != nil {
			got = string(v)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

func TestRowsThatCannotBePublished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string
		values  [][]byte
		more    []Column
		want    string
	}{
		"no payload column":       {[]string{".table.field.event.payload=body"}, row("{}"), nil, "no payload column body"},
		"no key column":           {[]string{".table.field.event.key=nope"}, row("{}"), nil, "no column nope"},
		"routing value NULL":      {nil, [][]byte{[]byte("e"), nil, []byte("k"), nil, nil}, nil, "is NULL"},
		"routing by a number":     {[]string{".route.by.field=n"}, row("{}", "7"), []Column{{Name: "n", Type: Type{OID: oidInt4}}}, "not a text"},
		"partition of type int8":  {[]string{".table.fields.additional.placement=n:partition"}, row("{}", "7"), []Column{{Name: "n", Type: Type{OID: oidInt8}}}, "not an INT32"},
		"negative partition":      {[]string{".table.fields.additional.placement=n:partition"}, row("{}", "-1"), []Column{{Name: "n", Type: Type{OID: oidInt4}}}, "is -1"},
		"placed column missing":   {[]string{".table.fields.additional.placement=n:header"}, row("{}"), nil, "no column n"},
		"timestamp before 1970":   {[]string{".table.field.event.timestamp=n"}, row("{}", "1969-12-31 00:00:00"), []Column{{Name: "n", Type: Type{OID: oidTimestamp, Mod: -1}}}, "before 1970"},
		"timestamp of a number":   {[]string{".table.field.event.timestamp=n"}, row("{}", "7"), []Column{{Name: "n", Type: Type{OID: oidInt8}}}, "neither timestamp nor"},
		"type that is left out":   {[]string{".table.field.event.payload=n"}, row("{}", "(1,2)"), []Column{{Name: "n", Type: Type{OID: 603, Name: "box"}}}, "of type box"},
		"text without a delegate": {[]string{"value.converter=io.debezium.converters.BinaryDataConverter"}, row("{}"), nil, "delegate"},
		"version that is a text":  {[]string{".table.field.event.schema.version=type", ".table.fields.additional.placement=type:envelope"}, row("{}"), nil, "schema version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := outbox(connector(t, Settings{}, c.options...), c.more...).Route(Insert, c.values, nil)
			var refused *RowError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want one that speaks of %q", err, c.want)
			}
		})
	}
}

// To Debezium an update of the key is a new event, unless told otherwise.
func TestUpdates(t *testing.T) {
	t.Parallel()
	before, after := row("{}"), row("{}")
	after[0] = []byte("e-2")
	for name, c := range map[string]struct {
		options  []string
		settings Settings
		old      [][]byte
		ignored  string
		record   bool
		fails    bool
	}{
		"warn":                   {nil, Settings{}, nil, "update", false, false},
		"error":                  {[]string{".table.op.invalid.behavior=error"}, Settings{}, nil, "update", false, false},
		"fatal":                  {[]string{".table.op.invalid.behavior=fatal"}, Settings{}, nil, "", false, true},
		"key":                    {nil, Settings{}, before, "", true, false},
		"key, fatal":             {[]string{".table.op.invalid.behavior=fatal"}, Settings{}, before, "", true, false},
		"key as what it is":      {nil, Settings{KeyUpdates: true}, before, "update", false, false},
		"full identity, no key":  {nil, Settings{}, after, "update", false, false},
		"skipped":                {[]string{"skipped.operations=u,d"}, Settings{}, before, "", false, false},
		"key as it is and fatal": {[]string{".table.op.invalid.behavior=fatal"}, Settings{KeyUpdates: true}, before, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := outbox(connector(t, c.settings, c.options...)).Route(Update, after, c.old)
			if out.Ignored != c.ignored || (out.Record != nil) != c.record || (err != nil) != c.fails {
				t.Fatalf("%+v, %v", out, err)
			}
			if c.record && (out.Record.Headers[0].Key != "__debezium.oldkey" || string(out.Record.Headers[0].Value) != `{"id":"e-1"}`) {
				t.Errorf("headers %+v", out.Record.Headers)
			}
		})
	}
}

// The value of a column that an update left alone is not sent.
func TestUnchangedValue(t *testing.T) {
	t.Parallel()
	after := row("x")
	after[0], after[4] = []byte("e-2"), Unchanged()
	out, err := outbox(connector(t, Settings{})).Route(Update, after, row("x"))
	if err != nil || string(out.Record.Value) != "__debezium_unavailable_value" {
		t.Errorf("%+v, %v", out, err)
	}
}

// What was renamed on expansion is null in Debezium.
func TestRenamedFields(t *testing.T) {
	t.Parallel()
	options := []string{"value.converter=" + jsonConverter, "value.converter.schemas.enable=false", ".table.expand.json.payload=true", ".field.name.adjustment.mode=avro"}
	for want, s := range map[string]Settings{`{"a_b":null,"ok":1}`: {}, `{"a_b":7,"ok":1}`: {RenamedFields: true}} {
		r := routed(t, outbox(connector(t, s, options...)), row(`{"a.b": 7, "ok": 1}`))
		if string(r.Value) != want {
			t.Errorf("%s, want %s", r.Value, want)
		}
	}
}

// With errors.tolerance=all a payload that fails half-way is dropped, as by
// Debezium; otherwise it is published as the text it is.
func TestHalfFailedExpansion(t *testing.T) {
	t.Parallel()
	options := []string{"value.converter=" + jsonConverter, "value.converter.schemas.enable=false", ".table.expand.json.payload=true"}
	out, err := outbox(connector(t, Settings{}, options...)).Route(Insert, row(`[1]`), nil)
	if err != nil || string(out.Record.Value) != `"[1]"` || out.Warning == "" {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err = outbox(connector(t, Settings{}, append(options, "errors.tolerance=all")...)).Route(Insert, row(`[1]`), nil); err == nil {
		t.Errorf("published: %+v", out)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	k := connector(t, Settings{}, "transforms=outbox,a,b,c", "transforms.a.type="+transforms+"InsertHeader", "transforms.a.header=origin", "transforms.a.value.literal=shop",
		"transforms.b.type="+transforms+"DropHeaders", "transforms.b.headers=id", "transforms.c.type="+transforms+"RegexRouter",
		`transforms.c.regex=outbox\.event\.(.*)`, "transforms.c.replacement=$1s")
	r := routed(t, outbox(k), row("{}"))
	if r.Topic != "orders" || len(r.Headers) != 1 || r.Headers[0].Key != "origin" || string(r.Headers[0].Value) != "shop" {
		t.Errorf("%+v", r)
	}
}

// A column that comes later, or of another type, gives the envelope another
// schema; another aggregate type does not.
func TestEnvelopeAfterAChange(t *testing.T) {
	t.Parallel()
	c := connector(t, Settings{}, "value.converter="+jsonConverter, ".table.fields.additional.placement=type:envelope,n:envelope", ".table.field.additional.missing=ignore")
	type4, type8 := Type{OID: oidInt4}, Type{OID: oidInt8}
	payment := row("{}", "1")
	payment[1] = []byte("payment")
	for _, step := range []struct {
		table  *Table
		values [][]byte
		want   string
	}{
		{outbox(c), row("{}"), `"name":"p.public.outbox.order.Value"},"payload":{"payload":"{}","type":"Placed"}}`},
		{outbox(c, Column{Name: "n", Type: type4}), payment, `{"type":"int32","optional":true,"field":"n"}],"optional":false,"name":"p.public.outbox.payment.Value"},"payload":{"payload":"{}","type":"Placed","n":1}}`},
		{outbox(c, Column{Name: "n", Type: type8}), row("{}", "2"), `{"type":"int64","optional":true,"field":"n"}],"optional":false,"name":"p.public.outbox.order.Value"},"payload":{"payload":"{}","type":"Placed","n":2}}`},
		{outbox(c, Column{Name: "n", Type: type8}), payment, `{"type":"int64","optional":true,"field":"n"}],"optional":false,"name":"p.public.outbox.order.Value"},"payload":{"payload":"{}","type":"Placed","n":1}}`},
	} {
		if got := string(routed(t, step.table, step.values).Value); !strings.HasSuffix(got, step.want) {
			t.Errorf("%s\nwant …%s", got, step.want)
		}
	}
}

func TestStepsWithPredicates(t *testing.T) {
	t.Parallel()
	options := []string{"transforms=outbox,drop,mark", "transforms.drop.type=" + transforms + "Filter", "transforms.drop.predicate=test",
		"transforms.mark.type=" + transforms + "InsertHeader", "transforms.mark.header=n", "transforms.mark.value.literal=12",
		"transforms.mark.predicate=test", "transforms.mark.negate=true", "predicates=test",
		"predicates.test.type=" + topicMatches, `predicates.test.pattern=.*\.test`}
	table := outbox(connector(t, Settings{}, options...))
	if r := routed(t, table, row("{}")); len(r.Headers) != 2 || string(r.Headers[1].Value) != "12" {
		t.Errorf("%+v", r)
	}
	values := row("{}")
	values[1] = []byte("test")
	if out, err := table.Route(Insert, values, nil); err != nil || out.Ignored != "filtered" {
		t.Errorf("%+v, %v", out, err)
	}
}

func BenchmarkRoute(b *testing.B) {
	c, err := Parse(with(), Settings{})
	if err != nil {
		b.Fatal(err)
	}
	t, values := outbox(c), row(`{"item": "book", "qty": 1, "note": "some two hundred bytes of it"}`)
	b.ReportAllocs()
	for b.Loop() {
		if out, err := t.Route(Insert, values, nil); err != nil || out.Record == nil {
			b.Fatal(err)
		}
	}
}
