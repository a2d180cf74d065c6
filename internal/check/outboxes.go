package check

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"chorus/internal/event"
)

// OutboxRow is a row of an outbox, as its service shows it.
type OutboxRow struct {
	ID        event.ID
	Topic     string
	Key       string
	Type      event.Type
	Written   time.Time
	Committed time.Time // zero when the server does not keep it
}

// Outboxes judges what the publisher made of the rows that still stand in the outboxes (G2): it has a Stream look at them.
//
// The table does not say in which order its transactions committed. The server does where it keeps the times of commits, and rows of one transaction
// are told apart by when they were written. A key with two rows of which that does not tell which came first is judged but for the order of its rows.
type Outboxes struct {
	stream *Stream
	rows   []OutboxRow    // sorted: what a fault calls a row
	first  map[string]int // of a key of the stream: where its rows begin
	places map[event.ID]outboxPlace

	Unordered int64 // rows whose order is not judged
	Strangers int64 // records without a row: it was pruned, or is younger than the reading, or was never committed
}

type outboxPlace struct {
	alone  string // behind the key, for a row that is judged by itself
	number uint64
}

// NewOutboxes takes the rows, in any order.
func NewOutboxes(rows []OutboxRow) *Outboxes {
	o := &Outboxes{stream: NewStream(), rows: slices.Clone(rows), first: map[string]int{}, places: make(map[event.ID]outboxPlace, len(rows))}
	o.stream.Name = o.name
	slices.SortFunc(o.rows, func(a, b OutboxRow) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key), a.compare(b), bytes.Compare(a.ID[:], b.ID[:]))
	})
	for from, to := 0, 0; from < len(o.rows); from = to {
		for to = from; to < len(o.rows) && o.rows[to].Topic == o.rows[from].Topic && o.rows[to].Key == o.rows[from].Key; to++ {
		}
		o.take(from, to)
	}
	return o
}

// compare tells which row was committed first; 0 when that is not known.
func (r OutboxRow) compare(other OutboxRow) int {
	return cmp.Or(r.Committed.Compare(other.Committed), r.Written.Compare(other.Written))
}

// take announces the rows of one key.
func (o *Outboxes) take(from, to int) {
	ordered := true
	for i := from + 1; i < to; i++ {
		ordered = ordered && !o.rows[i-1].Committed.IsZero() && o.rows[i-1].compare(o.rows[i]) != 0
	}
	for i := from; i < to; i++ {
		r := o.rows[i]
		place := outboxPlace{number: uint64(i-from) + 1}
		if !ordered {
			place = outboxPlace{alone: "/" + r.ID.String(), number: 1}
			o.Unordered++
		}
		key := r.Topic + "/" + r.Key + place.alone
		if place.number == 1 {
			o.first[key] = i
		}
		o.places[r.ID] = place
		o.stream.Wrote(key, place.number)
	}
}

func (o *Outboxes) name(key string, number uint64) string {
	i, ok := o.first[key]
	if i += int(number) - 1; !ok || i >= len(o.rows) {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%s (%s)", o.rows[i].ID, o.rows[i].Type)
}

// Read takes the next record of a partition.
func (o *Outboxes) Read(topic, key string, id event.ID, partition int32) {
	place, ok := o.places[id]
	if !ok {
		o.Strangers++
		return
	}
	o.stream.Read(topic+"/"+key+place.alone, place.number, partition)
}

// Position takes what a publisher states as the position up to which all is published.
func (o *Outboxes) Position(of string, at uint64) { o.stream.Position(of, at) }

// Complete tells whether each row is in its topic.
func (o *Outboxes) Complete() bool { return o.stream.Complete() }

// Rows is how many there are, Repeats how many records came again.
func (o *Outboxes) Rows() int    { return o.stream.Written() }
func (o *Outboxes) Repeats() int { return o.stream.Duplicates }

// Missing is how many rows are not in their topics.
func (o *Outboxes) Missing() int { return o.stream.Written() - o.stream.Arrived() }

// Violations are what is wrong. With whole false the topics do not reach back to their beginning, and a row that is not there may have been.
func (o *Outboxes) Violations(whole bool) (found []Violation) {
	faults := o.stream.Wrong()
	if whole {
		faults = o.stream.Faults()
	}
	for _, what := range faults {
		found = append(found, Violation{Check: Feeds, What: what})
	}
	return found
}
