// Package progress decides which position of the log may be confirmed to the
// database (G3). It is pure: no clock, no I/O, no locks; its caller serialises
// the calls.
//
// What is confirmed the server forgets: it will never send it again. So the
// position is the end of the last transaction of the longest prefix of
// transactions, in commit order, whose every record Kafka has acknowledged.
// Only ends of commits are used, which the server sends in rising order.
//
// Records may be acknowledged in any order, and before the end of their
// transaction was read. A crash forgets the Tracker; the next one starts at
// the slot's confirmed position, and what lies between is published again.
package progress

import (
	"fmt"

	"chorus/cdc/wal"
)

// Tracker follows one replication stream. Its memory grows with the number of
// transactions that have unacknowledged records, not with their size.
type Tracker struct {
	confirmed wal.LSN
	first     ID // of txs[head]
	txs       []transaction
	head      int // txs before it are done
	open      bool
	unacked   int
}

// ID names a transaction to the Tracker that gave it.
type ID uint64

type transaction struct {
	end     wal.LSN // 0 until it was committed
	unacked int
}

// New starts at a position up to which all is published: the slot's confirmed
// position.
func New(confirmed wal.LSN) *Tracker { return &Tracker{confirmed: confirmed} }

// Begin opens a transaction. The one before must be committed or abandoned.
func (t *Tracker) Begin() ID {
	if t.open {
		panic("progress: transaction begins inside another")
	}
	t.open = true
	t.txs = append(t.txs, transaction{})
	return t.last()
}

// Sent adds a record to the open transaction; Acked must count it once.
func (t *Tracker) Sent() {
	if !t.open {
		panic("progress: record outside of a transaction")
	}
	t.txs[len(t.txs)-1].unacked++
	t.unacked++
}

// Acked says that Kafka has n more records of the transaction for good.
func (t *Tracker) Acked(id ID, n int) {
	i := t.head + int(id-t.first)
	if id < t.first || i >= len(t.txs) || t.txs[i].unacked < n {
		// It would confirm a record that nobody has: rather die and repeat.
		panic(fmt.Sprintf("progress: transaction %d has not %d records to acknowledge", id, n))
	}
	t.txs[i].unacked -= n
	t.unacked -= n
	t.advance()
}

// Commit closes the open transaction, whose commit record ends at end.
func (t *Tracker) Commit(end wal.LSN) {
	if !t.open {
		panic("progress: commit outside of a transaction")
	}
	t.open = false
	last := len(t.txs) - 1
	t.txs[last].end = end
	if t.txs[last].unacked == 0 && last > t.head {
		// Nothing of it is awaited, so it is confirmed with the one before it.
		// Otherwise a stream of transactions without rows would fill the
		// memory while Kafka is away.
		t.txs = t.txs[:last]
		t.txs[last-1].end = max(end, t.txs[last-1].end)
		return
	}
	t.advance()
}

// Keepalive takes the position up to which the server has looked through its
// log. It may be confirmed only if nothing that lies before it is awaited: no
// record in flight, no transaction half received. Thus an idle slot moves
// while other tables are written (CDC-01), and one that waits for Kafka does not.
func (t *Tracker) Keepalive(end wal.LSN) {
	if t.head == len(t.txs) {
		t.confirmed = max(t.confirmed, end)
	}
}

// Confirmed is the position to report as flushed. It never goes back.
func (t *Tracker) Confirmed() wal.LSN { return t.confirmed }

// Unacked is the number of records sent and not acknowledged.
func (t *Tracker) Unacked() int { return t.unacked }

// Transactions is the number of those that are not confirmed. One without records
// that follows another counts with it.
func (t *Tracker) Transactions() int { return len(t.txs) - t.head }

// Open tells whether a transaction is half received.
func (t *Tracker) Open() bool { return t.open }

func (t *Tracker) last() ID { return t.first + ID(len(t.txs)-1-t.head) }

// advance drops what is done from the front.
func (t *Tracker) advance() {
	for t.head < len(t.txs) && t.txs[t.head].end != 0 && t.txs[t.head].unacked == 0 {
		t.confirmed = max(t.confirmed, t.txs[t.head].end)
		t.head++
		t.first++
	}
	switch {
	case t.head == len(t.txs):
		t.txs, t.head = t.txs[:0], 0
	case t.head > 1024 && t.head > len(t.txs)/2:
		t.txs, t.head = t.txs[:copy(t.txs, t.txs[t.head:])], 0
	}
}
