package intent

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
)

// Begun are calls whose first exchange is on record as begun by the transaction that planned them, under this process's lease. They need no
// claim: who has committed the transaction calls Go, who has rolled it back Drop, and one of the two comes once. If the process dies in between, or the
// answer to the COMMIT is lost, a committed call is found as any whose worker died: its lease runs out and its key is asked about before anything else (G7).
//
// A nil *Begun holds nothing.
type Begun struct {
	workers *Workers
	calls   []begun
	rest    bool      // calls were planned that a lane has to claim
	until   time.Time // after it the first of them would not be sent any more
}

// begun is a call with the slot that it holds in its lane.
type begun struct {
	claimed
	lane *lane
}

// Plan is the package's Plan, which in addition begins what its lanes have room for: that saves a call the claim, which is a transaction, and
// the time until somebody makes it. Within tx nothing is sent (G6): the returned calls begin with Go.
func (w *Workers) Plan(ctx context.Context, tx pgx.Tx, planned []Planned) (*Begun, error) {
	b := &Begun{workers: w, until: time.Now().Add(time.Minute)}
	if err := plan(ctx, tx, planned, b); err != nil {
		b.Drop()
		return nil, err
	}
	return b, nil
}

// Go makes the exchanges, and has the lanes look for the calls that were planned and not begun. It never blocks.
func (b *Begun) Go() {
	if b == nil {
		return
	}
	w := b.workers
	w.mu.Lock()
	open := w.exchanging != nil
	if open {
		for _, c := range b.calls {
			c.ended = c.lane.gate.Begin()
			w.working.Go(func() {
				defer c.lane.release()
				c.lane.carryOut(w.exchanging, c.claimed)
			})
		}
	}
	w.mu.Unlock()
	if !open {
		b.Drop() // the process ends
		return
	}
	b.calls = nil
	if b.rest {
		w.Wake()
	}
}

// Drop gives the slots up.
func (b *Begun) Drop() {
	if b == nil {
		return
	}
	for _, c := range b.calls {
		<-c.lane.slots
	}
	b.calls = nil
}

// Over reports whether the calls would not be sent any more: too much of their leases has passed.
func (b *Begun) Over() bool { return b != nil && time.Now().After(b.until) }

func (b *Begun) add(c begun) {
	if over := c.at.Add(c.lane.lease - c.lane.timeout); over.Before(b.until) {
		b.until = over
	}
	b.calls = append(b.calls, c)
}

// begin takes a slot for the call, if it may be sent as soon as its transaction has committed. Whoever is not sure leaves it to a lane, which looks at everything: a
// provider with a limited rate or a breaker that is not closed, a deadline that is over, a request that is made from what is stored or cannot be made.
func (b *Begun) begin(p Planned, call decision.Call, body []byte) (c begun, ok bool) {
	l := b.workers.lane(p.Intent.Provider)
	if l == nil || !l.gate.Free() || call.Phase != decision.Attempting {
		return c, false
	}
	if p.Intent.Op == decision.Undo && l.providers.History(l.provider) {
		return c, false
	}
	if d := p.Intent.Deadline; !d.IsZero() && !time.Now().Before(d) {
		return c, false
	}
	c = begun{lane: l, claimed: claimed{
		token: 1, order: p.Order, step: p.Intent.Step, key: p.Key(), provider: l.provider, call: call, n: 1, begins: true, at: time.Now(),
		cause:     Cause{CausationID: p.CausationID, Hop: p.Hop, TraceParent: p.TraceParent, TraceState: p.TraceState, Key: p.Key()},
		reference: p.Intent.Reference, reason: p.Intent.Reason, body: body,
	}}
	if c.prepare(l.providers); c.unknown != nil {
		return c, false
	}
	return c, l.spare()
}

// spare takes a slot if an exchange could be sent at once.
func (l *lane) spare() bool {
	if l.closed() || len(l.sending) == cap(l.sending) || !l.quick() && len(l.slots) >= cap(l.sending) {
		return false
	}
	select {
	case l.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// closed reports whether no exchange may begin any more, or none yet.
func (w *Workers) closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exchanging == nil
}

func (w *Workers) lane(provider string) *lane {
	for _, l := range w.lanes {
		if l.provider == provider {
			return l
		}
	}
	return nil
}
