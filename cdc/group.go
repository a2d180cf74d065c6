package cdc

import (
	"sync"
	"time"

	"chorus/cdc/progress"
	"chorus/cdc/wal"
)

// How much goes into one Kafka transaction. Half of what may be in flight: while
// one transaction ends, the next one is gathered.
const (
	groupDelay   = 5 * time.Millisecond // since its first record, when less came
	groupRecords = maxInFlight / 2
	groupBytes   = maxBytesInFlight / 2
)

// stretch is what a group has of one transaction of the database.
type stretch struct {
	tx             progress.ID
	start          wal.LSN // of the commit record
	end            wal.LSN // 0: there is more of it
	committed      time.Time
	records, bytes int
	sequence       uint64 // of the last row, 1 being the transaction's first
	batch          uint64 // of records from the quarantine; 0 for others
}

// group is what one Kafka transaction brings: the records of whole transactions
// of the database, or some of the records of a single one that is large.
type group struct {
	records []gathered
	runs    []stretch // in commit order; none for a position alone
}

// gathered is a record in a group.
type gathered struct {
	*parcel
	sequence uint64 // of its row in the transaction of the database
}

// gathering is what was read and is not yet in a Kafka transaction. The
// session's reader adds, one goroutine takes.
type gathering struct {
	changed chan struct{} // holds one when something was added

	mu      sync.Mutex // guards what follows
	group   group
	bytes   int
	since   time.Time // when the first of it came
	pressed bool      // the reader waits for room, or has come to its end
}

func newGathering() *gathering { return &gathering{changed: make(chan struct{}, 1)} }

// add takes a record of a transaction that is not complete.
func (g *gathering) add(of stretch, q *parcel) {
	g.mu.Lock()
	last := g.last(of)
	last.records++
	last.bytes += q.size
	last.sequence = of.sequence
	g.group.records = append(g.group.records, gathered{q, of.sequence})
	g.bytes += q.size
	full := len(g.group.records) == groupRecords || g.bytes >= groupBytes
	g.mu.Unlock()
	if full {
		g.signal()
	}
}

// complete takes the end of a transaction of which something was added.
func (g *gathering) complete(of stretch, end wal.LSN) {
	g.mu.Lock()
	g.last(of).end = end
	g.mu.Unlock()
	g.signal()
}

// last is the run that a transaction adds to.
func (g *gathering) last(of stretch) *stretch {
	if n := len(g.group.runs); n > 0 && g.group.runs[n-1].tx == of.tx {
		return &g.group.runs[n-1]
	}
	if len(g.group.runs) == 0 {
		g.since = time.Now()
	}
	g.group.runs = append(g.group.runs, of)
	return &g.group.runs[len(g.group.runs)-1]
}

// press makes all that is there due: nothing more comes before it is gone.
func (g *gathering) press() {
	g.mu.Lock()
	g.pressed = true
	g.mu.Unlock()
	g.signal()
}

func (g *gathering) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// take returns the next group when one is due, else how long it is until one
// may be; 0 is until something is added.
//
// It ends with a transaction, so that a reader sees nothing of one half. Only
// one that has not room in a group, or keeps the reader from going on, is
// divided.
func (g *gathering) take(now time.Time) (next group, ok bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	whole, records, bytes := 0, 0, 0 // runs to take, and what is in them
	for i, r := range g.group.runs {
		if i > 0 && (records+r.records > groupRecords || bytes+r.bytes > groupBytes) || r.end == 0 {
			break
		}
		whole, records, bytes = i+1, records+r.records, bytes+r.bytes
	}
	full := len(g.group.records) >= groupRecords || g.bytes >= groupBytes
	left := groupDelay - now.Sub(g.since)
	switch {
	case len(g.group.runs) == 0:
		g.pressed = false
		return group{}, false, 0
	case whole == 0 && !full && !g.pressed:
		return group{}, false, 0
	case whole > 0 && !full && !g.pressed && left > 0:
		return group{}, false, left
	}
	if whole == 0 || records > groupRecords || bytes > groupBytes {
		return g.divide(), true, 0
	}
	return g.cut(whole, records, bytes), true, 0
}

// cut takes runs from the front.
func (g *gathering) cut(runs, records, bytes int) group {
	out := group{g.group.records[:records:records], g.group.runs[:runs:runs]}
	g.group = group{g.group.records[records:], g.group.runs[runs:]}
	g.bytes -= bytes
	if len(g.group.runs) == 0 {
		g.group, g.pressed = group{}, false
	}
	return out
}

// divide takes from the first run as much as has room, at least one record.
func (g *gathering) divide() group {
	first := g.group.runs[0]
	n, bytes := 0, 0
	for n < first.records && n < groupRecords && (n == 0 || bytes+g.group.records[n].size <= groupBytes) {
		bytes += g.group.records[n].size
		n++
	}
	if n == first.records {
		return g.cut(1, n, bytes)
	}
	part, rest := first, first
	part.records, part.bytes, part.end = n, bytes, 0
	part.sequence = g.group.records[n-1].sequence
	rest.records, rest.bytes = first.records-n, first.bytes-bytes
	g.group.runs = append([]stretch{part, rest}, g.group.runs[1:]...)
	return g.cut(1, n, bytes)
}
