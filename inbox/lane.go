package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// errDraining says that the lane gave up waiting because its partition is being taken away; nothing was lost.
var errDraining = errors.New("partition is being given up")

// lane is one claimed partition. Its methods belong to one goroutine, apart from Next, Trouble and Drain.
type lane struct {
	c     *Consumer
	p     broker.Partition
	conn  *pgx.Conn
	self  backend // of conn
	epoch int64

	next       atomic.Int64 // what the fence row has: offset of the first record that is not handled
	committing *pass        // sent to COMMIT, answer not known
	leader     backend      // the same of another lane that took this one along

	drainOnce sync.Once
	drain     chan struct{}

	mu      sync.Mutex
	trouble error // guarded by mu: why the lane is waiting, and since when
	since   time.Time
}

// Next is the offset of the first record that is not handled.
func (l *lane) Next() int64 { return l.next.Load() }

// Drain tells the lane to finish its transaction and wait for nothing else.
func (l *lane) Drain() { l.drainOnce.Do(func() { close(l.drain) }) }

// Trouble is since when the lane is waiting, and why; nil while it works.
func (l *lane) Trouble() (since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.trouble
}

func (l *lane) setTrouble(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble == nil {
		l.since = time.Now()
	}
	l.trouble = err
}

// Rest gives the connection up until there is something to handle. The row keeps the claim: the next batch begins as after a connection that was lost, under the same epoch.
func (l *lane) Rest() { l.closeConn() }

// Close gives the connection up. The row keeps the claim, for the next owner to raise.
func (l *lane) Close() {
	l.c.lanes.remove(l)
	l.closeConn()
}

// Handle takes records in offset order through the door. It returns nil when all are committed. It waits as long as the database is away; any
// error ends the lane, and what was not committed is read again by the next claim.
func (l *lane) Handle(ctx context.Context, records []broker.Record) error {
	items := make([]item, 0, len(records))
	for _, r := range records {
		if r.Offset >= l.next.Load() {
			items = append(items, identify(r))
		}
	}
	if l.c.crew != nil && len(items) > 0 {
		if err := l.together(ctx, items); !errors.Is(err, errAlone) {
			return err
		}
	}
	err := l.settle(ctx, items, 1)
	if err == nil || l.stopped(ctx, err) {
		return err
	}
	for i := range items {
		if err := l.single(ctx, items[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// single takes one record through, after the batch that it came in has failed. If it fails alone too, and not by the surroundings' fault, it is set aside.
func (l *lane) single(ctx context.Context, one []item) error {
	wait := newBackOff()
	for attempt := 1; ; attempt++ {
		err := l.settle(ctx, one, attempt)
		if err == nil || l.stopped(ctx, err) {
			return err
		}
		class, reason := classify(err)
		if class == never || attempt >= l.c.cfg.Attempts {
			one[0].failed = &failure{reason, err.Error()}
			if err := l.settle(ctx, one, attempt); err != nil {
				return fmt.Errorf("set offset %d aside: %w", one[0].record.Offset, err)
			}
			return nil
		}
		l.setTrouble(err)
		if err := l.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// settle runs the transaction until it is committed, or fails for a reason that may lie in the records. What fails by the surroundings' fault is probed with a growing pause, on
// a new connection if the old one is lost; meanwhile the partition's queue fills and its fetching stops.
func (l *lane) settle(ctx context.Context, items []item, attempt int) error {
	wait := newBackOff()
	for conflicts := 0; ; {
		if l.conn.IsClosed() {
			if err := l.reconnect(ctx); err != nil {
				return err
			}
		}
		if items = l.remaining(items); len(items) == 0 {
			l.setTrouble(nil)
			return nil
		}
		err := l.transact(ctx, items, attempt)
		if err == nil {
			l.setTrouble(nil)
			return nil
		}
		if !l.conn.IsClosed() {
			l.committing = nil // the server has answered: it was not committed
		}
		if l.stopped(ctx, err) {
			return err
		}
		if class, _ := classify(err); class != again {
			return err
		}
		if conflict(err) && conflicts < mostConflicts {
			// Two transactions met on one row, and the other has won: there is nothing to wait for, and nothing to tell.
			conflicts++
			continue
		}
		l.c.log.Warn("batch failed, will try again", "topic", l.p.Topic, "partition", l.p.Partition, "offset", items[0].record.Offset, "err", err)
		l.setTrouble(err)
		if err := l.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// reconnect tries until the lane has a connection again and knows what the database has.
func (l *lane) reconnect(ctx context.Context) error {
	wait := newBackOff()
	for {
		err := l.resume(ctx)
		if err == nil {
			if next := l.next.Load(); l.committing != nil && next > l.committing.items[0].record.Offset {
				l.committed(next)
			}
			l.committing = nil
			return nil
		}
		l.closeConn()
		if errors.Is(err, ErrFenced) || ctx.Err() != nil {
			return err
		}
		l.c.log.Warn("database is away, will try again", "topic", l.p.Topic, "partition", l.p.Partition, "err", err)
		l.setTrouble(err)
		if err := l.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// remaining drops the records that the database already has. A COMMIT whose answer was lost may have been done.
func (l *lane) remaining(items []item) []item {
	next := l.next.Load()
	i := slices.IndexFunc(items, func(it item) bool { return it.record.Offset >= next })
	if i < 0 {
		return nil
	}
	return items[i:]
}

// stopped tells whether err ends the lane rather than being about records.
func (l *lane) stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrFenced) || errors.Is(err, errDraining)
}

func newBackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = 10*time.Millisecond, 2, 5*time.Second
	return b
}

func (l *lane) pause(ctx context.Context, wait *backoff.ExponentialBackOff) error {
	timer := time.NewTimer(wait.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.drain:
		return errDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
