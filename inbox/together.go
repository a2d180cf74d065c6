package inbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// crew has the partitions of a consumer share transactions (Config.Together). Whoever comes while a transaction runs waits for the next one, which takes
// everybody along; it is run by one of them, on that partition's connection.
//
// That is the way while all goes well. A shared transaction moves the fences of all its partitions or is rolled back, and after any failure each
// partition goes through alone: batch, then record by record, as if there were no crew. So what can go wrong goes wrong in one place only.
type crew struct {
	turn chan struct{} // holds a token while somebody leads
	next time.Time     // the next transaction does not begin before; of the leader

	full chan struct{} // holds a token when as many records wait as a transaction takes

	mu      sync.Mutex
	waiting []*ride // guarded by mu
}

// ride is a lane with the records that it wants to take through.
type ride struct {
	lane  *lane
	items []item
	done  chan outcome // has room for one
}

// outcome is what has become of a ride. With an error nothing is known to have been committed, and the lane goes alone.
type outcome struct {
	err error
	// unknown is the backend that was told to commit and did not answer: only when it is gone does the fence say whether it did.
	unknown backend
}

func newCrew() *crew { return &crew{turn: make(chan struct{}, 1), full: make(chan struct{}, 1)} }

// together takes items through with whoever else is there. It returns nil when they are committed, errAlone when the lane has to go alone, or an error that ends the lane.
func (l *lane) together(ctx context.Context, items []item) error {
	c := l.c.crew
	r := &ride{lane: l, items: items, done: make(chan outcome, 1)}
	c.enter(r, l.c.cfg.BatchRecords)
	var o outcome
	select {
	case o = <-r.done:
	case c.turn <- struct{}{}:
		o = l.lead(ctx, r)
		<-c.turn
	case <-l.drain:
		if c.leave(r) {
			return errDraining // nothing has begun
		}
		select {
		case o = <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case <-ctx.Done():
		c.leave(r)
		return context.Cause(ctx) // whoever leads may still commit: the fence knows
	}
	switch {
	case o.err == nil:
		l.next.Store(items[len(items)-1].record.Offset + 1)
		l.setTrouble(nil)
		return nil
	case errors.Is(o.err, errDraining), ctx.Err() != nil:
		return o.err
	case o.unknown.pid != 0:
		l.closeConn()
		l.leader = o.unknown
	}
	return errAlone
}

// errAlone says that a shared transaction did not work out.
var errAlone = errors.New("the shared transaction was rolled back")

func (c *crew) enter(r *ride, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, r)
	count := 0
	for _, r := range c.waiting {
		count += len(r.items)
	}
	if count >= most {
		select {
		case c.full <- struct{}{}:
		default:
		}
	}
}

// leave takes a ride back. It reports false if a transaction has it already.
func (c *crew) leave(r *ride) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, r)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

// lead runs a transaction with the lane's own ride, unless that is done already, and as many others as fit.
func (l *lane) lead(ctx context.Context, own *ride) outcome {
	c := l.c.crew
	select {
	case o := <-own.done:
		return o
	default:
	}
	if err := l.gather(ctx, c.next); err != nil {
		c.leave(own)
		return outcome{err: err}
	}
	if l.conn.IsClosed() {
		if err := l.resume(ctx); err != nil || len(l.remaining(own.items)) < len(own.items) {
			c.leave(own)
			return outcome{err: errors.Join(errAlone, err)} // to wait for the database is nobody's turn
		}
	}
	rides := c.take(own, l.c.cfg.BatchRecords, l.c.cfg.BatchBytes)
	began := time.Now()
	err := l.share(ctx, rides)
	c.next = began.Add(pace(l.c.cfg.Pace, time.Since(began)))
	o := outcome{err: err}
	if l.committing != nil && l.conn.IsClosed() {
		o.unknown = l.self
	} else {
		l.committing = nil
	}
	for _, r := range rides {
		if r != own {
			r.done <- o
		}
	}
	if o.unknown.pid != 0 {
		o.unknown = backend{} // the leader's own: resume ends it
	}
	return o
}

// gather waits until an instant, no longer than until a transaction is full.
func (l *lane) gather(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(max(0, time.Until(until)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.c.crew.full:
		return nil
	case <-l.drain:
		return errDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pace is the time from the beginning of a transaction to that of the next. The longer they take, because the machine is busy, the more is gathered for one: a system under
// too much load then does less for each record instead of more.
func pace(least, took time.Duration) time.Duration { return max(least, min(4*took, longestPace)) }

const longestPace = 60 * time.Millisecond

// take returns own and what else there is and fits.
func (c *crew) take(own *ride, records, bytes int) []*ride {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken, rest := []*ride{own}, c.waiting[:0]
	count, size := len(own.items), own.size()
	for _, r := range c.waiting {
		n, s := len(r.items), r.size()
		switch {
		case r == own:
		case count+n > records || size+s > bytes:
			rest = append(rest, r)
		default:
			taken, count, size = append(taken, r), count+n, size+s
		}
	}
	clear(c.waiting[len(rest):])
	c.waiting = rest
	if len(rest) == 0 {
		select { // it was about those who are taken
		case <-c.full:
		default:
		}
	}
	return taken
}

func (r *ride) size() (bytes int) {
	for i := range r.items {
		bytes += r.items[i].record.Size()
	}
	return bytes
}

// share runs one transaction for the rides, on the connection of l.
func (l *lane) share(ctx context.Context, rides []*ride) error {
	var items []item
	for _, r := range rides {
		items = append(items, r.items...)
	}
	return l.run(ctx, &pass{rides: rides, items: items}, 1)
}
