package cdc

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/progress"
)

// parcel is a record on its way to Kafka, with room for its bytes and headers.
// When Kafka has it, it is used again: memory for each row anew, and its
// collection, would be a good part of all the work.
type parcel struct {
	kgo.Record
	room       []byte              // for the key, the value and the headers' values; grown before they are put there
	ownHeaders [9]kgo.RecordHeader // room for as many as our own outboxes have
	size       int                 // see size
	tx         progress.ID
	committed  time.Time
	settled    func(*kgo.Record, error) // the client's promise
	spent      bool                     // it is not used again
}

// keep copies bytes into the room, which must be large enough; nil stays nil.
func (q *parcel) keep(p []byte) []byte {
	if p == nil {
		return nil
	}
	start := len(q.room)
	q.room = append(q.room, p...)
	return q.room[start:len(q.room):len(q.room)]
}

func (q *parcel) header(key string, value []byte) {
	if value != nil {
		q.Headers = append(q.Headers, kgo.RecordHeader{Key: key, Value: value})
	}
}

// reset makes an empty record with room for n bytes.
func (q *parcel) reset(topic string, at time.Time, n int) {
	if q.Headers == nil {
		q.Headers = q.ownHeaders[:0]
	}
	q.Record = kgo.Record{Topic: topic, Partition: byKey, Timestamp: at, Headers: q.Headers[:0]}
	if cap(q.room) < n {
		q.room = make([]byte, 0, n)
	}
	q.room = q.room[:0]
}

// What is kept for use again: so many parcels, and no more room in each.
const (
	mostParcels = maxInFlight / 2
	longestRoom = 1 << 10
)

// parcels are those of one publisher. Its reader takes; whoever hears of Kafka
// gives back.
type parcels struct {
	free []*parcel // the reader's

	mu   sync.Mutex // guards what follows
	back []*parcel
}

// take is an empty parcel; nil when there is none.
func (s *parcels) take() *parcel {
	if len(s.free) == 0 {
		s.mu.Lock()
		s.free, s.back = s.back, s.free
		s.mu.Unlock()
	}
	if len(s.free) == 0 {
		return nil
	}
	last := len(s.free) - 1
	q := s.free[last]
	s.free = s.free[:last]
	return q
}

// giveBack is for one that nobody has any use for.
func (s *parcels) giveBack(q *parcel) {
	if q.spent {
		return
	}
	if cap(q.room) > longestRoom {
		q.room, q.Record = nil, kgo.Record{Headers: q.Headers}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.back) < mostParcels {
		s.back = append(s.back, q)
	}
}

// parcel is one to be filled.
func (p *publisher) parcel() *parcel {
	if q := p.parcels.take(); q != nil {
		return q
	}
	return p.wrap(kgo.Record{})
}

// wrap makes a parcel of a record.
func (p *publisher) wrap(r kgo.Record) *parcel {
	q := &parcel{Record: r}
	q.settled = func(_ *kgo.Record, err error) { p.settle(q, err) }
	return q
}
