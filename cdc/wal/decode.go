package wal

import (
	"fmt"
	"time"
)

// Decoder reads one replication stream. It keeps the relations it was told of,
// so each connection needs a new one: the server sends them again.
type Decoder struct {
	outbox    Table
	relations map[uint32]*relation
	open      bool // between Begin and Commit
	tx        Tx
	row       Row
	values    [][]byte // scratch for one row
	binary    []bool   // which of them are in binary form
	printed   [columnCount * longestText]byte
	counts    *Counts
	feed      *feed // of a decoder of all tables
	streams   streams
}

// NewDecoder reads the rows of the given table.
func NewDecoder(outbox Table) *Decoder {
	return &Decoder{outbox: outbox, relations: map[uint32]*relation{}, counts: &Counts{}, streams: streams{begun: map[uint32]struct{}{}}}
}

// Counts tells what came by so far.
func (d *Decoder) Counts() Counts { return *d.counts }

// Open tells whether a transaction is half received.
func (d *Decoder) Open() bool { return d.open }

// Decode reads one message, the data of an XLogData. It decodes in place: msg
// is changed, and a Row in the event points into it. Errors are ErrTable or
// ErrProtocol; after one of them the decoder is of no more use.
func (d *Decoder) Decode(msg []byte) (Event, error) {
	if len(msg) == 0 {
		return Event{}, fmt.Errorf("%w: empty message", ErrProtocol)
	}
	b := body{rest: msg[1:]}
	var ev Event
	var err error
	if d.streams.open {
		ev, err = d.streamed(msg, &b)
	} else {
		ev, err = d.message(msg[0], &b)
	}
	if err == nil && b.short {
		err = fmt.Errorf("%w: message %q of %d bytes is cut off", ErrProtocol, msg[0], len(msg))
	}
	if err != nil {
		return Event{}, err
	}
	return ev, nil
}

func (d *Decoder) message(kind byte, b *body) (Event, error) {
	switch kind {
	case 'B':
		return d.begin(b)
	case 'C':
		return d.commit(b)
	case 'I', 'U', 'D':
		switch {
		case d.feed != nil:
			return d.feed.row(d, kind, b)
		case kind == 'I':
			return d.insert(b)
		}
		return d.change(kind, b)
	case 'R':
		if d.feed != nil {
			d.feed.relation(b)
			break
		}
		id, r := readRelation(b, d.outbox)
		if b.ok() {
			d.relations[id] = r
		}
	case 'T':
		return d.truncate(b)
	case 'Y':
		d.counts.Types++
	case 'O':
		d.counts.Origins++
	case 'M':
		d.counts.Messages++
		if d.feed != nil {
			return d.feed.logical(d, b)
		}
	case 'S':
		return Event{}, d.streamStart(b)
	case 'c':
		return d.streamCommit(b)
	case 'A':
		return d.streamAbort(b), nil
	case 'E':
		return Event{}, fmt.Errorf("%w: end of a block of a streamed transaction, and none is open", ErrProtocol)
	default:
		d.counts.Unknown++
	}
	return Event{}, nil
}

func (d *Decoder) begin(b *body) (Event, error) {
	if d.open {
		return Event{}, fmt.Errorf("%w: transaction begins inside transaction %d", ErrProtocol, d.tx.XID)
	}
	start := LSN(b.uint64())
	committed := int64(b.uint64())
	d.tx = Tx{Start: start, Committed: instant(committed), XID: b.uint32()}
	if b.ok() {
		d.open = true
		d.counts.Transactions++
	}
	return Event{Kind: Begin, Tx: d.tx}, nil
}

func (d *Decoder) commit(b *body) (Event, error) {
	if !d.open {
		return Event{}, fmt.Errorf("%w: commit outside of a transaction", ErrProtocol)
	}
	b.uint8()  // flags
	b.uint64() // start of the commit record
	d.tx.End = LSN(b.uint64())
	b.uint64() // commit time, as in Begin
	d.open = !b.ok()
	return Event{Kind: Commit, Tx: d.tx}, nil
}

