package broker

import (
	"context"
	"sync"
	"time"
)

// queue holds the records that were fetched for one partition and not handled yet. The reader never waits to add; when the queue is full it pauses the partition, so it is
// exceeded by one fetch at most.
type queue struct {
	topic     string
	partition int32
	topicID   [16]byte
	full      int           // bytes at which fetching pauses
	fullCount int           // records at which fetching pauses
	pause     func(on bool) // of fetching this partition

	mu      sync.Mutex
	records []Record // guarded by mu, as is all below
	bytes   int
	paused  bool
	err     error
	wake    chan struct{} // has room for one
}

func newQueue(topic string, partition int32, topicID [16]byte, bytes, count int, pause func(on bool)) *queue {
	return &queue{topic: topic, partition: partition, topicID: topicID, full: bytes, fullCount: count, pause: pause, wake: make(chan struct{}, 1)}
}

// add appends records that were fetched.
func (q *queue) add(records []Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range records {
		q.bytes += records[i].Size()
	}
	q.records = append(q.records, records...)
	if !q.paused && (q.bytes >= q.full || len(q.records) >= q.fullCount) {
		q.paused = true
		q.pause(true)
	}
	q.signal()
}

// fail ends the queue: what is in it is still taken, then err is returned.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// gather waits until a time for more records to come, no longer than until they make a full batch; take then has them all.
func (q *queue) gather(ctx context.Context, stop <-chan struct{}, until time.Time, count, bytes int) {
	rest := time.Until(until)
	if rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for !q.fills(count, bytes) {
		select {
		case <-q.wake:
		case <-timer.C:
			return
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// idle waits for a record for that long, and tells whether none came.
func (q *queue) idle(ctx context.Context, stop <-chan struct{}, after time.Duration) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		q.mu.Lock()
		empty := len(q.records) == 0 && q.err == nil
		q.mu.Unlock()
		if !empty {
			return false
		}
		select {
		case <-q.wake:
		case <-timer.C:
			return true
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// fills tells whether nothing is gained by waiting: a batch is full, or no more will come.
func (q *queue) fills(count, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.records) >= count || q.bytes >= bytes || q.err != nil
}

// take returns the next records: count at most, and no more than bytes unless the first alone is larger. It waits until there is one. It returns ok = false when
// stop is closed.
func (q *queue) take(ctx context.Context, stop <-chan struct{}, count, bytes int) (records []Record, ok bool, err error) {
	for {
		select {
		case <-stop: // first: no new record after the signal (CON-12)
			return nil, false, nil
		default:
		}
		if records, err := q.tryTake(count, bytes); len(records) > 0 || err != nil {
			return records, true, err
		}
		select {
		case <-q.wake:
		case <-stop:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (q *queue) tryTake(count, bytes int) ([]Record, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) == 0 {
		return nil, q.err
	}
	n, size := 0, 0
	for n < len(q.records) && n < count {
		s := q.records[n].Size()
		if n > 0 && size+s > bytes {
			break
		}
		size += s
		n++
	}
	taken := q.records[:n:n]
	q.records = q.records[n:]
	q.bytes -= size
	if len(q.records) == 0 {
		q.records = nil // or the array would grow for ever
	}
	if q.paused && q.bytes < q.full/2 && len(q.records) < q.fullCount/2 {
		q.paused = false
		q.pause(false)
	}
	return taken, nil
}
