package wal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Table names a table as the catalog does, without quotes.
type Table struct{ Schema, Name string }

func (t Table) String() string { return t.Schema + "." + t.Name }

// The columns of an outbox, by the names of Debezium's Outbox Event Router and
// in its style. The first five must be there.
const (
	colID = iota
	colAggregateType
	colAggregateID
	colType
	colPayload
	colOccurredAt
	colCorrelationID
	colCausationID
	colHop
	colTraceParent
	colTraceState
	columnCount

	requiredColumns = colPayload + 1
)

var columnNames = [columnCount]string{
	"id", "aggregatetype", "aggregateid", "type", "payload",
	"occurredat", "correlationid", "causationid", "hop", "traceparent", "tracestate",
}

const byteaOID = 17

// Columns names all that an outbox may have.
func Columns() []string { return slices.Clone(columnNames[:]) }

// IsColumn tells whether a column of this name is one of an outbox.
func IsColumn(name string) bool { return slices.Contains(columnNames[:], name) }

// Layout says where the columns of an outbox are in a row of a table or of a
// query's result.
type Layout struct {
	at    [columnCount]int    // -1 when there is none
	types [columnCount]uint32 // OIDs
	bytea bool                // the payload is printed as hex
}

// NewLayout is the layout of a row without columns; add them in their order.
func NewLayout() Layout {
	var l Layout
	for c := range l.at {
		l.at[c] = -1
	}
	return l
}

// Add says which column, of which type, is at position i. Columns that an
// outbox does not have may be added too.
func (l *Layout) Add(i int, name string, typeOID uint32) {
	for c, want := range columnNames {
		if name == want {
			l.at[c], l.types[c] = i, typeOID
			l.bytea = l.bytea || c == colPayload && typeOID == byteaOID
		}
	}
}

// Missing names the columns that an outbox must have and this one does not.
func (l *Layout) Missing() []string {
	var missing []string
	for c := range requiredColumns {
		if l.at[c] < 0 {
			missing = append(missing, columnNames[c])
		}
	}
	return missing
}

// Row makes an outbox row of the values of a row, as PostgreSQL prints them;
// nil is NULL. It decodes a bytea in place.
func (l *Layout) Row(values [][]byte) (Row, error) {
	row := l.row(values)
	p := row.Payload
	if !l.bytea || p == nil {
		return row, nil
	}
	if len(p) < 2 || p[0] != '\\' || p[1] != 'x' {
		return Row{}, fmt.Errorf("%w: payload of row %s is not printed as hex; bytea_output was changed", ErrTable, row.ID)
	}
	n, err := hex.Decode(p, p[2:]) // writes behind what it reads
	if err != nil {
		return Row{}, fmt.Errorf("%w: payload of row %s: %w", ErrProtocol, row.ID, err)
	}
	row.Payload = p[:n:n]
	return row, nil
}

// row makes an outbox row of values that are what they are.
func (l *Layout) row(values [][]byte) Row {
	value := func(column int) []byte {
		if i := l.at[column]; i >= 0 {
			return values[i]
		}
		return nil
	}
	return Row{
		ID:            value(colID),
		AggregateType: value(colAggregateType),
		AggregateID:   value(colAggregateID),
		Type:          value(colType),
		Payload:       value(colPayload),
		OccurredAt:    value(colOccurredAt),
		CorrelationID: value(colCorrelationID),
		CausationID:   value(colCausationID),
		Hop:           value(colHop),
		TraceParent:   value(colTraceParent),
		TraceState:    value(colTraceState),
	}
}

// relation is what a Relation message said about a table.
type relation struct {
	table   Table
	columns int // how many a row has
	layout  Layout
	outbox  bool  // the table that is read
	refusal error // why a row of it must not be passed over, nor can be read
}

// readRelation reads the body of a Relation message.
func readRelation(b *body, outbox Table) (uint32, *relation) {
	r := &relation{layout: NewLayout()}
	id := b.uint32()
	r.table = Table{Schema: b.text(), Name: b.text()}
	if r.table.Schema == "" {
		r.table.Schema = "pg_catalog" // the protocol's way to write it
	}
	b.uint8() // replica identity
	r.columns = int(b.uint16())
	for i := 0; i < r.columns && b.ok(); i++ {
		b.uint8() // flags
		name := b.text()
		oid := b.uint32()
		b.uint32() // type modifier
		r.layout.Add(i, name, oid)
	}
	r.outbox = r.table == outbox
	r.refusal = r.judge(outbox)
	return id, r
}

// judge decides whether rows of the table can be read and may be passed over.
// Another table in the publication may be passed over (the caller tells
// somebody). One with the columns of an outbox may not: it is a partition that
// is published under its own name, or the outbox before it was renamed, and
// its rows are facts that nobody else would publish.
func (r *relation) judge(outbox Table) error {
	missing := r.layout.Missing()
	switch {
	case r.outbox && missing != nil:
		return fmt.Errorf("%w: table %s has no column %s", ErrTable, r.table, strings.Join(missing, ", "))
	case !r.outbox && missing == nil:
		return fmt.Errorf("%w: row of table %s, which has the columns of an outbox but is not %s; "+
			"if it is a partition of it, the publication needs publish_via_partition_root = true", ErrTable, r.table, outbox)
	}
	return nil
}

// ErrTable is a row that would be lost if it were passed over, in a table that
// is not shaped or named as the outbox. It comes again until an operator acts.
var ErrTable = errors.New("outbox table")

// ErrProtocol is a message that breaks the protocol: cut off, or out of turn.
var ErrProtocol = errors.New("pgoutput")
