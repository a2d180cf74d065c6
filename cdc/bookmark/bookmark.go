// Package bookmark is what exactly-once delivery knows of its past: how far the
// log of a source is in Kafka, written in the very Kafka transaction that
// brings the rows. It is pure: no clock, no I/O.
//
// The position counts, not the slot's, which follows it and may lie behind.
// Behind it nothing may be sent again, before it nothing left out, so it means
// something only in the history of the server that it was taken from: Check
// refuses every other.
package bookmark

import (
	"encoding/json"
	"fmt"

	"chorus/cdc/wal"
)

// Position says which rows of a source are in Kafka: those of all transactions
// that end at End or before, and, when Commit is set, the first Sequence rows
// of the transaction behind it.
type Position struct {
	System   string // system identifier of the server
	Timeline int32
	Slot     string
	End      wal.LSN // end of a commit, or a position up to which the source has no more rows
	Commit   wal.LSN // start of the commit record of a transaction that is there in part; 0 for none
	Sequence uint64  // how many rows of it, counted as the source publishes them
	Batch    uint64  // the last one of records from the quarantine that is in Kafka
	Count    uint64  // rows published under this position since its first
	First    bool    // the rows older than the slot are being published: all that there is must be done anew
}

// stored is the form in the position topic. LSNs are text: JSON's numbers lose
// digits in many readers.
type stored struct {
	System   string `json:"system"`
	Timeline int32  `json:"timeline"`
	Slot     string `json:"slot"`
	End      string `json:"end"`
	Commit   string `json:"commit,omitempty"`
	Sequence uint64 `json:"sequence"`
	Count    uint64 `json:"count"`
	Batch    uint64 `json:"batch,omitempty"`
	First    bool   `json:"first,omitempty"`
}

// Encode is the value of the position's record.
func (p Position) Encode() []byte {
	s := stored{System: p.System, Timeline: p.Timeline, Slot: p.Slot, End: p.End.String(), Sequence: p.Sequence, Count: p.Count, Batch: p.Batch, First: p.First}
	if p.Commit != 0 {
		s.Commit = p.Commit.String()
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("bookmark: %v", err)) // texts and numbers
	}
	return b
}

// Decode reads what Encode has written.
func Decode(b []byte) (Position, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return Position{}, fmt.Errorf("read position %q: %w", b, err)
	}
	p := Position{System: s.System, Timeline: s.Timeline, Slot: s.Slot, Sequence: s.Sequence, Count: s.Count, Batch: s.Batch, First: s.First}
	var err error
	if p.End, err = parse(s.End); err == nil && s.Commit != "" {
		p.Commit, err = parse(s.Commit)
	}
	if err != nil || p.System == "" || p.Commit != 0 && p.Commit < p.End {
		return Position{}, fmt.Errorf("read position %q: it is none (%v)", b, err)
	}
	return p, nil
}

func parse(text string) (wal.LSN, error) {
	var high, low uint32
	if _, err := fmt.Sscanf(text, "%X/%X", &high, &low); err != nil {
		return 0, fmt.Errorf("LSN %q: %w", text, err)
	}
	return wal.LSN(high)<<32 | wal.LSN(low), nil
}

// Passes tells what to do with a transaction whose commit record starts at
// start: leave it out, or its first rows, or nothing. The error is a history
// that is not the position's: the transaction that is there in part never came.
func (p Position) Passes(start wal.LSN) (all bool, rows uint64, err error) {
	switch {
	case start < p.End:
		return true, 0, nil
	case p.Commit == 0:
		return false, 0, nil
	case start == p.Commit:
		return false, p.Sequence, nil
	case start > p.Commit:
		return false, 0, fmt.Errorf("transaction that commits at %s is in Kafka in part, and the slot gives one that commits at %s after it", p.Commit, start)
	}
	return false, 0, nil // between the two, a transaction without rows
}

// Through is the position when all up to end is in Kafka.
func (p Position) Through(end wal.LSN) Position {
	p.End = max(p.End, end)
	if p.Commit < p.End {
		p.Commit, p.Sequence = 0, 0
	}
	return p
}

// Within is the position when of the transaction whose commit record starts at
// start the rows up to sequence are in Kafka, and not all.
func (p Position) Within(start wal.LSN, sequence uint64) Position {
	p.Commit, p.Sequence = start, sequence
	return p
}
