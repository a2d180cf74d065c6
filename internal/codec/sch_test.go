package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/linkedin/goavro/v2"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
	"chorus/schemas"
)

// schemaOf returns the present schema of a fact, each old text replaced by the new one after it.
func schemaOf(t testing.TB, typ event.Type, oldNew ...string) string {
	t.Helper()
	for _, s := range schemas.List() {
		if s.Type != string(typ) {
			continue
		}
		for i := 0; i < len(oldNew); i += 2 {
			if !strings.Contains(s.Text, oldNew[i]) {
				t.Fatalf("schema of %s has no %s", typ, oldNew[i])
			}
			s.Text = strings.ReplaceAll(s.Text, oldNew[i], oldNew[i+1])
		}
		return s.Text
	}
	t.Fatalf("no schema of %s", typ)
	return ""
}

// framed returns native as another program would write it.
func framed(t testing.TB, id int, schema string, native any) []byte {
	t.Helper()
	c, err := goavro.NewCodec(schema)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, frameSize)
	binary.BigEndian.PutUint32(buf[1:], uint32(id))
	if buf, err = c.BinaryFromNative(buf, native); err != nil {
		t.Fatal(err)
	}
	return buf
}

// convert writes native with one schema and reads it with another.
func convert(t *testing.T, writer, reader string, native any) (any, error) {
	t.Helper()
	w, err := avsc.Parse(writer)
	if err != nil {
		t.Fatal(err)
	}
	r, err := avsc.Parse(reader)
	if err != nil {
		t.Fatal(err)
	}
	c, err := goavro.NewCodec(writer)
	if err != nil {
		t.Fatal(err)
	}
	v, rest, err := c.NativeFromBinary(framed(t, 1, writer, native)[frameSize:])
	if err != nil || len(rest) > 0 {
		t.Fatal(err, rest)
	}
	return resolve(w, r, v, "")
}

func wantError(t *testing.T, what string, err, kind error, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %v that says %q", what, err, kind, text)
	}
}

