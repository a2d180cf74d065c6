package cdc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"chorus/cdc/spill"
	"chorus/cdc/wal"
)

// held are the transactions that are sent while they still run: they are kept
// until they end, and published at their commit.
type held struct {
	store     *spill.Store
	messages  map[uint32]struct{} // transactions that hold a logical decoding message
	replaying atomic.Uint32       // transaction that is being published; 0 for none
	done, of  atomic.Int64        // parts of it
}

// Held are transactions that are received while they still run, in a Status.
type Held struct {
	Transactions int64       `json:"transactions"`
	MemoryBytes  int64       `json:"memoryBytes"`
	DiskBytes    int64       `json:"diskBytes"`
	Publishing   *Publishing `json:"publishing,omitempty"`
}

// Publishing is how far the publication of a committed large transaction is.
type Publishing struct {
	XID  uint32 `json:"xid"`
	Done int64  `json:"done"` // changes
	Of   int64  `json:"of"`
}

// hold opens the store of a session. A nil one, when no place for it is
// configured and none is found, means that such transactions are not asked for.
func (s *source) hold() (*held, error) {
	dirs := []string{s.config.SpillDir}
	if s.config.SpillDir == "" {
		dirs = defaultSpillDirs()
	}
	var faults []error
	for _, dir := range dirs {
		store, err := spill.Open(dir, spill.Limits{})
		if err == nil {
			return &held{store: store, messages: map[uint32]struct{}{}}, nil
		}
		faults = append(faults, err)
	}
	if s.config.SpillDir != "" {
		return nil, errors.Join(faults...)
	}
	s.log.Warn("no directory for large transactions; the server keeps them until they end", "err", errors.Join(faults...))
	return nil, nil
}

// defaultSpillDirs prefers the user's cache: a temporary directory is memory on
// many systems.
func defaultSpillDirs() []string {
	dirs := []string{filepath.Join(os.TempDir(), fmt.Sprintf("chorus-spill-%d", os.Getuid()))}
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append([]string{filepath.Join(dir, "chorus", "spill")}, dirs...)
	}
	return dirs
}

func (h *held) close() {
	if h != nil {
		_ = h.store.Close() // what stays is removed by the next one
	}
}

// view is what a Status tells; nil when there is nothing to tell.
func (h *held) view() *Held {
	if h == nil {
		return nil
	}
	u := h.store.Usage()
	v := &Held{Transactions: u.Transactions, MemoryBytes: u.Memory, DiskBytes: u.Disk}
	if xid := h.replaying.Load(); xid != 0 {
		v.Publishing = &Publishing{XID: xid, Done: h.done.Load(), Of: h.of.Load()}
	}
	if *v == (Held{}) {
		return nil
	}
	return v
}

// errReadWhole ends a session whose stream cannot be understood, and makes the
// next one take transactions after their end only.
var errReadWhole = errors.New("a transaction with logical decoding messages rolled a savepoint back, and PostgreSQL does not say whose they are; it is read again after its commit")

// handle takes one message of the stream.
func (s *session) handle(ctx context.Context, data []byte) error {
	ev, err := s.decoder.Decode(data)
	if err != nil {
		return err
	}
	switch ev.Kind {
	case wal.Streamed:
		return s.keep(ev.Stream)
	case wal.StreamAbort:
		return s.abort(ev.Stream)
	case wal.StreamCommit:
		return s.replay(ctx, ev.Tx)
	}
	return s.publishEvent(ctx, ev)
}

// publishEvent takes what is of a transaction that is committed.
func (s *session) publishEvent(ctx context.Context, ev wal.Event) error {
	if err := s.take(ctx, ev); err != nil {
		return err
	}
	switch ev.Kind {
	case wal.Insert, wal.Logical:
		s.rows = true
	case wal.Commit:
		if s.rows {
			s.keeper.published(ev.Tx.End)
		}
		s.rows = false
	}
	return nil
}

func (s *session) keep(p wal.Part) error {
	if p.Message() {
		s.held.messages[p.XID] = struct{}{}
	}
	return s.held.store.Append(p.XID, p.Sub, p.Data)
}

func (s *session) abort(p wal.Part) error {
	_, messages := s.held.messages[p.XID]
	switch {
	case p.XID == p.Sub:
		delete(s.held.messages, p.XID)
	case messages:
		return errReadWhole
	}
	return s.held.store.Abort(p.XID, p.Sub)
}

// replay publishes a transaction that was kept, now that it is committed, as
// one that is received now.
func (s *session) replay(ctx context.Context, tx wal.Tx) error {
	h := s.held
	delete(h.messages, tx.XID)
	of := h.store.Parts(tx.XID)
	h.done.Store(0)
	h.of.Store(of)
	h.replaying.Store(tx.XID)
	defer h.replaying.Store(0)
	decoder := s.decoder.Replay(tx)
	if err := s.publishEvent(ctx, wal.Event{Kind: wal.Begin, Tx: tx}); err != nil {
		return err
	}
	err := h.store.Replay(tx.XID, func(data []byte) error {
		h.done.Add(1)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		ev, err := decoder.Decode(data)
		if err != nil {
			return err
		}
		return s.publishEvent(ctx, ev)
	})
	if err != nil {
		return fmt.Errorf("publish large transaction %d: %w", tx.XID, err)
	}
	return s.publishEvent(ctx, wal.Event{Kind: wal.Commit, Tx: tx})
}
