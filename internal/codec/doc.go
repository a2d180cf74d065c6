// Package codec gives facts their bytes: the value of a record as Avro in
// Confluent's framing or as plain JSON, and the headers beside it (D4, D9). It is the only package that imports goavro.
//
// A value is one of
//
//	00, schema id (4 bytes, big endian), Avro body     written in the Avro format
//	{"customer":"C-1","currency":"EUR",…}              written in the JSON format
//
// and is read by its first byte, so a cluster can change its format while topics still hold the other. Facts are
// written in the schemas of package schemas. They are read with the schema they were written with, which the frame's id names,
// and then matched to the present one by field name: fields that are new here take their defaults, fields
// that are unknown here are dropped, an enum's unknown symbol becomes the enum's default.
//
// In JSON the fields have the same names and order; an instant is RFC 3339 in UTC with
// microseconds, a number that is missing is null, whole numbers are exact and must be written as digits alone (1e3 and
// 10.0 are refused: who writes them has been through a float).
//
// The package stores nothing and sends nothing. Encode, Decode, Row and Envelope do no I/O at all: the ids are given to
// New, and a frame with another id is an ErrUnknownSchema that Learn can cure by asking the registry. A registry that is away
// therefore stops nothing that is known.
package codec