func TestSCH01MissingNullableField(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":null},{"name":"b","type":["null","string"],"default":null}]}`
	b := goavro.Union("string", "n")
	got, err := convert(t, schema, schema, map[string]any{"b": b})
	if diff := cmp.Diff(any(map[string]any{"a": nil, "b": b}), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	c := Embedded()
	for _, f := range []event.Fact{
		event.PaymentTaken{Processor: "n"}, event.PaymentTaken{Payment: "n"}, event.PaymentRefunded{Reason: "n"}, event.StockReleased{}, event.ShipmentCancelled{},
	} {
		value, err := c.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.Decode(f.Type(), value)
		if diff := cmp.Diff(f, back); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

func TestSCH04UnknownEnumSymbol(t *testing.T) {
	t.Parallel()
	const of = `"symbols": ["CLEAR", "REVIEW", "REJECT", "UNAVAILABLE"`
	screened := schemaOf(t, "OrderScreened", of, of+`, "FIFTH", "SIXTH"`)
	value := framed(t, 77, screened, map[string]any{"score": 5, "verdict": "SIXTH", "reason": ""})
	if i := bytes.Index(value[frameSize:], []byte{0x0a, 0x0a}); i != 0 {
		t.Fatalf("the writer's bytes are % x", value)
	}
	c := learned(t, map[int]string{
		77: screened,
		78: schemaOf(t, "UndoStuck", `"payment"]`, `"payment", "customs"]`),
		79: schemaOf(t, "OrderCancelled", `"TIMED_OUT"]`, `"TIMED_OUT", "COURT"]`),
	})
	got, err := c.Decode("OrderScreened", value)
	if diff := cmp.Diff(event.Fact(event.OrderScreened{Score: 5, Verdict: event.Unavailable}), got); err != nil || diff != "" {
		t.Error("an unknown verdict is no leave to charge:", err, diff)
	}
	got, err = c.Decode("OrderCancelled", framed(t, 79, schemaOf(t, "OrderCancelled", `"TIMED_OUT"]`, `"TIMED_OUT", "COURT"]`), map[string]any{"reason": "COURT"}))
	if diff := cmp.Diff(event.Fact(event.OrderCancelled{Reason: event.ByOperator}), got); err != nil || diff != "" {
		t.Error("an unknown reason is neither the customer nor the clock:", err, diff)
	}
	stuck := func(step string) []byte {
		return framed(t, 78, schemaOf(t, "UndoStuck", `"payment"]`, `"payment", "customs"]`), map[string]any{"step": step, "reason": ""})
	}
	_, err = c.Decode("UndoStuck", stuck("customs"))
	wantError(t, "step of a newer version", err, ErrUndecodable, `value step: "unknown" is none of`)
	if _, err = c.Decode("UndoStuck", stuck("payment")); err != nil {
		t.Errorf("the next record: %v", err)
	}
	_, err = c.Decode("OrderPlaced", []byte(strings.Replace(placedJSON(t), "domestic", "drone", 1)))
	wantError(t, "shipping type of a newer version, in JSON", err, ErrUndecodable, `value shippingType: "unknown"`)

	two, six := `{"type":"enum","name":"E","symbols":["A","B"]}`, `{"type":"enum","name":"E","symbols":["A","B","C","D","E","F"]}`
	_, err = convert(t, six, two, "F")
	wantError(t, "enum without default", err, ErrUndecodable, "F is no E that this version knows")
	v, err := convert(t, six, strings.Replace(two, "]}", `,"UNKNOWN"],"default":"UNKNOWN"}`, 1), "F")
	if v != "UNKNOWN" || err != nil {
		t.Errorf("enum with default: %v, %v", v, err)
	}
}

func TestSCH06ShortForeignAndImpossibleFrames(t *testing.T) {
	t.Parallel()
	c := Embedded()
	good, err := c.Encode(event.OrderFailed{Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		what  string
		value []byte
		kind  error
		want  string
	}{
		{"null", nil, ErrUndecodable, "value: is null"},
		{"empty", []byte{}, ErrUndecodable, "value: is empty"},
		{"one byte", unhex("00"), ErrUndecodable, "1 bytes are too few"},
		{"four bytes", unhex("00000000"), ErrUndecodable, "4 bytes are too few"},
		{"text", []byte("abcd"), ErrUndecodable, "begins with byte 0x61"},
		{"another magic", unhex("02000000010272"), ErrUndecodable, "begins with byte 0x02"},
		{"JSON of something else", []byte(`{"json":1}`), ErrUndecodable, "value reason: is missing"},
		{"id 0", unhex("00000000000272"), ErrUndecodable, "no registry gives schema id 0"},
		{"id of 32 bits", unhex("00ffffffff0272"), ErrUndecodable, "no registry gives schema id 4294967295"},
		{"unknown id", unhex("007fffffff0272"), ErrUnknownSchema, "schema id 2147483647 is not known"},
		{"8-byte id", unhex("0000000000000000050272"), ErrUndecodable, "no registry gives schema id 0"},
		{"id of another fact", unhex("00000000040272"), ErrUndecodable, "schema id 4 is that of OrderRejected, the eventType header says OrderFailed"},
		{"no body", unhex("0000000005"), ErrUndecodable, "does not fit schema id 5"},
		{"short body", unhex("0000000005047a"), ErrUndecodable, "does not fit schema id 5"},
		{"negative length", unhex("000000000501"), ErrUndecodable, "does not fit schema id 5"},
		{"huge length", unhex("0000000005feffffffffffffffff01"), ErrUndecodable, "does not fit schema id 5"},
		{"left over", append(bytes.Clone(good), 0), ErrUndecodable, "1 bytes are left over"},
		{"not UTF-8", unhex("000000000502ff"), ErrUndecodable, "value reason: is not UTF-8"},
	}
	for _, k := range cases {
		_, err := c.Decode("OrderFailed", k.value)
		wantError(t, k.what, err, k.kind, k.want)
		if _, err := c.Decode("OrderFailed", good); err != nil {
			t.Errorf("the good record after %s: %v", k.what, err)
		}
	}
	// Two billion lines, said in five bytes: memory for them may not be taken on trust.
	_, err = c.Decode("OrderPlaced", unhex("00000000010000"+"feffffff0f"))
	wantError(t, "huge array", err, ErrUndecodable, "block count exceeds")
	_, err = c.Decode("Stranger", good)
	wantError(t, "unknown type", err, ErrUnknownType, "Stranger")
}

func TestSCH07DecimalsStayAsWritten(t *testing.T) {
	t.Parallel()
	c := Embedded()
	for _, price := range []string{"2.55", "40.20", "-0.01", "1.27", "1.28", "92233720368547758.08", "0.10", "1e3"} {
		f := cart(1)
		f.Lines[0].UnitPrice = price
		value, err := c.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.Decode(f.Type(), value)
		if err != nil {
			t.Fatal(err)
		}
		if got := back.(event.OrderPlaced).Lines[0].UnitPrice; got != price {
			t.Errorf("%s came back as %s", price, got)
		}
	}
	_, err := c.Decode("OrderPlaced", []byte(strings.Replace(placedJSON(t), `"1.25"`, `1.25`, 1)))
	wantError(t, "float as price", err, ErrUndecodable, "value lines[0].unitPrice: want string")
}

func TestSCH10WholeNumbersAreExact(t *testing.T) {
	t.Parallel()
	c := Embedded()
	for number, want := range map[string]int64{
		"9007199254740993": 9007199254740993, "-9007199254740993": -9007199254740993, "9223372036854775807": 9223372036854775807, "0": 0, "-0": 0,
	} {
		f, err := c.Decode("PaymentTaken", []byte(`{"payment":"P","processor":"x","amount":`+number+`,"currency":"EUR"}`))
		if err != nil || f.(event.PaymentTaken).Amount != want {
			t.Errorf("%s: got %v, %v", number, f, err)
		}
	}
	for _, number := range []string{"1e3", "10.0", "9223372036854775808", "-9223372036854775809", `"5"`, "null", "true", "1e400000000", "[]", "{}"} {
		_, err := c.Decode("PaymentTaken", []byte(`{"payment":"P","processor":"x","amount":`+number+`,"currency":"EUR"}`))
		wantError(t, number, err, ErrUndecodable, "value amount")
	}
}

func TestSCH14FieldMissingInDataAndTarget(t *testing.T) {
	t.Parallel()
	list := func(fields string) string {
		return `{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"id","type":"long"}` + fields + `]}}`
	}
	tags := `,{"name":"tags","type":{"type":"array","items":"string"},"default":[]}`
	note := `,{"name":"note","type":"string","default":""}`
	two := []any{map[string]any{"id": 1}, map[string]any{"id": 2}}
	for reader, want := range map[string][]any{
		list(note + tags): {map[string]any{"id": int64(1), "note": "", "tags": []any{}}, map[string]any{"id": int64(2), "note": "", "tags": []any{}}},
		list(tags):        {map[string]any{"id": int64(1), "tags": []any{}}, map[string]any{"id": int64(2), "tags": []any{}}},
	} {
		got, err := convert(t, list(""), reader, two)
		if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	_, err := convert(t, list(""), list(`,{"name":"must","type":"string"}`), two)
	wantError(t, "field without default", err, ErrUndecodable, "value [0].must: was not written")
}

// TestNewerWriter reads facts of a version that has more fields, wider where it may be, and lacks none.
func TestNewerWriter(t *testing.T) {
	t.Parallel()
	text := schemaOf(t, "PaymentTaken", `"fields": [`, `"fields": [
		{"name":"fee","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2},"default":""},
		{"name":"parts","type":{"type":"array","items":{"type":"record","name":"Part","fields":[{"name":"to","type":"string"}]}},"default":[]},`)
	c := learned(t, map[int]string{501: text})
	value := framed(t, 501, text, map[string]any{
		"parts": []any{map[string]any{"to": "a"}}, "payment": goavro.Union("string", "P"), "processor": nil, "amount": 9007199254740993, "currency": "EUR",
	})
	got, err := c.Decode("PaymentTaken", value)
	if diff := cmp.Diff(event.Fact(event.PaymentTaken{Payment: "P", Amount: 9007199254740993, Currency: "EUR"}), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = c.Decode("PaymentTaken", []byte(`{"fee":{"a":[1,{}]},"payment":"P","amount":9007199254740993,"currency":"EUR","parts":[]}`))
	if diff := cmp.Diff(event.Fact(event.PaymentTaken{Payment: "P", Amount: 9007199254740993, Currency: "EUR"}), got); err != nil || diff != "" {
		t.Error("JSON:", err, diff)
	}
}

func TestBrokenJSON(t *testing.T) {
	t.Parallel()
	c := Embedded()
	for value, want := range map[string]string{
		`{`:                           "broken JSON",
		`{"reason":"a"`:               "broken JSON",
		`{"reason":"a"}{}`:            "more after",
		`{"reason":"a"} x`:            "more after",
		`{"reason":"a","reason":""}`:  "value reason: is there twice",
		`{"x":1,"x":2,"reason":"a"}`:  "value x: is there twice",
		`{"Reason":"a"}`:              "value reason: is missing",
		`{"reason":null}`:             "value reason: want string",
		`{"reason":"` + "\xff" + `"}`: "not UTF-8",
		`{"reason":"a","x":` + strings.Repeat("[", 20_000) + `}`: "value x: is broken JSON",
	} {
		_, err := c.Decode("OrderFailed", []byte(value))
		wantError(t, value[:min(len(value), 40)], err, ErrUndecodable, want)
	}
}

func placedJSON(t testing.TB) string {
	t.Helper()
	value, err := newCodec(t, JSON).Encode(cart(1))
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// TestManyUnknownFields: what a value costs follows its length.
func TestManyUnknownFields(t *testing.T) {
	t.Parallel()
	var value strings.Builder
	value.WriteString(`{"reason":""`)
	for i := range 200_000 {
		fmt.Fprintf(&value, `,"x%d":0`, i)
	}
	value.WriteString("}")
	begun := time.Now()
	if _, err := newCodec(t, Avro).Decode("OrderShipped", []byte(value.String())); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("%d bytes took %s", value.Len(), took)
	}
}
