package wal

import "time"

// Kind says what an Event is.
type Kind uint8

const (
	Nothing  Kind = iota // understood, and of no interest
	Begin                // a transaction begins; Tx is set but for its End
	Insert               // a row for Kafka; Tx and Row are set
	Commit               // the transaction is complete; Tx is set
	Update               // a row of the outbox was changed; it is not published again
	Delete               // a row of the outbox was deleted
	Truncate             // tables of the publication were emptied; Table names the first
	Foreign              // a row of another table in the publication, Table; it is no outbox row
	Logical              // a logical decoding message; Message is set. Of a feed alone

	// Of protocol version 2, for transactions that are sent before they end.
	Streamed     // a message to keep until its transaction ends; Stream is set
	StreamCommit // the streamed transaction Tx is complete, and is now to be replayed; Tx is set
	StreamAbort  // Stream.XID was rolled back, or of it what is of Stream.Sub, alone
)

// Tx is the transaction that the events since Begin belong to.
type Tx struct {
	XID       uint32
	Committed time.Time // by the clock of the database server, in UTC, to the microsecond
	Start     LSN       // of the commit record: the transaction is done with when the position is beyond it
	End       LSN       // end of the commit record: the position to confirm; set by Commit
}

// Row is an outbox row. Its slices point into the message it came from and
// live as long as that. nil is NULL, or a column that the table does not have.
type Row struct {
	ID            []byte // as PostgreSQL prints it: a UUID is lower case with hyphens
	AggregateType []byte
	AggregateID   []byte
	Type          []byte
	Payload       []byte // of a bytea its bytes, else its text; NULL and empty differ
	OccurredAt    []byte // as PostgreSQL prints it; see AppendRFC3339
	CorrelationID []byte
	CausationID   []byte
	Hop           []byte
	TraceParent   []byte
	TraceState    []byte
}

// Event is what one message says. Row lives until the next call of Decode, and
// is changed by it.
type Event struct {
	Kind  Kind
	Tx    Tx
	Row   *Row
	Table Table

	Stream Part // with Streamed and StreamAbort

	// Of a decoder that NewFeed made.
	Change  *Change // with Insert, Update and Delete
	Message *Message
}

// Counts tells what came by since the decoder was made.
type Counts struct {
	Transactions, Inserts, Updates, Deletes, Truncates uint64
	Foreign                                            uint64 // rows of other tables in the publication
	Types, Origins, Messages                           uint64 // messages of these kinds, ignored
	StreamAborts                                       uint64 // of transactions that were not streamed, ignored
	Unknown                                            uint64 // messages of no known kind, ignored
}
