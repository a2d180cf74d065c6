package debezium

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"chorus/cdc/connect"
)

// point is the struct of a point: its coordinates, and both as well-known binary.
func point() (*connect.Schema, convert) {
	s := &connect.Schema{Type: connect.StructType, Name: "io.debezium.data.geometry.Point", Version: 1, Doc: "Geometry (POINT)", Fields: []connect.Field{
		{Name: "x", Schema: &connect.Schema{Type: connect.Float64}}, {Name: "y", Schema: &connect.Schema{Type: connect.Float64}},
		{Name: "wkb", Schema: optionalBytes}, {Name: "srid", Schema: optionalInt32}}}
	return s, func(b []byte) (any, error) {
		first, second, ok := strings.Cut(strings.Trim(string(b), "()"), ",")
		x, err1 := strconv.ParseFloat(first, 64)
		y, err2 := strconv.ParseFloat(second, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, fmt.Errorf("point %q", b)
		}
		wkb := []byte{1, 1, 0, 0, 0} // little-endian, a point
		wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(x))
		wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(y))
		return &connect.Struct{Schema: s, Values: []any{x, y, wkb, nil}}, nil
	}
}
