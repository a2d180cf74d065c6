package cdc

import (
	"context"
	"sync"
	"time"

	"chorus/cdc/progress"
	"chorus/cdc/wal"
)

// What may be sent and not yet acknowledged. Beyond it the reader waits, and
// PostgreSQL with it, so that memory is bounded whatever Kafka does and however
// large a transaction is.
const (
	maxInFlight      = 10_000
	maxBytesInFlight = 16 << 20
)

// flight is what was sent to Kafka and not yet acknowledged, and what may be
// confirmed for it. The session's reader is the only one who adds and waits;
// the producer's callbacks take away.
type flight struct {
	changed chan struct{} // holds one when something was taken away

	mu       sync.Mutex // guards what follows
	tracker  *progress.Tracker
	bytes    int
	held     int       // records that were handed to the client to gather
	away     int       // and those that were told to leave, and are not acknowledged
	busy     bool      // they gather for as long as they may
	lost     int       // records that Kafka refused: they are never acknowledged
	progress time.Time // of the last acknowledgement, or of the first record after none was in flight
	seen     wal.LSN   // up to where the server has looked, by its last keepalive
	bounded  bool      // exactly-once: nothing is confirmed beyond bound, the position in Kafka
	bound    wal.LSN
}

func newFlight(confirmed wal.LSN) *flight {
	return &flight{changed: make(chan struct{}, 1), tracker: progress.New(confirmed)}
}

func (f *flight) begin() progress.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracker.Begin()
}

func (f *flight) commit(end wal.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker.Commit(end)
}

func (f *flight) keepalive(end wal.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker.Keepalive(end)
	f.seen = end
}

// tryAdd takes a record of the open transaction in, when there is room. A record
// that is larger than all room is let in alone.
func (f *flight) tryAdd(bytes int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	unacked := f.tracker.Unacked()
	if unacked > 0 && (unacked >= maxInFlight || f.bytes+bytes > maxBytesInFlight) {
		return false
	}
	if unacked == 0 {
		f.progress = time.Now()
	}
	f.tracker.Sent()
	f.bytes += bytes
	f.held++
	return true
}

// leaves tells whether what was handed to the client is to leave now: when
// nothing is on its way. Else it gathers until that is acknowledged, as with
// TCP's Nagle, or for as long as it may linger, as all of a busy stream does:
// large requests cost everybody less.
func (f *flight) leaves(busy bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = busy
	return f.depart()
}

func (f *flight) depart() bool {
	if f.busy || f.away > 0 || f.held == 0 {
		return false
	}
	f.away, f.held = f.held, 0
	return true
}

// acked takes records of a transaction out that Kafka has for good. It tells
// whether others are to leave now.
func (f *flight) acked(id progress.ID, n, bytes int, now time.Time) (leave bool) {
	f.mu.Lock()
	f.tracker.Acked(id, n)
	f.bytes -= bytes
	f.progress = now
	if f.away -= n; f.away < 0 { // some had not waited for it: their batch was full, or their time over
		f.held, f.away = max(0, f.held+f.away), 0
	}
	leave = f.depart()
	f.mu.Unlock()
	f.signal()
	return leave
}

// refused gives a record up. Its transaction is never confirmed.
func (f *flight) refused() {
	f.mu.Lock()
	f.lost++
	f.mu.Unlock()
	f.signal()
}

func (f *flight) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// drain waits until the fate of all that was sent is known.
func (f *flight) drain(ctx context.Context) error {
	for f.unacked() > 0 {
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// confirmed is what may be told to the slot.
func (f *flight) confirmed() wal.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounded {
		return min(f.bound, f.tracker.Confirmed())
	}
	return f.tracker.Confirmed()
}

// through is up to where there is nothing more to publish.
func (f *flight) through() wal.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracker.Confirmed()
}

// stored binds what is confirmed to a position that is in Kafka.
func (f *flight) stored(at wal.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bounded, f.bound = true, at
}

// startAt replaces the position that the flight began with, before anything is sent.
func (f *flight) startAt(at wal.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker = progress.New(at)
}

// lookedAt is up to where the server has looked through its log.
func (f *flight) lookedAt() wal.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *flight) unacked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracker.Unacked() - f.lost
}

// transactions is how many are not confirmed.
func (f *flight) transactions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracker.Transactions()
}

// view is what health and metrics want to know.
func (f *flight) view() (unacked int, since time.Time, caughtUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unacked = f.tracker.Unacked()
	return unacked, f.progress, unacked == 0 && !f.tracker.Open() && f.seen <= f.tracker.Confirmed()
}
