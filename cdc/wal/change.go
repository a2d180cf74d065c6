package wal

import "fmt"

// Relation is a table as the stream announced it.
type Relation struct {
	OID     uint32 // of the table
	Table   Table
	Columns []Attribute
}

// Attribute is a column of a Relation.
type Attribute struct {
	Name string
	Key  bool // of the replica identity
	Type uint32
	Mod  int32
}

// Change is a row of any table. Its values are in the order of the Relation's
// columns, as PostgreSQL prints them, and live as long as the message; nil is
// NULL. A pointer to a Relation is the same until the table is announced again.
type Change struct {
	Relation *Relation
	New      [][]byte // nil for a delete
	Old      [][]byte // of an update or a delete what the replica identity gives; nil for none
}

// Message is a logical decoding message.
type Message struct {
	Transactional bool
	At            LSN // end of its record; one outside of transactions may be confirmed up to it
	Prefix        string
	Content       []byte // lives as long as the message it came in
}

// NewFeed reads the rows of all tables, and logical decoding messages. Unchanged
// is given for a value of an update that the server did not send.
func NewFeed(unchanged []byte) *Decoder {
	d := NewDecoder(Table{})
	d.feed = &feed{unchanged: unchanged, relations: map[uint32]*Relation{}}
	return d
}

// feed is what a Decoder of all tables keeps.
type feed struct {
	unchanged []byte
	relations map[uint32]*Relation
	change    Change
	message   Message
	new, old  [][]byte // scratch
}

func (f *feed) relation(b *body) {
	r := &Relation{OID: b.uint32()}
	r.Table = Table{Schema: b.text(), Name: b.text()}
	if r.Table.Schema == "" {
		r.Table.Schema = "pg_catalog"
	}
	b.uint8() // replica identity
	n := int(b.uint16())
	for i := 0; i < n && b.ok(); i++ {
		key := b.uint8()&1 != 0
		r.Columns = append(r.Columns, Attribute{Name: b.text(), Key: key, Type: b.uint32(), Mod: int32(b.uint32())})
	}
	if b.ok() {
		f.relations[r.OID] = r
	}
}

// row reads an insert, an update or a delete.
func (f *feed) row(d *Decoder, kind byte, b *body) (Event, error) {
	id := b.uint32()
	r := f.relations[id]
	switch {
	case !b.ok():
		return Event{}, nil // Decode reports it
	case !d.open:
		return Event{}, fmt.Errorf("%w: row outside of a transaction", ErrProtocol)
	case r == nil:
		return Event{}, fmt.Errorf("%w: row of relation %d, which was not announced", ErrProtocol, id)
	}
	f.change = Change{Relation: r}
	ev := Event{Kind: Insert, Tx: d.tx, Table: r.Table, Change: &f.change}
	switch kind {
	case 'U':
		ev.Kind = Update
	case 'D':
		ev.Kind = Delete
	}
	var err error
	part := b.uint8()
	if part == 'K' || part == 'O' {
		if f.old, err = f.tuple(r, b, f.old[:0]); err != nil {
			return Event{}, err
		}
		f.change.Old = f.old
		if kind != 'U' {
			return ev, nil
		}
		part = b.uint8()
	}
	if part != 'N' && b.ok() {
		return Event{}, fmt.Errorf("%w: row with a tuple of kind %q", ErrProtocol, part)
	}
	f.new, err = f.tuple(r, b, f.new[:0])
	f.change.New = f.new
	return ev, err
}

func (f *feed) tuple(r *Relation, b *body, values [][]byte) ([][]byte, error) {
	n := int(b.uint16())
	if b.ok() && n != len(r.Columns) {
		return values, fmt.Errorf("%w: row of %d columns in table %s, which was announced with %d", ErrProtocol, n, r.Table, len(r.Columns))
	}
	for range n {
		var v []byte
		switch k := b.uint8(); k {
		case 'n':
		case 'u':
			v = f.unchanged
		case 't':
			v = b.take(int(b.uint32()))
			if v == nil && b.ok() {
				v = []byte{}
			}
		default:
			if b.ok() {
				return values, fmt.Errorf("%w: column of kind %q in table %s", ErrProtocol, k, r.Table)
			}
		}
		values = append(values, v)
	}
	return values, nil
}

func (f *feed) logical(d *Decoder, b *body) (Event, error) {
	m := &f.message
	m.Transactional = b.uint8()&1 != 0
	m.At = LSN(b.uint64())
	m.Prefix = b.text()
	m.Content = b.take(int(b.uint32()))
	if b.ok() && m.Transactional != d.open {
		return Event{}, fmt.Errorf("%w: message out of turn", ErrProtocol)
	}
	return Event{Kind: Logical, Tx: d.tx, Message: m}, nil
}
