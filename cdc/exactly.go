package cdc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"chorus/cdc/bookmark"
	"chorus/cdc/wal"
)

// exactly is a session's exactly-once delivery: it brings groups of records to
// Kafka, each in one Kafka transaction with the position behind it.
//
// What a crash leaves. A Kafka transaction is there whole or not at all, and so
// the position always says which rows are. Whoever comes next claims the slot
// (see claim), which ends what is open, reads the position and leaves out what
// is before it. A transaction whose end is not known, because its answer did
// not come, is resolved in the same way: the session fails, and the next one
// begins there. The slot is told of a position only when it is in Kafka (G3).
//
// An owner that was frozen and wakes up is fenced: its transactional id has
// been given to another, so Kafka takes no record from it and ends nothing for
// it.
type exactly struct {
	*publisher
	gathering *gathering
	topic     *positionTopic
	from      bookmark.Position // where the session began; the reader's
	at        bookmark.Position // in Kafka; of the goroutine that runs
	sent      atomic.Uint64     // its Batch, for the reader
}

// idleDelay is how long a position without rows may wait: an idle slot moves
// with it, and nobody reads anything new for it.
const idleDelay = 2 * time.Second

// run publishes what is gathered until ctx ends or something fails.
func (e *exactly) run(ctx context.Context) {
	idle := time.NewTicker(idleDelay)
	defer idle.Stop()
	for {
		next, ok, wait := e.gathering.take(time.Now())
		if ok {
			if err := e.bring(ctx, next); err != nil {
				e.fail(err)
				return
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-e.gathering.changed:
		case <-due:
		case <-idle.C:
			if e.flight.through() > e.at.End {
				if err := e.bring(ctx, group{}); err != nil {
					e.fail(err)
					return
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// bring publishes a group and the position behind it in one Kafka transaction,
// and takes it out of what is in flight.
func (e *exactly) bring(ctx context.Context, g group) error {
	at := behind(e.at, g)
	if len(g.runs) == 0 {
		at = at.Through(e.flight.through())
	}
	if err := e.transact(ctx, at, g.records); err != nil {
		return err
	}
	e.at = at
	e.sent.Store(at.Batch)
	e.flight.stored(at.End)
	now := time.Now()
	for _, r := range g.runs {
		if r.records > 0 {
			e.flight.acked(r.tx, r.records, r.bytes, now)
			e.metrics.bytes.Add(float64(r.bytes - r.records*batchOverhead))
		}
		latency := now.Sub(r.committed).Seconds()
		for range r.records {
			e.metrics.latency.Observe(latency)
		}
	}
	e.metrics.records.Add(float64(len(g.records)))
	for _, r := range g.records {
		e.parcels.giveBack(r.parcel)
	}
	return nil
}

// behind is the position when a group is in Kafka.
func behind(p bookmark.Position, g group) bookmark.Position {
	for _, r := range g.runs {
		if r.end != 0 {
			p = p.Through(r.end)
		} else {
			p = p.Within(r.start, r.sequence)
		}
		p.Batch = max(p.Batch, r.batch)
	}
	p.Count += uint64(len(g.records))
	return p
}

// transact publishes records and a position in one Kafka transaction. With an
// error the outcome may be either.
func (e *exactly) transact(ctx context.Context, at bookmark.Position, records []gathered) error {
	t, err := e.beginTransaction()
	if err != nil {
		return err
	}
	for _, r := range records {
		t.produce(&r.Record)
	}
	t.produce(e.topic.record(at))
	return t.commit(ctx)
}

// begin tells what to leave out of a transaction that begins.
func (e *exactly) begin(start wal.LSN) (all bool, rows uint64, err error) {
	all, rows, err = e.from.Passes(start)
	if err != nil {
		return false, 0, problem{err.Error(), anew(e.cfg)}
	}
	if !all && start >= e.from.Commit {
		e.from.Commit = 0 // it came, or was none
	}
	return all, rows, nil
}

// batch is the number of the last batch of records from the quarantine. Nothing
// is in flight when it is asked for.
func (e *exactly) batch() uint64 { return e.sent.Load() }

// anew is the cure for a position and a slot that do not belong together.
func anew(s Source) string {
	return fmt.Sprintf("publish what is missing (chorus cdc recover), then go on with a copy of the slot under a new name, which has no position: "+
		"SELECT pg_copy_logical_replication_slot(%s, 'NAME') and slot: NAME; a new name without a copy publishes all rows that the table still holds", quoteLiteral(s.Slot))
}
