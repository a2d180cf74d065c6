package orders

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// till has requests that come at the same time share a transaction: those that arrive while one runs go into the next. A request that comes
// alone is placed at once, and alone. Each has its own answer; when a shared transaction fails, each of its requests is tried alone, so that one costs
// the others nothing but time (G11).
type till struct {
	turns chan struct{} // holds a token for each transaction under way

	mu      sync.Mutex
	waiting []*placing // guarded by mu
}

const (
	mostTurns  = 2    // so that one that waits for the database holds up nobody else
	mostPlaced = 64   // orders of a transaction
	mostLines  = 2000 // of all of them together, unless one alone has more
)

// placing is a request with what becomes of it.
type placing struct {
	ctx   context.Context
	cart  Cart
	claim claim
	done  chan struct{} // closed when out and err are set
	out   *placeOutput
	err   error
}

func newTill() *till { return &till{turns: make(chan struct{}, mostTurns)} }

// place returns when the order is placed or refused. A request whose time is over is taken back as long as nothing has begun.
func (t *till) place(ctx context.Context, a *api, cart Cart, c claim) (*placeOutput, error) {
	p := &placing{ctx: ctx, cart: cart, claim: c, done: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, p)
	t.mu.Unlock()
	select {
	case <-p.done:
	case t.turns <- struct{}{}:
		t.serve(a, p)
	case <-ctx.Done():
		if t.leave(p) {
			return nil, a.trouble(ctx, "place the order", context.Cause(ctx))
		}
	}
	<-p.done
	return p.out, p.err
}

// serve places own and what came with it, in the caller's turn.
func (t *till) serve(a *api, own *placing) {
	defer func() { <-t.turns }()
	some := t.take(own)
	if len(some) == 0 {
		return
	}
	defer a.caught(some...)
	a.placeAll(some)
}

func (p *placing) finished() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *placing) finish(out *placeOutput, err error) {
	p.out, p.err = out, err
	close(p.done)
}

// leave takes a request back. It reports false if somebody has taken it.
func (t *till) leave(p *placing) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, p)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return i >= 0
}

// take returns own and what else fits, or nothing when own was taken by somebody else. Of two requests under one key the second waits: it will find the answer
// of the first.
func (t *till) take(own *placing) (taken []*placing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.waiting, own) {
		return nil
	}
	scopes := map[string]bool{}
	lines := 0
	add := func(p *placing) {
		taken, lines = append(taken, p), lines+len(p.cart.Items)
		if p.claim.given() {
			scopes[string(p.claim.scope)] = true
		}
	}
	add(own)
	rest := t.waiting[:0]
	for _, p := range t.waiting {
		switch {
		case p == own:
		case len(taken) == mostPlaced, lines+len(p.cart.Items) > mostLines, scopes[string(p.claim.scope)]:
			rest = append(rest, p)
		default:
			add(p)
		}
	}
	clear(t.waiting[len(rest):])
	t.waiting = rest
	return taken
}

// each finishes requests at the same time.
func (a *api) each(some []*placing, finish func(p *placing) (*placeOutput, error)) {
	var wg sync.WaitGroup
	for _, p := range some {
		wg.Go(func() {
			defer a.caught(p)
			p.finish(finish(p))
		})
	}
	wg.Wait()
}

// caught is deferred: after a panic nobody may wait for ever, and the process goes on, as it does when a request panics that is nobody else's.
func (a *api) caught(some ...*placing) {
	fault := recover()
	if fault == nil {
		return
	}
	a.log.Error("placing orders panicked", "panic", fault, "stack", string(debug.Stack()))
	for _, p := range some {
		if !p.finished() {
			p.finish(nil, huma.Error500InternalServerError("the service could not place the order"))
		}
	}
}
