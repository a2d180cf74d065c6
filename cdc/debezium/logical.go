package debezium

import (
	"chorus/cdc/connect"
)

// Message makes a record of a logical decoding message (pg_logical_emit_message)
// whose content is a JSON document with the columns of an outbox row.
func (c *Connector) Message(prefix string, content []byte) (Outcome, error) {
	if !passes(c.prefixes, c.excludedPrefixes, prefix) {
		return Outcome{}, nil
	}
	if c.decode == nil {
		return Outcome{Ignored: "message"}, nil
	}
	if c.kinds.binary != "bytes" {
		return Outcome{}, rowErrorf("message with prefix %q: its content is decoded only with binary.handling.mode=bytes", prefix)
	}
	row, err := c.content(string(content))
	if err != nil {
		return Outcome{}, rowErrorf("message with prefix %q: %v", prefix, err)
	}
	p := c.places(row.Schema)
	return c.route(row, &p, nil)
}

func (c *Connector) content(text string) (*connect.Struct, error) {
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, rowErrorf("content is no JSON document")
	}
	n, err := parse(text)
	if err != nil {
		return nil, err
	}
	s, err := c.decode.schema("", n)
	if err != nil {
		return nil, err
	}
	v, err := c.decode.data(n, s)
	if err != nil {
		return nil, err
	}
	return v.(*connect.Struct), nil
}
