// Package connect holds what Kafka Connect does to a value on its way into a
// record: schemas, values, and the converters that make bytes of them, with the
// bytes of the originals. It is pure.
//
// A value is one of: nil, bool, int16, int32, int64, float32, float64, string,
// []byte, Decimal, []any and *Struct. Its Schema says which; a nil schema says
// nothing, as in Connect.
//
// The converters print numbers as Java does, and strings in JSON as Jackson
// does: characters beyond the basic plane are escaped, other ones are not,
// control characters have capital digits.
package connect
