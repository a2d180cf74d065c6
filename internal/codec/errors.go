package codec

import "errors"

// What can be wrong with a record. Each is for ever, except ErrUnknownSchema, which Learn may cure.
var (
	ErrHeader        = errors.New("bad key or header")    // missing, given twice or malformed
	ErrUnknownType   = errors.New("unknown event type")   // eventType names no fact of the catalogue
	ErrUnknownSchema = errors.New("unknown schema")       // a good frame whose schema id is not known
	ErrUndecodable   = errors.New("value cannot be read") // bytes, schema and fact do not go together
)

// Error says what is wrong with a record, for a dead letter and for the person who reads it. It
// holds no payload beyond the faulty piece.
type Error struct {
	Kind     error  // one of the errors above; errors.Is finds it
	Part     string // of the record: "header id", "key", "value", "value lines[3].quantity"
	Reason   string // what is wrong with the part
	SchemaID int    // of ErrUnknownSchema: the id to learn; otherwise 0
}

func (e *Error) Error() string { return e.Part + ": " + e.Reason }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// quote shortens what a stranger wrote, so that an error text stays small whatever came in.
func quote(b []byte) string {
	const most = 80
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
