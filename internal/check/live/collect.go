package live

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"chorus/internal/check"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
)

// participant is a service with order states, and how its state gets into an order.
type participant struct {
	name   event.Participant
	client inspect.Client
	put    func(o *check.Order, raw json.RawMessage) error
}

func (v *verifier) participants() []participant {
	return []participant{
		{event.Orders, v.src.Orders, func(o *check.Order, raw json.RawMessage) error { return put(&o.Orders, raw) }},
		{event.Inventory, v.src.Inventory, func(o *check.Order, raw json.RawMessage) error { return put(&o.Inventory, raw) }},
		{event.Fraud, v.src.Fraud, func(o *check.Order, raw json.RawMessage) error { return put(&o.Fraud, raw) }},
		{event.Shipping, v.src.Shipping, func(o *check.Order, raw json.RawMessage) error { return put(&o.Shipping, raw) }},
		{event.Billing, v.src.Billing, func(o *check.Order, raw json.RawMessage) error { return put(&o.Billing, raw) }},
	}
}

func put[S any](to **S, raw json.RawMessage) error {
	state := new(S)
	if err := json.Unmarshal(raw, state); err != nil {
		return err
	}
	*to = state
	return nil
}

// states goes through a participant's states by ascending number, a page at a time.
func states(ctx context.Context, p participant, page int) iter.Seq2[inspect.State, error] {
	return func(yield func(inspect.State, error) bool) {
		for after := event.OrderNo(0); ; {
			states, err := p.client.States(ctx, after, page)
			if err != nil {
				yield(inspect.State{}, fmt.Errorf("read states of %s: %w", p.name, err))
				return
			}
			for _, s := range states {
				if !yield(s, nil) {
					return
				}
			}
			if len(states) < page {
				return
			}
			after = states[len(states)-1].Order
		}
	}
}

// lane is one source of rows in ascending order of orders. Its head is the next row.
type lane struct {
	no   event.OrderNo // of the head; 0 at the end
	take func(o *check.Order) error
	next func() (event.OrderNo, error)
}

func (l *lane) advance() (err error) {
	l.no, err = l.next()
	return err
}

// lanes opens every source. stop ends them.
func (v *verifier) lanes(ctx context.Context) (all []*lane, stop func()) {
	var stops []func()
	for _, p := range v.participants() {
		next, stop := iter.Pull2(states(ctx, p, v.cfg.Page))
		stops = append(stops, stop)
		var head inspect.State
		all = append(all, &lane{
			next: func() (event.OrderNo, error) {
				state, err, more := next()
				head = state
				if !more {
					return 0, nil
				}
				return state.Order, err
			},
			take: func(o *check.Order) error {
				if err := p.put(o, head.State); err != nil {
					return fmt.Errorf("state of %s: %w", p.name, err)
				}
				return nil
			},
		})
	}
	next, stopLedger := iter.Pull2(v.src.Providers.Ledger(ctx))
	stops = append(stops, stopLedger)
	var entry simulated.LedgerEntry
	all = append(all, &lane{
		next: func() (event.OrderNo, error) {
			e, err, more := next()
			entry = e
			if !more {
				return 0, nil
			}
			return event.OrderNo(e.Order), err
		},
		take: func(o *check.Order) error { o.Ledger = append(o.Ledger, ledger(entry)); return nil },
	})
	tells, stopTold := v.toldLane(ctx)
	all, stops = append(all, tells), append(stops, stopTold)
	told := slices.Sorted(v.topics.feed.Orders)
	all = append(all, &lane{
		next: func() (no event.OrderNo, err error) {
			if len(told) > 0 {
				no, told = told[0], told[1:]
			}
			return no, nil
		},
		take: func(*check.Order) error { return nil },
	})
	return all, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func ledger(e simulated.LedgerEntry) check.Entry {
	return check.Entry{
		Provider: e.Provider, Currency: e.Currency, Active: e.Active, ActiveKeys: e.ActiveKeys,
		Undone: e.Undone, Units: e.Units, Charged: e.Charged, Net: e.Net,
	}
}

// stream judges every order as its rows come by. It holds a page of each source and no more.
func (v *verifier) stream(ctx context.Context) error {
	lanes, stop := v.lanes(ctx)
	defer stop()
	for _, l := range lanes {
		if err := l.advance(); err != nil {
			return err
		}
	}
	for {
		var no event.OrderNo
		for _, l := range lanes {
			if l.no != 0 && (no == 0 || l.no < no) {
				no = l.no
			}
		}
		if no == 0 {
			return nil
		}
		o := v.topics.order(no)
		o.Told = v.untold()
		for _, l := range lanes {
			for l.no == no {
				if err := l.take(&o); err != nil {
					return fmt.Errorf("order %s: %w", no, err)
				}
				if err := l.advance(); err != nil {
					return err
				}
			}
		}
		v.orders++
		if len(o.Judge(time.Now(), v.cfg.Rules)) > 0 {
			v.suspects = append(v.suspects, no)
			continue
		}
		v.settle(o, nil)
	}
}
