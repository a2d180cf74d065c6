package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The types whose binary form is read, by their OIDs, which never change.
const (
	boolOID        = 16
	nameOID        = 19
	int8OID        = 20
	int2OID        = 21
	int4OID        = 23
	textOID        = 25
	jsonOID        = 114
	bpcharOID      = 1042
	varcharOID     = 1043
	timestamptzOID = 1184
	uuidOID        = 2950
	jsonbOID       = 3802
)

// BinaryTypes are the types that an outbox's columns may have so that the server
// can send it in binary form, which is cheaper on both sides: a bytea is not
// printed as hex, an id not as text. A Row is the same.
func BinaryTypes() []uint32 {
	return []uint32{boolOID, byteaOID, nameOID, int8OID, int2OID, int4OID, textOID, jsonOID, bpcharOID, varcharOID, timestamptzOID, uuidOID, jsonbOID}
}

// ErrBinary is a column of a type whose binary form is not read. The stream is
// to be read again as text.
var ErrBinary = errors.New("binary form is not known")

// longestText is how long the text of a value can be that is not text itself.
const longestText = 40

// printed appends to scratch what PostgreSQL prints for a value in binary form,
// and returns it, or the value itself when that is it already.
func printed(scratch []byte, oid uint32, v []byte) (text, grown []byte, err error) {
	start := len(scratch)
	switch oid {
	case textOID, varcharOID, bpcharOID, nameOID, jsonOID, byteaOID:
		return v, scratch, nil
	case jsonbOID:
		if len(v) == 0 || v[0] != 1 {
			return nil, scratch, fmt.Errorf("%w: jsonb of another version", ErrBinary)
		}
		return v[1:], scratch, nil
	}
	size := sizeOf(oid)
	switch {
	case size == 0:
		return nil, scratch, fmt.Errorf("%w: of type %d", ErrBinary, oid)
	case len(v) != size:
		return nil, scratch, fmt.Errorf("%w: value of type %d with %d bytes", ErrProtocol, oid, len(v))
	}
	switch oid {
	case boolOID:
		scratch = append(scratch, "ft"[v[0]&1])
	case int2OID:
		scratch = strconv.AppendInt(scratch, int64(int16(binary.BigEndian.Uint16(v))), 10)
	case int4OID:
		scratch = strconv.AppendInt(scratch, int64(int32(binary.BigEndian.Uint32(v))), 10)
	case int8OID:
		scratch = strconv.AppendInt(scratch, int64(binary.BigEndian.Uint64(v)), 10)
	case timestamptzOID:
		scratch = appendTimestamp(scratch, int64(binary.BigEndian.Uint64(v)))
	case uuidOID:
		scratch = appendUUID(scratch, v)
	}
	return scratch[start:len(scratch):len(scratch)], scratch, nil
}

// sizeOf is how long a value in binary form is; 0 for a type that is not read.
func sizeOf(oid uint32) int {
	switch oid {
	case boolOID:
		return 1
	case int2OID:
		return 2
	case int4OID:
		return 4
	case int8OID, timestamptzOID:
		return 8
	case uuidOID:
		return 16
	}
	return 0
}

func appendUUID(to, v []byte) []byte {
	const digits = "0123456789abcdef"
	for i, b := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			to = append(to, '-')
		}
		to = append(to, digits[b>>4], digits[b&15])
	}
	return to
}

// appendTimestamp prints as DateStyle ISO and TimeZone UTC do.
func appendTimestamp(to []byte, micros int64) []byte {
	switch micros {
	case -1 << 63:
		return append(to, "-infinity"...)
	case 1<<63 - 1:
		return append(to, "infinity"...)
	}
	t := instant(micros)
	year, month, day := t.Date()
	before := year < 1
	if before {
		year = 1 - year
	}
	to = digits(to, year, 4)
	to = digits(append(to, '-'), int(month), 2)
	to = digits(append(to, '-'), day, 2)
	to = digits(append(to, ' '), t.Hour(), 2)
	to = digits(append(to, ':'), t.Minute(), 2)
	to = digits(append(to, ':'), t.Second(), 2)
	if us := t.Nanosecond() / int(time.Microsecond); us != 0 {
		to = digits(append(to, '.'), us, 6)
		for to[len(to)-1] == '0' {
			to = to[:len(to)-1]
		}
	}
	to = append(to, "+00"...)
	if before {
		to = append(to, " BC"...)
	}
	return to
}

// digits appends n >= 0 with at least so many digits.
func digits(to []byte, n, width int) []byte {
	start := len(to)
	for ; n > 0 || len(to)-start < width; n /= 10 {
		to = append(to, byte('0'+n%10))
	}
	slices.Reverse(to[start:])
	return to
}
