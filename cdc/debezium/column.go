package debezium

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chorus/cdc/connect"
)

// Type is the type of a column, a domain's being that beneath it.
type Type struct {
	OID     uint32
	Mod     int32    // length, precision and scale as PostgreSQL keeps them; -1 for none
	Name    string   // of a type that has no fixed OID: "citext"
	Labels  []string // of an enum
	Element *Type    // of an array
}

// OIDs that are the same in every database.
const (
	oidBool, oidBytea, oidChar, oidName, oidInt8, oidInt2, oidInt4 = 16, 17, 18, 19, 20, 21, 23
	oidText, oidOID, oidJSON, oidXML, oidCIDR                      = 25, 26, 114, 142, 650
	oidFloat4, oidFloat8, oidMoney, oidMacaddr8, oidMacaddr        = 700, 701, 790, 774, 829
	oidInet, oidBpchar, oidVarchar, oidDate, oidTime               = 869, 1042, 1043, 1082, 1083
	oidTimestamp, oidTimestamptz, oidInterval, oidTimetz           = 1114, 1184, 1186, 1266
	oidPoint                                                       = 600
	oidBit, oidVarbit, oidNumeric, oidUUID, oidTSVector            = 1560, 1562, 1700, 2950, 3614
	oidJSONB, oidInt4Range, oidNumRange, oidTSRange                = 3802, 3904, 3906, 3908
	oidTSTZRange, oidDateRange, oidInt8Range                       = 3910, 3912, 3926
)

// convert makes a value of what PostgreSQL prints for one that is not NULL.
type convert func(text []byte) (any, error)

// kinds are the connector's options on how types become schemas.
type kinds struct {
	decimal string // decimal.handling.mode
	binary  string // binary.handling.mode
	time    string // time.precision.mode
}

// column gives the schema of a column, without optional and default, and its
// conversion; nil for a type that the connector leaves out.
func (k kinds) column(t Type) (*connect.Schema, convert) {
	plain := func(s connect.Type) *connect.Schema { return &connect.Schema{Type: s} }
	named := func(s connect.Type, name string) *connect.Schema {
		return &connect.Schema{Type: s, Name: name, Version: 1}
	}
	switch t.OID {
	case oidBool:
		return plain(connect.Boolean), func(b []byte) (any, error) { return string(b) == "t", nil }
	case oidInt2:
		return plain(connect.Int16), integer(16, func(n int64) any { return int16(n) })
	case oidInt4:
		return plain(connect.Int32), integer(32, func(n int64) any { return int32(n) })
	case oidInt8, oidOID:
		return plain(connect.Int64), integer(64, func(n int64) any { return n })
	case oidFloat4:
		return plain(connect.Float32), func(b []byte) (any, error) {
			f, err := strconv.ParseFloat(string(b), 32)
			return float32(f), err
		}
	case oidFloat8:
		return plain(connect.Float64), func(b []byte) (any, error) { return strconv.ParseFloat(string(b), 64) }
	case oidText, oidVarchar, oidBpchar, oidName, oidChar, oidInet, oidCIDR, oidMacaddr, oidMacaddr8,
		oidInt4Range, oidInt8Range, oidNumRange, oidTSRange, oidTSTZRange, oidDateRange:
		return plain(connect.String), asText
	case oidUUID:
		return named(connect.String, "io.debezium.data.Uuid"), asText
	case oidJSON, oidJSONB:
		return named(connect.String, jsonName), asText
	case oidXML:
		return named(connect.String, "io.debezium.data.Xml"), asText
	case oidTSVector:
		return named(connect.String, "io.debezium.data.Tsvector"), asText
	case oidBytea:
		return k.bytea()
	case oidNumeric:
		return k.numeric(t.Mod)
	case oidPoint:
		return point()
	case oidMoney:
		return k.money()
	case oidBit, oidVarbit:
		return bits(t)
	case oidDate, oidTime, oidTimestamp, oidTimestamptz, oidTimetz, oidInterval:
		return k.temporal(t)
	}
	switch {
	case t.Element != nil:
		return k.array(*t.Element)
	case t.Labels != nil:
		s := named(connect.String, "io.debezium.data.Enum")
		s.Parameters = []connect.Parameter{{Key: "allowed", Value: strings.Join(t.Labels, ",")}}
		return s, asText
	case t.Name == "citext":
		return plain(connect.String), asText
	case t.Name == "hstore":
		return named(connect.String, jsonName), hstore
	case t.Name == "ltree":
		return named(connect.String, "io.debezium.data.Ltree"), asText
	}
	return nil, nil
}

const jsonName = "io.debezium.data.Json"

func asText(b []byte) (any, error) { return string(b), nil }

func integer(bits int, of func(int64) any) convert {
	return func(b []byte) (any, error) {
		n, err := strconv.ParseInt(string(b), 10, bits)
		return of(n), err
	}
}

func (k kinds) bytea() (*connect.Schema, convert) {
	encode := binaryText(k.binary)
	if encode == nil {
		return &connect.Schema{Type: connect.Bytes}, func(b []byte) (any, error) { return unhex(b) }
	}
	return &connect.Schema{Type: connect.String}, func(b []byte) (any, error) {
		raw, err := unhex(b)
		return encode(raw), err
	}
}

