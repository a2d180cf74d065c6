package cdc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"

	"chorus/cdc/progress"
	"chorus/cdc/quarantine"
	"chorus/cdc/wal"
)

// publisher sends rows to Kafka, transaction by transaction.
type publisher struct {
	*source
	out    *producer
	flight *flight
	fail   context.CancelCauseFunc // ends the session

	told map[string]bool // what was logged once in this session

	exactly *exactly // nil: a record is sent at once, at-least-once

	tx       progress.ID
	start    wal.LSN   // of the transaction's commit record
	at       time.Time // commit of the transaction
	sequence uint64    // of its last row; 1 is the first
	done     uint64    // rows of it that are in Kafka from before
	batch    uint64    // of records from the quarantine; 0 for others
	mark     watermark
	parcels  parcels
}

// begin opens a transaction, of which Start and Committed are known.
func (p *publisher) begin(of wal.Tx) error {
	p.tx, p.start, p.at = p.flight.begin(), of.Start, of.Committed
	p.sequence, p.done, p.batch = 0, 0, 0
	if p.cfg.Watermark {
		p.mark = watermarkOf(of)
	}
	if p.exactly == nil {
		return nil
	}
	all, rows, err := p.exactly.begin(of.Start)
	if all {
		rows = math.MaxUint64
	}
	p.done = rows
	return err
}

// next counts a row of the open transaction. It is false for one that is in
// Kafka from before.
func (p *publisher) next() bool {
	p.sequence++
	return p.sequence > p.done
}

// commit closes the open transaction, whose commit record ends at end. What of
// it is to be kept is kept before the position can pass it.
func (p *publisher) commit(ctx context.Context, end wal.LSN) error {
	if p.kept != nil {
		if err := p.keepPending(ctx); err != nil {
			return err
		}
	}
	p.flight.commit(end)
	if p.exactly != nil && p.sequence > p.done {
		p.exactly.gathering.complete(p.stretch(), end)
	}
	return nil
}

// stretch is the open transaction for its group.
func (p *publisher) stretch() stretch {
	return stretch{tx: p.tx, start: p.start, committed: p.at, sequence: p.sequence, batch: p.batch}
}

// send hands a record of the open transaction over. It waits while too much is
// in flight.
func (p *publisher) send(ctx context.Context, q *parcel) error {
	q.tx, q.committed = p.tx, p.at
	if p.exactly == nil {
		for !p.flight.tryAdd(q.size) {
			p.leave(false)
			if err := p.flight.wait(ctx); err != nil {
				return err
			}
		}
		if discards {
			q.settled(&q.Record, nil)
			return nil
		}
		// The record must not be given up when the session ends, so its context is
		// not the session's.
		p.out.client.Produce(context.Background(), &q.Record, q.settled)
		return nil
	}
	for !p.flight.tryAdd(q.size) {
		p.exactly.gathering.press() // the room may be taken by what waits for its end
		if err := p.flight.wait(ctx); err != nil {
			return err
		}
	}
	p.exactly.gathering.add(p.stretch(), q)
	return nil
}

// leave has what was handed to the client leave; see flight.leaves.
func (p *publisher) leave(busy bool) {
	if p.exactly == nil && p.flight.leaves(busy) {
		p.out.leave()
	}
}

// publish sends a row of the open transaction. It returns when the producer
// has the record, which is long before Kafka has it. It waits while too much
// is in flight, and while Kafka would refuse the record.
func (p *publisher) publish(ctx context.Context, row *wal.Row) error {
	p.metrics.rows.Inc()
	if !p.next() {
		return nil
	}
	q := p.parcel()
	t := p.out.topics[string(row.AggregateType)]
	if t != nil {
		q.fill(t.name, p.at, row)
		return p.place(ctx, q, t, t.key)
	}
	q.fill(ownTopic(row.AggregateType), p.at, row)
	return p.place(ctx, q, nil, string(row.AggregateType))
}

// place sends a record to a topic, which is nil when it was not looked up yet,
// and will then be remembered by key. A record that Kafka would refuse is not
// sent: it holds the stream, so that no later one of its key overtakes it
// (CDC-13), or is put into quarantine with those, or dropped.
func (p *publisher) place(ctx context.Context, q *parcel, t *topic, key string) error {
	if p.cfg.Watermark {
		p.mark.mark(q, p.sequence)
	}
	r := &q.Record
	if p.kept != nil && p.kept.concerns(quarantine.Place{Commit: p.start, Sequence: p.sequence}, r) {
		return p.keep(ctx, r, "")
	}
	q.size = size(r)
	if t == nil || t.refuses(r, q.size) != nil {
		why, err := p.admit(ctx, r, q.size, key)
		switch {
		case err != nil:
			return err
		case why != nil && p.kept != nil && p.kept.takes:
			return p.keep(ctx, r, why.reason)
		case why != nil:
			p.drop(why.reason)
			return nil
		}
	}
	if p.kept != nil {
		if err := p.keepPending(ctx); err != nil {
			return err
		}
	}
	return p.sendSuspect(ctx, q)
}

// batchSlack is by how much the client's reckoning of a batch may exceed size.
const batchSlack = 16

// settle is called when Kafka has the record, or the client has given it up.
func (p *publisher) settle(q *parcel, err error) {
	if err != nil {
		// What could be foreseen was not sent. So the topic was deleted or its
		// limit lowered meanwhile, the broker has rules of its own, or the client
		// was closed.
		p.suspects.add(err, &q.Record)
		p.flight.refused()
		p.fail(fmt.Errorf("record of topic %s was refused: %w", q.Topic, err))
		return
	}
	now := time.Now()
	leave := p.flight.acked(q.tx, 1, q.size, now)
	p.metrics.records.Inc()
	p.metrics.bytes.Add(float64(q.size - batchOverhead))
	p.metrics.latency.Observe(now.Sub(q.committed).Seconds())
	p.parcels.giveBack(q)
	if leave {
		p.out.leave()
	}
}

// insist tries again until it works, and tells the world why it does not. The
// slot stays ours meanwhile, and what was sent before goes on being confirmed.
func (p *publisher) insist(ctx context.Context, try func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, maxBackoff
	stood := false
	for {
		err := try()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if stood {
				p.goOn()
			}
			return nil
		case errors.Is(err, errNewLimit):
			return err
		}
		stood = true
		p.standStill(err.Error())
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
