package intent

import (
	"math/rand/v2"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/provider"
)

// pace is how patient the calls to one provider are: what the provider's configuration says, and what the service does by
// default where it says nothing.
type pace struct {
	do, undo, ask, end provider.Patience
	retryAfterCap      time.Duration
}

func (c Config) pace(l provider.Limits) pace {
	return pace{
		do:            patient(l.Do, c.Tries, c.Backoff, c.BackoffCap),
		undo:          patient(l.Undo, c.Undos, c.Backoff, c.UndoCap),
		ask:           patient(l.Ask, c.Asks, c.AskAfter, c.AskCap),
		end:           patient(l.End, c.Ends, c.Backoff, c.BackoffCap),
		retryAfterCap: c.RetryAfterCap,
	}
}

func patient(p provider.Patience, tries int, backoff, most time.Duration) provider.Patience {
	if p.Tries == 0 {
		p.Tries = tries
	}
	if p.Backoff == 0 {
		p.Backoff = backoff
	}
	if p.Cap == 0 {
		p.Cap = max(most, p.Backoff)
	}
	p.Backoff = min(p.Backoff, p.Cap)
	return p
}

func (p pace) policy() decision.Policy {
	return decision.Policy{Tries: p.do.Tries, Undos: p.undo.Tries, Asks: p.ask.Tries, Ends: p.end.Tries}
}

// Longest is the longest life of a forward call to a provider, its look-ups and cancels by key
// included: an order's deadline must not be shorter (D4). Waits that a provider asks for, its rate and its breaker come on
// top: those a call sits out within its deadline. l needs its timeout.
func (c Config) Longest(l provider.Limits) time.Duration {
	p := c.pace(l)
	asks := sum(p.ask, func(n int) time.Duration { return l.Timeout + spread(double(p.ask, n), 1) })
	return sum(p.do, func(n int) time.Duration { return l.Timeout + asks + spread(double(p.do, n), 1) }) +
		sum(p.end, func(n int) time.Duration { return l.Timeout + spread(double(p.end, n), 1) })
}

// Budget is the longest life of a step's call, at the slowest of its providers.
type Budget struct {
	Step     event.Step
	Provider string
	Longest  time.Duration
}

// chain are the steps that wait for each other: an order's deadline must not be shorter than their sum. The screening runs beside
// the first of them.
var chain = []event.Step{event.StockStep, event.ShipmentStep, event.PaymentStep}

// Budgets lists how long each step of an order may take, one after the other, and their sum. timeout is that of a provider which has
// none of its own.
func (c Config) Budgets(f *provider.File, timeout time.Duration) (all []Budget, total time.Duration) {
	for _, step := range chain {
		b := Budget{Step: step}
		for _, name := range f.Providers(step) {
			l := f.Limits(name)
			if l.Timeout == 0 {
				l.Timeout = timeout
			}
			if d := c.Longest(l); d > b.Longest {
				b.Provider, b.Longest = name, d
			}
		}
		all, total = append(all, b), total+b.Longest
	}
	return all, total
}

func sum(p provider.Patience, of func(int) time.Duration) (total time.Duration) {
	for i := range p.Tries {
		total += of(i)
	}
	return total
}

// wait is how long to rest before the call's next exchange. asked is what the provider asked for: it can lengthen the
// wait, not shorten it.
func (p pace) wait(call decision.Call, asked time.Duration) time.Duration {
	var d time.Duration
	switch {
	case call.Phase == decision.Asking:
		d = double(p.ask, call.Asks)
	case call.Phase == decision.Attempting && call.Tries > 0:
		of := p.do
		if call.Op == decision.Undo {
			of = p.undo
		}
		d = double(of, call.Tries-1)
	case call.Phase == decision.Ending && call.Ends > 0:
		d = double(p.end, call.Ends-1)
	}
	return spread(max(d, min(asked, p.retryAfterCap)), rand.Float64())
}

// double is the first wait, doubled n times, at most the cap.
func double(p provider.Patience, n int) time.Duration {
	d := p.Backoff
	for ; n > 0 && d < p.Cap; n-- {
		d *= 2
	}
	return min(d, p.Cap)
}

// spread lengthens a wait by up to a fifth, so that calls which failed together do not come back together. It never
// shortens one: a provider may have asked for it.
func spread(d time.Duration, by float64) time.Duration {
	return d + time.Duration(by*float64(d)/5)
}
