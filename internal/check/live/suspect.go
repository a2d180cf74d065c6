package live

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"golang.org/x/sync/errgroup"

	"chorus/internal/check"
	"chorus/internal/event"
)

// mostSuspects bounds how many are looked at again: beyond it the system is so wrong that more would tell nothing.
const mostSuspects = 5000

// lookers is how many suspects are read at the same time.
const lookers = 8

// look is one further look at a suspect.
type look struct {
	order  check.Order
	steady bool // its status was the same before and after everything else was read
	found  []check.Violation
}

// again looks at the suspects until all are sound or the pauses are used up.
func (v *verifier) again(ctx context.Context) error {
	rest := v.suspects
	if extra := len(rest) - mostSuspects; extra > 0 {
		rest = rest[:mostSuspects]
		v.report.Add(check.Violation{Check: check.Ends, What: fmt.Sprintf("%d more orders looked wrong; too many to look at again", extra)})
	}
	for round, pause := range v.cfg.Pauses {
		if len(rest) == 0 {
			return nil
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
		looks, err := v.lookAt(ctx, rest)
		if err != nil {
			return err
		}
		rest = rest[:0:0]
		for _, l := range looks {
			switch {
			case len(l.found) == 0:
				v.settle(l.order, nil)
			case round < len(v.cfg.Pauses)-1:
				rest = append(rest, l.order.No)
			case l.steady:
				v.settle(l.order, l.found)
			default:
				v.unjudged++
			}
		}
	}
	return nil
}

// lookAt reads the orders again. The topics are read last, since a fact may come into its topic a little later than its state
// was committed, and never earlier.
func (v *verifier) lookAt(ctx context.Context, orders []event.OrderNo) ([]look, error) {
	looks := make([]look, len(orders))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, no := range orders {
		group.Go(func() (err error) {
			looks[i], err = v.read(groupCtx, no)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := v.topics.advance(ctx); err != nil {
		return nil, err
	}
	for i := range looks {
		o := &looks[i].order
		told := v.topics.order(o.No)
		o.Facts, o.Topics = told.Facts, told.Topics
		looks[i].found = o.Judge(time.Now(), v.cfg.Rules)
	}
	return looks, nil
}

// read reads one order everywhere, the orders service first and last.
func (v *verifier) read(ctx context.Context, no event.OrderNo) (look, error) {
	l := look{order: check.Order{No: no}}
	services := v.participants()
	for _, p := range services {
		if err := readState(ctx, p, &l.order); err != nil {
			return l, err
		}
	}
	entries, err := v.src.Providers.Order(ctx, int64(no))
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		l.order.Ledger = append(l.order.Ledger, ledger(e))
	}
	if err := v.readTold(ctx, &l.order); err != nil {
		return l, err
	}
	after := check.Order{No: no}
	if err := readState(ctx, services[0], &after); err != nil {
		return l, err
	}
	l.steady = reflect.DeepEqual(l.order.Orders, after.Orders)
	return l, nil
}

func readState(ctx context.Context, p participant, o *check.Order) error {
	states, err := p.client.States(ctx, o.No-1, 1)
	if err != nil {
		return fmt.Errorf("read state of order %s at %s: %w", o.No, p.name, err)
	}
	if len(states) == 0 || states[0].Order != o.No {
		return nil
	}
	if err := p.put(o, states[0].State); err != nil {
		return fmt.Errorf("state of order %s at %s: %w", o.No, p.name, err)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
