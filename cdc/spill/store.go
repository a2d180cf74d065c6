package spill

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

// Limits say how much is kept in memory, in bytes.
type Limits struct {
	Transaction int // of one transaction; beyond it goes to its file. 1 MB by default
	Total       int // of all transactions of a Store. 16 MB by default
}

func (l Limits) withDefaults() Limits {
	if l.Transaction <= 0 {
		l.Transaction = 1 << 20
	}
	if l.Total <= 0 {
		l.Total = 16 << 20
	}
	return l
}

// Usage is what a Store holds now.
type Usage struct {
	Transactions int64
	Memory       int64 // bytes
	Peak         int64 // most bytes that were ever in memory
	Disk         int64 // bytes in files
}

// Store keeps the transactions of one stream.
type Store struct {
	folder *folder
	limits Limits
	txs    map[uint32]*transaction

	transactions, memory, peak, disk atomic.Int64
}

// transaction is one that has not ended. Its file holds the older part, memory
// the newer.
type transaction struct {
	memory  []byte
	onDisk  int64 // bytes in the file; 0 when there is none
	parts   int64
	aborted map[uint32]struct{} // subtransactions
}

// Open makes a store under dir, which is made when missing, and removes what
// stores of processes that died left there.
func Open(dir string, limits Limits) (*Store, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open spill directory %s: %w", dir, err)
	}
	return &Store{folder: f, limits: limits.withDefaults(), txs: map[uint32]*transaction{}}, nil
}

// Close removes everything.
func (s *Store) Close() error { return s.folder.remove() }

// Usage may be called by any goroutine.
func (s *Store) Usage() Usage {
	return Usage{Transactions: s.transactions.Load(), Memory: s.memory.Load(), Peak: s.peak.Load(), Disk: s.disk.Load()}
}

// Append keeps a part of transaction xid, which belongs to its subtransaction
// sub (xid itself for what belongs to none). data is copied. After an error the
// store is of no more use.
func (s *Store) Append(xid, sub uint32, data []byte) error {
	t := s.txs[xid]
	if t == nil {
		t = &transaction{}
		s.txs[xid] = t
		s.transactions.Add(1)
	}
	before := cap(t.memory)
	t.memory = appendFrame(t.memory, sub, data)
	t.parts++
	s.grow(cap(t.memory) - before)
	if len(t.memory) > s.limits.Transaction {
		return s.flush(xid, t)
	}
	for s.memory.Load() > int64(s.limits.Total) {
		if err := s.flush(s.largest()); err != nil {
			return err
		}
	}
	return nil
}

// Abort drops the parts of a subtransaction, or all of a transaction when sub is xid.
func (s *Store) Abort(xid, sub uint32) error {
	t := s.txs[xid]
	switch {
	case t == nil:
		return nil // it sent nothing
	case xid == sub:
		return s.drop(xid, t)
	}
	if t.aborted == nil {
		t.aborted = map[uint32]struct{}{}
	}
	t.aborted[sub] = struct{}{} // skipped by Replay: what is in a file stays there till then
	return nil
}

// Parts is how many parts of a transaction are kept, those of aborted
// subtransactions included.
func (s *Store) Parts(xid uint32) int64 {
	if t := s.txs[xid]; t != nil {
		return t.parts
	}
	return 0
}

// Replay gives the parts of a transaction back in their order, but for those of
// aborted subtransactions, and drops it. data lives until take returns, and may be
// changed. An error of take ends it.
func (s *Store) Replay(xid uint32, take func(data []byte) error) error {
	t := s.txs[xid]
	if t == nil {
		return nil
	}
	err := s.replay(xid, t, take)
	return errors.Join(err, s.drop(xid, t))
}

func (s *Store) replay(xid uint32, t *transaction, take func(data []byte) error) error {
	left := t.parts
	count := func(sub uint32, data []byte) error {
		left--
		if _, ok := t.aborted[sub]; ok {
			return nil
		}
		return take(data)
	}
	if t.onDisk > 0 {
		if err := s.folder.read(fileOf(xid), t.onDisk, count); err != nil {
			return err
		}
	}
	if err := splitFrames(t.memory, count); err != nil {
		return err
	}
	if left != 0 {
		return fmt.Errorf("transaction %d: %d of %d parts are not in the spill file", xid, left, t.parts)
	}
	return nil
}

// grow accounts for memory.
func (s *Store) grow(bytes int) {
	if now := s.memory.Add(int64(bytes)); now > s.peak.Load() {
		s.peak.Store(now)
	}
}

func (s *Store) largest() (uint32, *transaction) {
	var xid uint32
	var largest *transaction
	for x, t := range s.txs {
		if largest == nil || cap(t.memory) > cap(largest.memory) {
			xid, largest = x, t
		}
	}
	return xid, largest
}

// flush moves what a transaction has in memory to the end of its file.
func (s *Store) flush(xid uint32, t *transaction) error {
	if err := s.folder.append(fileOf(xid), t.memory, t.onDisk == 0); err != nil {
		return err
	}
	t.onDisk += int64(len(t.memory))
	s.disk.Add(int64(len(t.memory)))
	s.grow(-cap(t.memory))
	t.memory = nil
	return nil
}

func (s *Store) drop(xid uint32, t *transaction) error {
	delete(s.txs, xid)
	s.transactions.Add(-1)
	s.grow(-cap(t.memory))
	if t.onDisk == 0 {
		return nil
	}
	s.disk.Add(-t.onDisk)
	if err := s.folder.root.Remove(fileOf(xid)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove spill file: %w", err)
	}
	return nil
}

func fileOf(xid uint32) string { return strconv.FormatUint(uint64(xid), 10) }
