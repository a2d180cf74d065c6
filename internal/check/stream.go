package check

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
)

// Stream judges a feed of rows: what a publisher made of a table (G2). Who
// writes the rows numbers them, so that the numbers of a key grow in the order
// of their commits. Who reads the feed gives each record to Read, in the order
// of its partition.
//
// What must hold: each committed row is there; the first arrivals of a key are
// in commit order; nothing is there that was not committed; the positions that
// records or the publisher state do not go back at a first arrival.
// Repetitions are counted: at-least-once delivery allows them, exactly-once
// does not.
//
// It keeps some eight bytes a row.
type Stream struct {
	// Name is how a fault calls a row; by its number by default.
	Name func(key string, number uint64) string

	keys       map[string]*streamKey
	written    int
	arrived    int
	Duplicates int
	positions  map[string]uint64
	faults     []string
	more       int // faults beyond those that are kept
}

type streamKey struct {
	want      []uint64
	next      int // of want: what is to arrive next
	skipped   map[uint64]bool
	partition int32
}

// NewStream returns one without rows.
func NewStream() *Stream {
	return &Stream{keys: map[string]*streamKey{}, positions: map[string]uint64{}}
}

// Wrote says that a row was committed. The numbers of a key must grow.
func (s *Stream) Wrote(key string, number uint64) {
	k := s.keys[key]
	if k == nil {
		k = &streamKey{partition: -1}
		s.keys[key] = k
	}
	if n := len(k.want); n > 0 && k.want[n-1] >= number {
		s.fault("key %s: row %s was written behind row %s: the writer breaks the rule", key, s.name(key, number), s.name(key, k.want[n-1]))
		return
	}
	k.want = append(k.want, number)
	s.written++
}

// Read takes the next record of a partition. It tells whether the row arrives
// for the first time.
func (s *Stream) Read(key string, number uint64, partition int32) (first bool) {
	k := s.keys[key]
	if k == nil {
		s.fault("key %s, which nobody wrote, has row %s", key, s.name(key, number))
		return false
	}
	if k.partition >= 0 && k.partition != partition {
		s.fault("key %s is in partitions %d and %d", key, k.partition, partition)
	}
	k.partition = partition
	i := sort.Search(len(k.want), func(i int) bool { return k.want[i] >= number })
	switch {
	case i == len(k.want) || k.want[i] != number:
		s.fault("key %s: row %s was not committed", key, s.name(key, number))
		return false
	case k.skipped[number]:
		delete(k.skipped, number)
		s.fault("key %s: row %s comes late, behind row %s", key, s.name(key, number), s.name(key, k.want[k.next-1]))
	case i < k.next:
		s.Duplicates++
		return false
	default:
		k.pass(i)
	}
	s.arrived++
	return true
}

// pass notes an arrival, and what it came before.
func (k *streamKey) pass(i int) {
	for _, n := range k.want[k.next:i] {
		if k.skipped == nil {
			k.skipped = map[uint64]bool{}
		}
		k.skipped[n] = true
	}
	k.next = i + 1
}

// Position takes what somebody states as the position up to which all is
// published; of is the one who states it, whose positions must not go back.
func (s *Stream) Position(of string, at uint64) {
	if before := s.positions[of]; at < before {
		s.fault("%s: position %X comes behind %X", of, at, before)
	}
	s.positions[of] = max(at, s.positions[of])
}

// Complete tells whether each row has arrived.
func (s *Stream) Complete() bool { return s.arrived == s.written }

// Written counts the rows that were committed.
func (s *Stream) Written() int { return s.written }

// Arrived counts the rows that have arrived; one that came twice counts once.
func (s *Stream) Arrived() int { return s.arrived }

const keptFaults = 20

func (s *Stream) fault(format string, args ...any) {
	if len(s.faults) == keptFaults {
		s.more++
		return
	}
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *Stream) name(key string, number uint64) string {
	if s.Name == nil {
		return strconv.FormatUint(number, 10)
	}
	return s.Name(key, number)
}

// Faults says all that must not be, rows that are missing included. None is a
// feed that is right.
func (s *Stream) Faults() []string {
	all := s.Wrong()
	if missing := s.Missing(); len(missing) > 0 {
		all = append(all, fmt.Sprintf("%d of %d rows are missing: %v", len(missing), s.written, missing[:min(len(missing), keptFaults)]))
	}
	return all
}

// Wrong says what must not be, whatever is still to come.
func (s *Stream) Wrong() []string {
	all := slices.Clone(s.faults)
	if s.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", s.more))
	}
	return all
}

// Missing names the rows that have not arrived.
func (s *Stream) Missing() (missing []string) {
	if s.Complete() {
		return nil
	}
	for key, k := range s.keys {
		for n := range k.skipped {
			missing = append(missing, key+"/"+s.name(key, n))
		}
		for _, n := range k.want[k.next:] {
			missing = append(missing, key+"/"+s.name(key, n))
		}
	}
	slices.Sort(missing)
	return missing
}
