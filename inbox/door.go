package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// pass is one run of the door's transaction over some records of one partition, or of several.
type pass struct {
	rides    []*ride // the partitions, first that of the lane that runs it
	items    []item  // of all of them, in this order
	fresh    []*item // new to this consumer, in offset order, and for the Handler to decide
	facts    []Fact  // of fresh
	verdicts []Verdict
	rows     []inboxRow
	letters  []letter
}

const fenceSQL = `
UPDATE partition_owner SET next_offset = $5
WHERE consumer = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND next_offset = $6`

// fencesSQL is fenceSQL for several partitions.
const fencesSQL = `
UPDATE partition_owner AS o SET next_offset = n.next_offset
FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[]) AS n(topic, partition, epoch, next_offset, was)
WHERE o.consumer = $1 AND o.topic = n.topic AND o.partition = n.partition AND o.epoch = n.epoch AND o.next_offset = n.was`

// transact runs the door's transaction over items, which are in offset order and not empty. It returns nil when it was committed, and then l.next has moved
// past them. After an error the transaction is rolled back, or, if the connection was lost in COMMIT, unknown: see resume. attempts is what dead letters say.
func (l *lane) transact(ctx context.Context, items []item, attempts int) error {
	select {
	case l.c.turns <- struct{}{}:
		defer func() { <-l.c.turns }()
	case <-l.drain:
		return errDraining // nothing has begun
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.run(ctx, &pass{rides: []*ride{{lane: l, items: items}}, items: items}, attempts)
}

// run is the transaction. The first ride is the lane's own.
func (l *lane) run(ctx context.Context, p *pass, attempts int) error {
	ctx, cancel := context.WithTimeout(ctx, l.c.cfg.BatchTimeout)
	defer cancel()
	tx, err := l.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = tx.Rollback(ctx) // a failure closes the connection, which rolls back too
		}
	}()
	if err := l.admit(ctx, tx, p, attempts); err != nil {
		return err
	}
	if err := l.handle(ctx, tx, p, attempts); err != nil {
		return err
	}
	if err := insertRows(ctx, tx, l.c.cfg.Consumer, p.rows); err != nil {
		return err
	}
	if err := saveLetters(ctx, tx, l.c.cfg.Consumer, p.letters); err != nil {
		return err
	}
	if err := l.moveFences(ctx, tx, p); err != nil {
		return err
	}
	done = true // what happens in COMMIT is the server's to know
	l.committing = p
	next := p.rides[0].end()
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit offsets up to %d of %s/%d: %w", next, l.p.Topic, l.p.Partition, err)
	}
	l.committed(next)
	return nil
}

// end is the offset after the ride's last record.
func (r *ride) end() int64 { return r.items[len(r.items)-1].record.Offset + 1 }

// moveFences moves the fence of every partition of the pass, or none: then one of them is another's.
func (l *lane) moveFences(ctx context.Context, tx pgx.Tx, p *pass) error {
	n := len(p.rides)
	topics, partitions := make([]string, n), make([]int32, n)
	epochs, from, to := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range p.rides {
		topics[i], partitions[i] = r.lane.p.Topic, r.lane.p.Partition
		epochs[i], from[i], to[i] = r.lane.epoch, r.lane.next.Load(), r.end()
	}
	var moved int64
	if n == 1 {
		tag, err := tx.Exec(ctx, fenceSQL, l.c.cfg.Consumer, topics[0], partitions[0], epochs[0], to[0], from[0])
		if err != nil {
			return fmt.Errorf("move the fence of %s/%d to %d: %w", l.p.Topic, l.p.Partition, to[0], err)
		}
		moved = tag.RowsAffected()
	} else {
		tag, err := tx.Exec(ctx, fencesSQL, l.c.cfg.Consumer, topics, partitions, epochs, to, from)
		if err != nil {
			return fmt.Errorf("move the fences of %d partitions: %w", n, err)
		}
		moved = tag.RowsAffected()
	}
	if moved < int64(n) {
		return ErrFenced
	}
	return nil
}

