package connect

import (
	"math"
	"math/big"
	"testing"
)

// What Java 17 prints.
func TestAppendDouble(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]float64{
		"0.0": 0, "-0.0": math.Copysign(0, -1), "1.0": 1, "-1.5": -1.5, "100.0": 100, "0.001": 0.001, "9.99E-4": 0.000999,
		"1.0E-7": 1e-7, "1.0E7": 1e7, "9999999.0": 9999999, "1.2345678E7": 12345678, "1.0E20": 100000000000000000000.5,
		"4.9E-324": 5e-324, "1.7976931348623157E308": math.MaxFloat64, "0.12345678901234568": 0.1234567890123456789,
		"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "123456.789": 123456.789, "0.1": 0.1,
	} {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%g is printed %s, want %s", f, got, want)
		}
	}
	for want, f := range map[string]float32{"0.1": 0.1, "1.6777216E7": 1 << 24, "3.4028235E38": math.MaxFloat32, "1.4E-45": math.SmallestNonzeroFloat32} {
		if got := string(AppendFloat(nil, f)); got != want {
			t.Errorf("%g is printed %s, want %s", f, got, want)
		}
	}
}

// BigDecimal's and BigInteger's own examples.
func TestDecimal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, plain, scientific string
		bytes                   []byte
	}{
		{"12.50", "12.50", "12.50", []byte{0x04, 0xe2}},
		{"-12.50", "-12.50", "-12.50", []byte{0xfb, 0x1e}},
		{"0", "0", "0", []byte{0}},
		{"0.0000001", "0.0000001", "1E-7", []byte{1}},
		{"0.000001", "0.000001", "0.000001", []byte{1}},
		{"-128", "-128", "-128", []byte{0x80}},
		{"128", "128", "128", []byte{0, 0x80}},
		{"-129", "-129", "-129", []byte{0xff, 0x7f}},
		{"-256", "-256", "-256", []byte{0xff, 0x00}},
	} {
		d, ok := ParseDecimal(c.text)
		if !ok || d.Plain() != c.plain || d.String() != c.scientific || string(d.TwosComplement()) != string(c.bytes) {
			t.Errorf("%s: %s, %s, %x (%t)", c.text, d.Plain(), d, d.TwosComplement(), ok)
		}
	}
	if got := (Decimal{big.NewInt(123), -2}).String(); got != "1.23E+4" {
		t.Errorf("of a negative scale: %s", got)
	}
	if _, ok := ParseDecimal("NaN"); ok {
		t.Error("NaN is a decimal")
	}
	if d, ok := (Decimal{big.NewInt(125), 2}).Rescale(1); ok {
		t.Errorf("1.25 has one digit: %s", d)
	}
	if got := (Decimal{big.NewInt(1100), 3}).Stripped(); got.Plain() != "1.1" {
		t.Errorf("stripped: %s", got.Plain())
	}
}

func TestConverters(t *testing.T) {
	t.Parallel()
	text := &Schema{Type: String, Optional: true, Name: "x.Y", Version: 1, Default: "d"}
	pair := &Schema{Type: StructType, Name: "p", Fields: []Field{{"a", &Schema{Type: Int32, Optional: true}}, {"b", &Schema{Type: Array, Items: &Schema{Type: String}, Optional: true}}}}
	full := &Struct{Schema: pair, Values: []any{int32(1), []any{`q"`, "r"}}}
	half := &Struct{Schema: pair, Values: []any{nil, nil}}
	for name, c := range map[string]struct {
		by     Converter
		schema *Schema
		value  any
		want   string // "<nil>" for null
	}{
		"null text":              {StringConverter{}, text, nil, "<nil>"},
		"empty text is no null":  {StringConverter{}, text, "", ""},
		"bytes as Java has them": {StringConverter{}, nil, []byte{1, 2}, "java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]"},
		"struct by toString":     {StringConverter{}, pair, full, `Struct{a=1,b=[q", r]}`},
		"null fields left out":   {StringConverter{}, pair, half, "Struct{}"},
		"simple struct":          {SimpleHeaderConverter{}, pair, full, `{"a":1,"b":["q\"","r"]}`},
		"simple null in struct":  {SimpleHeaderConverter{}, pair, half, `{"a":null,"b":null}`},
		"simple bytes":           {SimpleHeaderConverter{}, nil, []byte{1, 255}, "Af8="},
		"JSON default for null":  {JSONConverter{}, text, nil, `"d"`},
		"JSON of no schema":      {JSONConverter{}, nil, nil, "<nil>"},
		"JSON with schema": {JSONConverter{Schemas: true}, text, "v",
			`{"schema":{"type":"string","optional":true,"name":"x.Y","version":1,"default":"d"},"payload":"v"}`},
		"JSON struct": {JSONConverter{Schemas: true}, pair, full,
			`{"schema":{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"},{"type":"array","items":{"type":"string","optional":false},"optional":true,"field":"b"}],"optional":false,"name":"p"},"payload":{"a":1,"b":["q\"","r"]}}`},
		"JSON escapes":          {JSONConverter{}, nil, "\u00e9\U0001f600\x01\u2028/<\x7f", "\"\u00e9\\uD83D\\uDE00\\u0001\u2028/<\x7f\""},
		"JSON infinity":         {JSONConverter{}, nil, math.Inf(1), `"Infinity"`},
		"JSON decimal":          {JSONConverter{}, nil, Decimal{big.NewInt(1250), 2}, `"BOI="`},
		"JSON numeric decimal":  {JSONConverter{Numeric: true}, nil, Decimal{big.NewInt(1250), 2}, "12.50"},
		"binary passes bytes":   {BinaryDataConverter{}, &Schema{Type: Bytes}, []byte("x"), "x"},
		"binary with delegate":  {BinaryDataConverter{Delegate: JSONConverter{}}, text, "x", `"x"`},
		"binary without schema": {BinaryDataConverter{}, nil, nil, "<nil>"},
		"long":                  {NumberConverter{Int64}, &Schema{Type: Int64}, int64(1), "\x00\x00\x00\x00\x00\x00\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.by.Convert("value", c.schema, c.value)
			if err != nil {
				t.Fatal(err)
			}
			text := string(got)
			if got == nil {
				text = "<nil>"
			}
			if text != c.want {
				t.Errorf("%s\nwant %s", text, c.want)
			}
		})
	}
}

func TestConvertersRefuse(t *testing.T) {
	t.Parallel()
	required := &Schema{Type: String}
	for name, c := range map[string]struct {
		by     Converter
		schema *Schema
		value  any
	}{
		"text by ByteArrayConverter":        {ByteArrayConverter{}, required, "x"},
		"text without delegate":             {BinaryDataConverter{}, required, "x"},
		"null text without delegate":        {BinaryDataConverter{}, required, nil},
		"null of a required field":          {JSONConverter{}, required, nil},
		"text where the schema says struct": {JSONConverter{}, &Schema{Type: StructType}, "{}"},
		"text by LongConverter":             {NumberConverter{Int64}, required, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := c.by.Convert("value", c.schema, c.value); err == nil {
				t.Errorf("accepted: %q", got)
			}
		})
	}
}
