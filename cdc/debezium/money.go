package debezium

import (
	"fmt"
	"strconv"
	"strings"

	"chorus/cdc/connect"
)

// money reads amounts with two digits after the point, as lc_monetary C and the
// English locales print them; other forms are refused, not guessed.
func (k kinds) money() (*connect.Schema, convert) {
	parse := func(b []byte) (connect.Decimal, error) {
		text := strings.NewReplacer("$", "", ",", "").Replace(string(b))
		if inner, negative := strings.CutPrefix(text, "("); negative {
			text = "-" + strings.TrimSuffix(inner, ")")
		}
		d, ok := connect.ParseDecimal(text)
		if ok {
			d, ok = d.Rescale(2)
		}
		if !ok {
			return d, fmt.Errorf("amount %q is not printed as by lc_monetary C", b)
		}
		return d, nil
	}
	switch k.decimal {
	case "double":
		return &connect.Schema{Type: connect.Float64}, func(b []byte) (any, error) {
			d, err := parse(b)
			if err != nil {
				return nil, err
			}
			return strconv.ParseFloat(d.Plain(), 64)
		}
	case "string":
		return &connect.Schema{Type: connect.String}, func(b []byte) (any, error) {
			d, err := parse(b)
			if err != nil {
				return nil, err
			}
			return d.Plain(), nil
		}
	}
	return &connect.Schema{Type: connect.Bytes, Name: connect.DecimalName, Version: 1, Parameters: []connect.Parameter{{Key: "scale", Value: "2"}}},
		func(b []byte) (any, error) { return parse(b) }
}
