package cdc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// keeper writes the position table for one session, and holds the slot's
// confirmation back to what is written: a crash between the two leaves the slot
// behind, never ahead.
//
// A position that rows have moved is written with each status interval. One
// that only the log of other tables has moved is written when it is a megabyte
// on, or else after a while that becomes longer each time: the writing itself
// moves the log, and an idle database should become quiet.
type keeper struct {
	table *positionTable
	slot  string
	every time.Duration // status interval

	written atomic.Uint64 // position that the table or the slot has for sure
	alive   atomic.Bool   // the server can decode what comes
	rows    atomic.Uint64 // end of the last transaction that had a row

	at    position  // history; of the goroutine that writes, as is what follows
	known bool      // the table has the slot
	next  time.Time // when a small step is due
	wait  time.Duration
}

// errNoPositionTable ends a session, so that the next one makes the table that
// somebody has dropped.
var errNoPositionTable = errors.New("position table is gone")

const (
	quietStep    = 1 << 20 // bytes of log
	longestQuiet = 5 * time.Minute
)

// newKeeper is for a session that goes on at a position, of which the table or
// the slot itself has had written. The two differ when the server has crashed
// and this process knows more than it: told of at, the slot would be ahead of
// the table. known tells whether the table has a row for the slot: if not, it
// gets one as soon as the stream is seen to work. One that never does may be
// dropped without a word.
func newKeeper(t *positionTable, slot string, at position, written wal.LSN, known bool, every time.Duration) *keeper {
	k := &keeper{table: t, slot: slot, every: every, at: at, known: known, wait: 10 * every}
	k.written.Store(uint64(written))
	if at.at > written {
		k.rows.Store(uint64(at.at)) // due at once
	}
	k.next = time.Now().Add(k.wait)
	return k
}

// limit is as far as the slot may be told that all is published.
func (k *keeper) limit(confirmed wal.LSN) wal.LSN {
	if k == nil {
		return confirmed
	}
	return min(confirmed, wal.LSN(k.written.Load()))
}

// published notes the end of a transaction that had a row.
func (k *keeper) published(end wal.LSN) {
	if k != nil {
		k.rows.Store(uint64(end))
	}
}

// live notes that the stream works.
func (k *keeper) live() {
	if k != nil {
		k.alive.Store(true)
	}
}

// due tells whether a position should be written now.
func (k *keeper) due(confirmed wal.LSN, now time.Time) bool {
	written := wal.LSN(k.written.Load())
	switch {
	case confirmed <= written:
		return false
	case wal.LSN(k.rows.Load()) > written, confirmed-written >= quietStep:
		k.wait = 10 * k.every
	case now.Before(k.next):
		return false
	default:
		k.wait = min(2*k.wait, longestQuiet)
	}
	k.next = now.Add(k.wait)
	return true
}

// keep writes the position when it is due, and tells whether it did.
func (k *keeper) keep(ctx context.Context, db *pgx.Conn, confirmed wal.LSN) (bool, error) {
	if k == nil || !k.due(confirmed, time.Now()) && (k.known || !k.alive.Load()) {
		return false, nil
	}
	return true, k.write(ctx, db, confirmed)
}

// last writes the position at the end of a session.
func (k *keeper) last(ctx context.Context, db *pgx.Conn, confirmed wal.LSN) error {
	if k == nil || !k.alive.Load() || k.known && confirmed <= wal.LSN(k.written.Load()) {
		return nil
	}
	return k.write(ctx, db, confirmed)
}

func (k *keeper) write(ctx context.Context, db *pgx.Conn, confirmed wal.LSN) error {
	at := k.at
	at.at = confirmed
	err := k.table.write(ctx, db, k.slot, at)
	switch {
	case sqlState(err) == undefinedTable:
		return fmt.Errorf("%w: %w", errNoPositionTable, err)
	case err != nil:
		return err
	}
	k.written.Store(uint64(confirmed))
	k.known = true
	return nil
}
