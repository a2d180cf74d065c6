package participant

import (
	"context"
	"errors"
	"slices"
	"time"

	"chorus/internal/pg"
)

// Gate says which of the due timers may fire now. The others are asked about again.
type Gate interface {
	Pass(ctx context.Context, due []Due) ([]Due, error)
}

// openGate lets every timer fire.
type openGate struct{}

func (openGate) Pass(_ context.Context, due []Due) ([]Due, error) { return due, nil }

// How often due timers are looked for, how many at once, and how many fire in one transaction. A gate may hold back any number of
// timers for long, as of a partition that does not run; those behind them in the list must not wait for them, so each look goes on
// where the last one stopped, and begins anew at the end.
const (
	timerPoll  = 250 * time.Millisecond
	timerPage  = 10_000
	timerBatch = 200
)

// timerRest is the longest pause after a failure.
const timerRest = 5 * time.Second

// keepTime fires timers until ctx ends. A failure is logged and tried again: a timer is never lost, because it stands in
// the state.
func (d *Door[S]) keepTime(ctx context.Context, gate Gate) error {
	wait := timerPoll
	var at Due
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		var err error
		at, err = d.fire(ctx, gate, at)
		if err == nil {
			wait = timerPoll
			continue
		}
		if ctx.Err() == nil {
			wait = min(2*wait, timerRest)
			d.log.Warn("timers", "err", err)
		}
	}
}

// fire tells a page of the orders whose instants have come, and whom the gate lets pass, once. It returns where to go on.
func (d *Door[S]) fire(ctx context.Context, gate Gate, after Due) (next Due, err error) {
	due, err := d.Elapsed(ctx, after, d.page)
	if err != nil {
		return after, err
	}
	if len(due) == d.page {
		next = due[len(due)-1]
	}
	if len(due) == 0 {
		return next, nil
	}
	if due, err = gate.Pass(ctx, due); err != nil {
		return after, err
	}
	var faults []error
	for batch := range slices.Chunk(due, timerBatch) {
		faults = append(faults, d.fireEach(ctx, batch))
	}
	return next, errors.Join(faults...)
}

// fireEach tells a batch, and one by one when it does not go together: an order whose state cannot be decided must not stop
// the time of the others.
func (d *Door[S]) fireEach(ctx context.Context, batch []Due) error {
	err := d.Elapse(ctx, batch)
	if err == nil || len(batch) == 1 || pg.Transient(err) || ctx.Err() != nil {
		return err
	}
	var faults []error
	for i := range batch {
		faults = append(faults, d.Elapse(ctx, batch[i:i+1]))
	}
	return errors.Join(faults...)
}
