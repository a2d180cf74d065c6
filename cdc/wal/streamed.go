package wal

import "fmt"

// Part is a piece of a transaction that is sent while it still runs.
type Part struct {
	XID  uint32 // of the transaction
	Sub  uint32 // of the subtransaction that it belongs to, or again XID
	Data []byte // for the decoder that Replay returns; lives as long as the message it came in
}

// Message tells whether the part is a logical decoding message. PostgreSQL
// names the transaction as its Sub, even when it was written in a
// subtransaction, so that one which is rolled back cannot be told from others.
func (p Part) Message() bool { return len(p.Data) > 0 && p.Data[0] == 'M' }

// streams is what a Decoder knows of transactions that are sent while they run.
type streams struct {
	open  bool   // between Stream Start and Stop
	xid   uint32 // of the open block
	begun map[uint32]struct{}
}

func (d *Decoder) streamStart(b *body) error {
	if d.open {
		return fmt.Errorf("%w: block of a streamed transaction inside transaction %d", ErrProtocol, d.tx.XID)
	}
	xid := b.uint32()
	b.uint8() // whether it is the first block
	if b.ok() {
		d.streams.open, d.streams.xid = true, xid
		d.streams.begun[xid] = struct{}{}
	}
	return nil
}

// streamed reads a message of a block. Its rows are not decoded before their
// transaction is committed. A Relation message is remembered at once too:
// after the commit the server takes it for announced, whatever was announced
// meanwhile outside of the block.
func (d *Decoder) streamed(msg []byte, b *body) (Event, error) {
	kind := msg[0]
	switch kind {
	case 'E':
		d.streams.open = false
		return Event{}, nil
	case 'O': // has no xid
		d.counts.Origins++
		return Event{}, nil
	case 'R', 'Y', 'I', 'U', 'D', 'T', 'M':
	case 'B', 'C', 'S', 'c', 'A':
		return Event{}, fmt.Errorf("%w: message %q in a block of streamed transaction %d", ErrProtocol, kind, d.streams.xid)
	default:
		d.counts.Unknown++
		return Event{}, nil
	}
	sub := b.uint32()
	if !b.ok() {
		return Event{}, nil // Decode reports it
	}
	if kind == 'Y' {
		d.counts.Types++
		return Event{}, nil
	}
	if kind == 'R' {
		if _, err := d.message(kind, b); err != nil || !b.ok() {
			return Event{}, err
		}
		// It describes a table for the rest of the transaction: not to be
		// dropped with the subtransaction whose row was the first.
		sub = d.streams.xid
	}
	const xid = 4
	msg[xid] = kind // over the end of the xid: the message as it is outside of blocks
	return Event{Kind: Streamed, Stream: Part{XID: d.streams.xid, Sub: sub, Data: msg[xid:]}}, nil
}

func (d *Decoder) streamCommit(b *body) (Event, error) {
	xid := b.uint32()
	b.uint8() // flags
	tx := Tx{XID: xid, Start: LSN(b.uint64()), End: LSN(b.uint64())}
	tx.Committed = instant(int64(b.uint64()))
	if !b.ok() {
		return Event{}, nil
	}
	if _, ok := d.streams.begun[xid]; !ok || d.open {
		return Event{}, fmt.Errorf("%w: commit of streamed transaction %d out of turn", ErrProtocol, xid)
	}
	delete(d.streams.begun, xid)
	d.counts.Transactions++
	return Event{Kind: StreamCommit, Tx: tx}, nil
}

// streamAbort reads that a transaction, or a part of it, was rolled back.
// Subtransactions inside of the one named are named each by a message of their own.
//
// PostgreSQL 18 sends it on protocol version 1 too, after a large transaction
// whose savepoint was rolled back, and any may for one that sent nothing.
func (d *Decoder) streamAbort(b *body) Event {
	p := Part{XID: b.uint32(), Sub: b.uint32()}
	_, known := d.streams.begun[p.XID]
	switch {
	case !b.ok():
		return Event{}
	case !known:
		d.counts.StreamAborts++
		return Event{}
	case p.XID == p.Sub:
		delete(d.streams.begun, p.XID)
	}
	return Event{Kind: StreamAbort, Stream: p}
}

// Replay returns a decoder that takes the parts of a streamed transaction in
// the order in which they came, those of aborted subtransactions left out, and
// gives their rows as those of an ordinary transaction after its Begin. The
// transaction brought the relations that its rows need; it counts with d.
func (d *Decoder) Replay(tx Tx) *Decoder {
	r := NewDecoder(d.outbox)
	if d.feed != nil {
		r = NewFeed(d.feed.unchanged)
	}
	r.counts, r.open, r.tx = d.counts, true, tx
	return r
}