// committed takes note that the transaction of l.committing has been committed, with what it did for other partitions.
func (l *lane) committed(next int64) {
	p := l.committing
	l.committing = nil
	l.next.Store(next)
	if p == nil {
		return
	}
	for _, dead := range p.letters {
		r := &dead.item.record
		l.c.log.Warn("dead letter", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset,
			"type", dead.item.fact.Type, "reason", dead.failure.reason, "detail", dead.failure.detail)
	}
	if l.c.cfg.Committed != nil && len(p.facts) > 0 {
		l.c.cfg.Committed(p.facts, p.verdicts)
	}
}

// admit looks the ids up, and sorts the records into those that are new and for the Handler, duplicates, and those that nobody may handle.
func (l *lane) admit(ctx context.Context, tx pgx.Tx, p *pass, attempts int) error {
	seen := newSeen(p.items)
	if err := seen.look(ctx, tx, l.c.cfg.Consumer); err != nil {
		return err
	}
	held, err := l.heldKeys(ctx, tx, p.items)
	if err != nil {
		return err
	}
	horizon := time.Now().Add(-l.c.cfg.Horizon)
	for i := range p.items {
		it := &p.items[i]
		if it.record.Control {
			continue
		}
		if !it.hasID {
			p.letters = append(p.letters, letter{it, *it.failed, attempts})
			held.add(it)
			continue
		}
		if !seen.first(it) {
			continue
		}
		it.repeats = seen.repeats(it)
		if failed := l.unfit(it, horizon, held); failed != nil {
			p.bury(it, *failed, attempts)
			held.add(it)
			continue
		}
		p.fresh, p.facts = append(p.fresh, it), append(p.facts, it.fact)
	}
	return nil
}

// unfit says why a fact is to be set aside without asking the Handler; nil if it is not.
func (l *lane) unfit(it *item, horizon time.Time, held heldSet) *failure {
	switch {
	case it.failed != nil:
		return it.failed
	case it.fact.OccurredAt.Before(horizon):
		return &failure{ReasonTooOld, fmt.Sprintf("it occurred at %s, before the horizon of %s: the inbox may have forgotten that it was handled", it.fact.OccurredAt.UTC().Format(time.RFC3339), l.c.cfg.Horizon)}
	case held.before(it):
		return &failure{ReasonHeld, "an earlier fact of this key is set aside"}
	}
	return nil
}

// bury makes a dead letter of a record whose inbox row is this transaction's own.
func (p *pass) bury(it *item, f failure, attempts int) {
	p.letters = append(p.letters, letter{it, f, attempts})
	p.rows = append(p.rows, inboxRow{it, DeadVerdict(f.reason, f.detail)})
}

// handle asks the Handler about the new facts and notes its verdicts.
func (l *lane) handle(ctx context.Context, tx pgx.Tx, p *pass, attempts int) error {
	if len(p.facts) == 0 {
		return nil
	}
	verdicts, err := call(ctx, l.c.handler, guardedTx{tx}, p.facts)
	if err == nil && l.conn.PgConn().IsBusy() {
		err = errors.New("the handler has left a query's rows open")
	}
	if err != nil {
		return fmt.Errorf("handle %d facts of %s/%d from offset %d: %w", len(p.facts), l.p.Topic, l.p.Partition, p.facts[0].Offset, err)
	}
	if len(verdicts) != len(p.facts) {
		return fmt.Errorf("handle facts of %s/%d: %d verdicts for %d facts", l.p.Topic, l.p.Partition, len(verdicts), len(p.facts))
	}
	if l.c.cfg.HoldKeys && overtakes(p.facts, verdicts) {
		return errOvertakes
	}
	p.verdicts = slices.Clone(verdicts)
	for i, v := range verdicts {
		if v.Outcome == "" {
			v.Outcome = Applied
			p.verdicts[i] = v
		}
		if v.Outcome == Dead {
			p.bury(p.fresh[i], failure{v.Reason, v.Why}, attempts)
			continue
		}
		if v.Outcome != Passed {
			p.rows = append(p.rows, inboxRow{p.fresh[i], v})
		}
	}
	return nil
}

// call runs a Handler. A panic is the fact's fault: it is an error like any other, with the stack for the dead letter.
func call(ctx context.Context, h Handler, tx pgx.Tx, facts []Fact) (verdicts []Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Permanent(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), ReasonPanic)
		}
	}()
	verdicts, err = h(ctx, tx, facts)
	if err == nil && verdicts == nil {
		verdicts = make([]Verdict, len(facts))
	}
	return verdicts, err
}