// unhex reads the hex form of bytea_output.
func unhex(b []byte) ([]byte, error) {
	if len(b) < 2 || b[0] != '\\' || b[1] != 'x' {
		return nil, errors.New("bytea is not printed as hex")
	}
	raw := make([]byte, hex.DecodedLen(len(b)-2))
	_, err := hex.Decode(raw, b[2:])
	return raw, err
}

// numeric keeps its scale when the column has one.
func (k kinds) numeric(mod int32) (*connect.Schema, convert) {
	variable := mod < 4
	precision, scale := int((mod-4)>>16&0xffff), int(mod-4)&0x7ff
	if scale >= 1024 { // negative since PostgreSQL 15
		scale -= 2048
	}
	parse := func(b []byte) (connect.Decimal, error) {
		d, ok := connect.ParseDecimal(string(b))
		if !ok {
			return d, fmt.Errorf("%s is no decimal number; decimal.handling.mode=string takes it", b)
		}
		if !variable {
			d, ok = d.Rescale(scale)
			if !ok {
				return d, fmt.Errorf("%s has more digits than its column", b)
			}
		}
		return d, nil
	}
	switch {
	case k.decimal == "string":
		return &connect.Schema{Type: connect.String}, numericText(parse)
	case k.decimal == "double":
		return &connect.Schema{Type: connect.Float64}, func(b []byte) (any, error) { return strconv.ParseFloat(string(b), 64) }
	case variable:
		s := variableDecimal()
		return s, func(b []byte) (any, error) {
			d, err := parse(b)
			if err != nil {
				return nil, err
			}
			d = d.Stripped()
			return &connect.Struct{Schema: s, Values: []any{int32(d.Scale), d.TwosComplement()}}, nil
		}
	}
	s := &connect.Schema{Type: connect.Bytes, Name: connect.DecimalName, Version: 1, Parameters: []connect.Parameter{
		{Key: "scale", Value: strconv.Itoa(scale)}, {Key: "connect.decimal.precision", Value: strconv.Itoa(precision)}}}
	return s, func(b []byte) (any, error) { return parse(b) }
}

func numericText(parse func([]byte) (connect.Decimal, error)) convert {
	return func(b []byte) (any, error) {
		switch text := string(b); text {
		case "NaN":
			return "NAN", nil
		case "Infinity":
			return "POSITIVE_INFINITY", nil
		case "-Infinity":
			return "NEGATIVE_INFINITY", nil
		}
		d, err := parse(b)
		if err != nil {
			return nil, err
		}
		return d.Plain(), nil
	}
}

func variableDecimal() *connect.Schema {
	return &connect.Schema{Type: connect.StructType, Name: "io.debezium.data.VariableScaleDecimal", Version: 1, Doc: "Variable scaled decimal",
		Fields: []connect.Field{{Name: "scale", Schema: &connect.Schema{Type: connect.Int32}}, {Name: "value", Schema: &connect.Schema{Type: connect.Bytes}}}}
}

// bits are a boolean when there is one, else bytes, the lowest first.
func bits(t Type) (*connect.Schema, convert) {
	length := int(t.Mod)
	if length == 1 {
		return &connect.Schema{Type: connect.Boolean}, func(b []byte) (any, error) { return string(b) == "1", nil }
	}
	if length < 1 {
		length = 1<<31 - 1 // of a varbit without a limit
	}
	s := &connect.Schema{Type: connect.Bytes, Name: "io.debezium.data.Bits", Version: 1,
		Parameters: []connect.Parameter{{Key: "length", Value: strconv.Itoa(length)}}}
	return s, func(b []byte) (any, error) {
		var out []byte
		for i := range b {
			if b[len(b)-1-i] != '1' {
				continue
			}
			for len(out) <= i/8 {
				out = append(out, 0)
			}
			out[i/8] |= 1 << (i % 8)
		}
		if out == nil {
			out = []byte{}
		}
		return out, nil
	}
}

func (k kinds) array(element Type) (*connect.Schema, convert) {
	items, conv := k.column(element)
	if items == nil || element.Element != nil {
		return nil, nil
	}
	items.Optional = element.Labels == nil // as Debezium has it
	return &connect.Schema{Type: connect.Array, Items: items}, func(b []byte) (any, error) {
		texts, err := splitArray(b)
		if err != nil {
			return nil, err
		}
		list := make([]any, 0, len(texts))
		for _, text := range texts {
			if text == nil {
				list = append(list, nil)
				continue
			}
			v, err := conv(text)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
}

// splitArray splits the text of an array of one dimension; nil is NULL.
func splitArray(b []byte) ([][]byte, error) {
	if len(b) > 0 && b[0] == '[' { // bounds
		if _, after, ok := strings.Cut(string(b), "="); ok {
			b = []byte(after)
		}
	}
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return nil, errors.New("malformed array")
	}
	b = b[1 : len(b)-1]
	if len(b) == 0 {
		return nil, nil
	}
	var items [][]byte
	item, quoted, wasQuoted := []byte{}, false, false
	finish := func() {
		if !wasQuoted && strings.EqualFold(string(item), "NULL") {
			items = append(items, nil)
		} else {
			items = append(items, item)
		}
		item, wasQuoted = []byte{}, false
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\' && i+1 < len(b):
			i++
			item = append(item, b[i])
		case c == '"':
			quoted, wasQuoted = !quoted, true
		case c == '{' && !quoted:
			return nil, errors.New("arrays of more than one dimension are not supported")
		case c == ',' && !quoted:
			finish()
		default:
			item = append(item, c)
		}
	}
	finish()
	return items, nil
}
