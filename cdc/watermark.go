package cdc

import (
	"fmt"

	"chorus/cdc/wal"
)

// Headers of the watermark, behind a record's own. A row has the same ones
// whenever it is published from the log, so that a consumer can order and
// recognise records by them without a table of ids: (commit, sequence) rises
// within a key, and within a partition but for repetitions.
const (
	HeaderCommit    = "commitLsn"      // start of the commit record: 16 hexadecimal digits, which sort as they are
	HeaderSequence  = "commitSequence" // of the row in its transaction, from 1: 20 digits
	HeaderCommitted = "committedAt"    // RFC 3339, UTC, microseconds
)

// watermark is what the headers of a transaction have in common.
type watermark struct{ commit, at []byte }

func watermarkOf(tx wal.Tx) watermark {
	return watermark{fmt.Appendf(nil, "%016X", uint64(tx.Start)), tx.Committed.UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z")}
}

// sequenceLimit has as many digits as any sequence.
const sequenceLimit = 20

// mark adds the watermark to a record.
func (w watermark) mark(q *parcel, sequence uint64) {
	var text [sequenceLimit]byte
	for i := len(text); i > 0; sequence /= 10 {
		i--
		text[i] = byte('0' + sequence%10)
	}
	q.header(HeaderCommit, w.commit)
	q.header(HeaderSequence, q.keep(text[:]))
	q.header(HeaderCommitted, w.at)
}
