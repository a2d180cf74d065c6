package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// worker owns one assigned partition from assignment to revocation, in one goroutine.
type worker struct {
	g      *Group
	at     place
	ctx    context.Context // ends when the work is to be abandoned
	cancel context.CancelFunc
	soft   chan struct{} // closed when no further batch may begin
	once   sync.Once
	done   chan struct{} // closed when the goroutine has ended

	mu          sync.Mutex
	lane        Lane // guarded by mu, as is all below; nil while not claimed
	queue       *queue
	err         error
	since       time.Time // of the state that status reports
	next        int64     // -1 until claimed
	committedAt int64     // what Kafka knows
	commitErr   error     // of the last commit
	retryAt     time.Time // no commit before, after a refused one
}

func newWorker(g *Group, at place) *worker {
	w := &worker{g: g, at: at, soft: make(chan struct{}), done: make(chan struct{}), since: time.Now(), next: -1, committedAt: -1}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// stop asks for an end after the present batch.
func (w *worker) stop() {
	w.once.Do(func() { close(w.soft) })
	w.mu.Lock()
	lane := w.lane
	w.mu.Unlock()
	if lane != nil {
		lane.Drain()
	}
}

// abandon asks for an end now.
func (w *worker) abandon() {
	w.stop()
	w.cancel()
}

// wait reports whether the worker ended within limit.
func (w *worker) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

func (w *worker) stopping() bool {
	select {
	case <-w.soft:
		return true
	default:
		return false
	}
}

// run claims the partition and works on it; when the lane ends by an error it pauses, makes sure that the partition is still this member's, and begins again.
func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.Multiplier, wait.MaxInterval = 200*time.Millisecond, 2, 10*time.Second
	first := true
	for !w.stopping() {
		worked, err := w.session(first)
		first = false
		if w.stopping() || w.ctx.Err() != nil {
			return
		}
		if worked {
			wait.Reset()
		}
		w.setNext(-1) // it may be another's by now, which has told Kafka of more; an older offset on top of that would look like lag
		w.setErr(err)
		w.g.log.Warn("partition does not run", "topic", w.at.topic, "partition", w.at.partition, "err", err)
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-w.soft:
		case <-w.ctx.Done():
		}
		timer.Stop()
	}
}

// session is one claim and the work done under it. worked tells whether a batch was handled.
func (w *worker) session(first bool) (worked bool, err error) {
	if !first {
		if err := w.g.stillMember(w.ctx); err != nil {
			return false, err
		}
	}
	p, err := w.g.describe(w.ctx, w.at)
	if err != nil {
		return false, err
	}
	lane, err := w.g.claim(w.ctx, p)
	if err != nil {
		return false, err
	}
	defer lane.Close()
	w.enter(lane)
	defer w.leave()

	cfg := w.g.cfg
	q := newQueue(w.at.topic, w.at.partition, p.TopicID, 2*cfg.BatchBytes, 2*cfg.BatchRecords, func(on bool) { w.g.reader.pause(w.at.topic, w.at.partition, on) })
	w.g.reader.subscribe(q, lane.Next())
	defer w.g.reader.unsubscribe(q)
	w.setQueue(q)
	defer w.setQueue(nil)
	var next time.Time // not before it, unless a batch is full
	for {
		q.gather(w.ctx, w.soft, next, cfg.BatchRecords, cfg.BatchBytes)
		if q.idle(w.ctx, w.soft, cfg.Idle) {
			lane.Rest()
		}
		records, ok, err := q.take(w.ctx, w.soft, cfg.BatchRecords, cfg.BatchBytes)
		if !ok || err != nil {
			return worked, err
		}
		began := time.Now()
		err = lane.Handle(w.ctx, records)
		next = began.Add(pace(cfg.Pace, time.Since(began)))
		w.setNext(lane.Next())
		if err != nil {
			return worked, fmt.Errorf("handle %s/%d from offset %d: %w", w.at.topic, w.at.partition, records[0].Offset, err)
		}
		worked = true
	}
}

// pace is the time from the beginning of a batch to that of the next, 0 for lanes that see to it themselves. The longer batches take, because the machine is busy, the more is gathered for one: a system under too much
// load then does less for each record instead of more.
func pace(least, took time.Duration) time.Duration {
	if least == 0 {
		return 0
	}
	return max(least, min(4*took, longestPace))
}

const longestPace = 60 * time.Millisecond

func (w *worker) enter(lane Lane) {
	w.mu.Lock()
	w.lane, w.err, w.since, w.next = lane, nil, time.Now(), lane.Next()
	w.mu.Unlock()
	if w.stopping() { // stop may have looked before the lane was there
		lane.Drain()
	}
}

func (w *worker) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lane, w.since = nil, time.Now()
}

func (w *worker) setQueue(q *queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = q
}

// errReclaim ends a session whose claim has been overtaken.
var errReclaim = errors.New("claimed anew")

// reclaim ends the present session, if there is one; the next begins with a claim.
func (w *worker) reclaim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.fail(errReclaim)
	}
}

func (w *worker) setErr(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *worker) setNext(next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next
}

// uncommitted returns the offset that Kafka should know and does not. In the last call before the partition is given up, a refusal of a moment ago does not count.
func (w *worker) uncommitted(last bool) (next int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.next >= 0 && w.next != w.committedAt && (last || time.Now().After(w.retryAt))
}

// committed takes note of a commit's answer. news tells whether it is another than before.
func (w *worker) committed(offset int64, err error) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	news = (err == nil) != (w.commitErr == nil)
	w.commitErr = err
	if err == nil {
		w.committedAt = offset
	} else {
		w.retryAt = time.Now().Add(commitRetry)
	}
	return news
}

func (w *worker) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Topic: w.at.topic, Partition: w.at.partition, State: Claiming, Next: w.next, Since: w.since}
	switch {
	case w.lane != nil:
		s.State = Running
		if since, err := w.lane.Trouble(); err != nil {
			s.State, s.Err, s.Since = Waiting, err.Error(), since
		}
	case w.err != nil:
		s.Err = w.err.Error()
	}
	if w.stopping() {
		s.State = Draining
	}
	return s
}
