package check

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
)

// Record is a fact with where it was read and its bytes.
type Record struct {
	event.Envelope
	Topic     string
	Partition int32
	Offset    int64
	Value     []byte
}

// Feed folds all topics into what each order's facts are. It keeps about a hundred bytes a fact.
type Feed struct {
	Records    int64
	Duplicates int64 // records that repeat a fact byte for byte: at-least-once delivery allows them
	orders     map[event.OrderNo]*Facts
	whose      map[event.ID]event.OrderNo
}

// Facts are what the topics say about one order.
type Facts struct {
	Placed   bool // OrderPlaced is among them
	Total    int64
	Currency string
	all      []stated // of one topic in its order
	faults   []string // contradictions between records
}

type stated struct {
	id, cause event.ID
	kind      event.Type
	step      event.Step // of an UndoStuck
	owner     event.Participant
	partition int32
	content   uint64
	at        time.Time
}

// NewFeed returns a feed without facts.
func NewFeed() *Feed {
	return &Feed{orders: map[event.OrderNo]*Facts{}, whose: map[event.ID]event.OrderNo{}}
}

// Of returns an order's facts; nil when there are none.
func (f *Feed) Of(no event.OrderNo) *Facts { return f.orders[no] }

// Orders goes through the numbers of all orders with facts, in no order.
func (f *Feed) Orders(yield func(event.OrderNo) bool) {
	for no := range f.orders {
		if !yield(no) {
			return
		}
	}
}

// Add takes the next record of a partition.
func (f *Feed) Add(r Record) {
	f.Records++
	facts := f.orders[r.Order]
	if facts == nil {
		facts = &Facts{}
		f.orders[r.Order] = facts
	}
	s := stated{
		id: r.ID, cause: r.CausationID, kind: r.Fact.Type(), owner: r.Owner, partition: r.Partition, content: content(r), at: r.OccurredAt,
	}
	if stuck, ok := r.Fact.(event.UndoStuck); ok {
		s.step = stuck.Step
	}
	if r.Topic != r.Owner.Topic() {
		facts.fault("%s of %s stands in %s", s.kind, r.Owner, r.Topic)
	}
	if other, known := f.whose[r.ID]; known && other != r.Order {
		facts.fault("%s has the id of a fact of order %s", s.kind, other)
		return
	}
	f.whose[r.ID] = r.Order
	if !facts.add(s) {
		f.Duplicates++
		return
	}
	if placed, ok := r.Fact.(event.OrderPlaced); ok {
		facts.Placed, facts.Total, facts.Currency = true, placed.Total, placed.Currency
	}
}

// add is false for a repetition.
func (f *Facts) add(s stated) bool {
	for _, before := range f.all {
		if before.owner == s.owner && before.partition != s.partition {
			f.fault("%s and %s stand in two partitions of one topic", before.kind, s.kind)
		}
		if before.id == s.id {
			if before.content != s.content {
				f.fault("one id stands for two contents: %s and %s", before.kind, s.kind)
			}
			return false
		}
	}
	f.all = append(f.all, s)
	return true
}

func (f *Facts) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// known is what choreography wants to know.
func (f *Facts) known() choreography.Known {
	known := choreography.Known{}
	for _, s := range f.all {
		known[s.key()] = s.at
	}
	return known
}

func (f *Facts) has(kinds ...event.Type) bool {
	for _, s := range f.all {
		if slices.Contains(kinds, s.key()) {
			return true
		}
	}
	return false
}

func (f *Facts) find(id event.ID) (stated, bool) {
	for _, s := range f.all {
		if s.id == id {
			return s, true
		}
	}
	return stated{}, false
}

// key is the fact's type; an UndoStuck is told by its step.
func (s stated) key() event.Type {
	if s.step != "" {
		return choreography.StuckKey(s.step)
	}
	return s.kind
}

func content(r Record) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%s/", r.Owner, r.Fact.Type(), r.CausationID)
	h.Write(r.Value)
	return h.Sum64()
}