func (d *Decoder) insert(b *body) (Event, error) {
	r, err := d.relation(b)
	if err != nil {
		return Event{}, err
	}
	switch {
	case r.refusal != nil:
		return Event{}, r.refusal
	case !r.outbox:
		d.counts.Foreign++
		return Event{Kind: Foreign, Tx: d.tx, Table: r.table}, nil
	}
	if k := b.uint8(); k != 'N' && b.ok() {
		return Event{}, fmt.Errorf("%w: insert with a tuple of kind %q", ErrProtocol, k)
	}
	if err := d.tuple(r, b); err != nil || !b.ok() {
		return Event{}, err
	}
	row, err := d.outboxRow(r)
	if err != nil {
		return Event{}, err
	}
	d.row = row
	d.counts.Inserts++
	return Event{Kind: Insert, Tx: d.tx, Row: &d.row, Table: r.table}, nil
}

// change reads an update or a delete, of which only the table matters. Neither
// changes what was published, so a strange table is no reason to stop either.
func (d *Decoder) change(kind byte, b *body) (Event, error) {
	r, err := d.relation(b)
	switch {
	case err != nil:
		return Event{}, err
	case !r.outbox:
		d.counts.Foreign++
		return Event{Kind: Foreign, Tx: d.tx, Table: r.table}, nil
	case kind == 'U':
		d.counts.Updates++
		return Event{Kind: Update, Tx: d.tx, Table: r.table}, nil
	}
	d.counts.Deletes++
	return Event{Kind: Delete, Tx: d.tx, Table: r.table}, nil
}

func (d *Decoder) truncate(b *body) (Event, error) {
	n := b.uint32()
	b.uint8() // CASCADE, RESTART IDENTITY
	ev := Event{Kind: Truncate, Tx: d.tx}
	id := b.uint32()
	if r := d.relations[id]; r != nil && n > 0 {
		ev.Table = r.table
	}
	if d.feed != nil && d.feed.relations[id] != nil {
		ev.Table = d.feed.relations[id].Table
	}
	d.counts.Truncates++
	return ev, nil
}

// relation reads the table's number that each row begins with.
func (d *Decoder) relation(b *body) (*relation, error) {
	id := b.uint32()
	r := d.relations[id]
	switch {
	case !b.ok():
		return &relation{}, nil // Decode reports it
	case !d.open:
		return nil, fmt.Errorf("%w: row outside of a transaction", ErrProtocol)
	case r == nil:
		return nil, fmt.Errorf("%w: row of relation %d, which was not announced", ErrProtocol, id)
	}
	return r, nil
}

// tuple splits a row into its columns.
func (d *Decoder) tuple(r *relation, b *body) error {
	n := int(b.uint16())
	if b.ok() && n != r.columns {
		return fmt.Errorf("%w: row of %d columns in table %s, which was announced with %d", ErrProtocol, n, r.table, r.columns)
	}
	d.values, d.binary = d.values[:0], d.binary[:0]
	for range n {
		var v []byte
		k := b.uint8()
		switch k {
		case 'n':
		case 't', 'b':
			v = b.take(int(b.uint32()))
		case 'u':
			// Only an update can leave a column out.
			return fmt.Errorf("%w: inserted row of table %s without the value of a column", ErrProtocol, r.table)
		default:
			if b.ok() {
				return fmt.Errorf("%w: column of kind %q in table %s", ErrProtocol, k, r.table)
			}
		}
		if !b.ok() {
			return nil
		}
		d.values, d.binary = append(d.values, v), append(d.binary, k == 'b')
	}
	return nil
}

// outboxRow makes the row of the values that tuple has found.
func (d *Decoder) outboxRow(r *relation) (Row, error) {
	l := &r.layout
	scratch := d.printed[:0]
	for c, i := range l.at {
		if i < 0 || !d.binary[i] || d.values[i] == nil {
			continue
		}
		var err error
		if d.values[i], scratch, err = printed(scratch, l.types[c], d.values[i]); err != nil {
			return Row{}, fmt.Errorf("column %s of table %s: %w", columnNames[c], r.table, err)
		}
	}
	if i := l.at[colPayload]; l.bytea && d.binary[i] {
		return l.row(d.values), nil
	}
	return l.Row(d.values)
}

// instant turns microseconds since 2000 into a time.
func instant(micros int64) time.Time {
	const from1970 = 946684800 // seconds
	return time.Unix(from1970+micros/1e6, micros%1e6*1000).UTC()
}
