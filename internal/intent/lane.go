package intent

import (
	"context"
	"sync/atomic"
	"time"

	"chorus/internal/decision"
	"chorus/internal/provider"
)

// maxBatch bounds the calls of one claim and of one record.
const maxBatch = 128

// lane makes the calls to one provider, as many at a time as it takes.
type lane struct {
	*Workers
	provider string
	lease    time.Duration
	timeout  time.Duration // of one exchange
	pace     pace
	gate     *provider.Gate
	slots    chan struct{} // holds a token for each call that is claimed, and the ballast
	sending  chan struct{} // holds a token for each exchange under way
	took     atomic.Int64  // how long exchanges take, smoothed, ns
	wake     chan struct{}
	half     chan struct{} // holds a token when half of the slots have become free

	// Of the lane's own goroutine:
	floor   time.Time // no open call was due before it when looked last, by the database's clock
	looked  time.Time // when the whole index was read for that
	rested  time.Time // when it looked last for calls that need no exchange, while the provider was left alone
	open    bool      // the breaker was open when it looked last
	ballast int       // tokens in slots that stand for calls which are not claimed ahead
}

// run claims until ctx ends. Exchanges end with exchanging.
func (l *lane) run(ctx, exchanging context.Context) {
	claims := &trouble{log: l.log.With("provider", l.provider), what: "claiming calls"}
	for {
		rest, pause, err := l.untilDue(ctx)
		if err == nil && rest <= 0 {
			rest, err = l.round(ctx, exchanging, pause)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			claims.rest(ctx, err)
			continue
		case rest > 0:
			l.sleep(ctx, min(rest, l.cfg.Poll))
		}
		claims.over()
	}
}

// sleep waits for d, a wake-up or the end of ctx.
func (l *lane) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.wake:
	case <-ctx.Done():
	}
}

// untilDueSQL reads one live entry of the index from $2 on, and the dead ones before it.
const untilDueSQL = `
	SELECT now(), due_at, EXTRACT(epoch FROM due_at - now())::float8, COALESCE(EXTRACT(epoch FROM until - now()), 0)::float8
	  FROM (SELECT (SELECT due_at FROM calls WHERE provider = $1 AND ended_at IS NULL AND due_at >= $2 ORDER BY due_at LIMIT 1),
	               (SELECT until FROM call_pauses WHERE provider = $1)) AS first (due_at, until)`

const (
	lookEvery = time.Second      // for calls that became due in the past: their transaction took long
	slack     = 10 * time.Second // of the floor, for transactions that take so long
)

// untilDue says how long until a call is due, and for how long the provider wants to be left alone.
func (l *lane) untilDue(ctx context.Context) (rest, pause time.Duration, err error) {
	from := l.floor
	whole := time.Since(l.looked) >= lookEvery
	if whole {
		from = time.Time{}
	}
	var now time.Time
	var first *time.Time
	var left *float64
	var paused float64
	err = l.pool.QueryRow(ctx, untilDueSQL, l.provider, from).Scan(&now, &first, &left, &paused)
	if err != nil {
		return 0, 0, err
	}
	if whole {
		l.looked, l.floor = time.Now(), now.Add(-slack)
		if first != nil && first.Before(l.floor) {
			l.floor = *first
		}
	}
	if first == nil {
		return l.cfg.Poll, 0, nil
	}
	return seconds(min(*left, 3600)), max(0, seconds(paused)), nil
}

// round claims what fits and starts it. While the provider is left alone, because it asked for it, its rate is used up or its
// breaker is open, only calls that need no exchange are taken. When there was nothing, another replica is taking it: round
// says how long to rest.
func (l *lane) round(ctx, exchanging context.Context, pause time.Duration) (rest time.Duration, err error) {
	free := l.acquire(ctx)
	if free == 0 {
		return 0, nil
	}
	room := 0
	if pause <= 0 {
		room, pause = l.gate.Room(free)
		l.watch()
	}
	resting := room == 0
	if resting && time.Since(l.rested) < l.cfg.Poll {
		for range free {
			<-l.slots
		}
		return pause, nil
	}
	if resting {
		room, l.rested = free, time.Now()
	}
	began := time.Now()
	claimed, err := l.claim(ctx, room, resting)
	took := time.Since(began)
	for range free - len(claimed) {
		<-l.slots
	}
	for _, c := range claimed {
		c.ended = func(decision.ResultKind) {}
		if c.begins {
			c.ended = l.gate.Begin()
		}
		l.working.Go(func() {
			defer l.release()
			l.carryOut(exchanging, c)
		})
	}
	switch {
	case resting:
		rest = pause
	case len(claimed) == 0:
		rest = l.cfg.Poll / 4
	default:
		breathe(ctx, took, l.half)
	}
	return rest, err
}

// release gives a slot up.
func (l *lane) release() {
	<-l.slots
	if len(l.slots) <= cap(l.slots)/2 {
		poke(l.half)
	}
}

// breathe rests after a transaction, the longer the longer it took, so that a busy machine makes few large ones instead of many small. It ends when there is enough
// for a large one.
func breathe(ctx context.Context, took time.Duration, enough <-chan struct{}) {
	select {
	case <-enough: // of before
	default:
	}
	t := time.NewTimer(min(3*took, mostBreath))
	defer t.Stop()
	select {
	case <-t.C:
	case <-enough:
	case <-ctx.Done():
	}
}

const mostBreath = 100 * time.Millisecond

// watch tells people when the breaker opens and closes.
func (l *lane) watch() {
	if open := l.gate.Open(); open != l.open {
		l.open = open
		if open {
			l.log.Warn("a provider answers nothing useful: its calls wait", "provider", l.provider)
		} else {
			l.log.Info("a provider is tried again", "provider", l.provider)
		}
	}
}

// ahead lets half as many calls more be claimed than may be sent, so that the next ones are at hand when an exchange ends, and a
// commit that is slow does not leave the provider idle. Only while exchanges are quick: what is claimed must be sent
// soon after.
func (l *lane) ahead() {
	want := cap(l.slots) - cap(l.sending)
	if l.quick() {
		want = 0
	}
	for ; l.ballast > want; l.ballast-- {
		<-l.slots
	}
	for ; l.ballast < want; l.ballast++ {
		select {
		case l.slots <- struct{}{}:
		default:
			return
		}
	}
}

func (l *lane) quick() bool {
	took := time.Duration(l.took.Load())
	return took > 0 && took < l.timeout/20
}

// acquire waits for a free slot and takes all that are free.
func (l *lane) acquire(ctx context.Context) (n int) {
	l.ahead()
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < maxBatch; n++ {
		select {
		case l.slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

// carryOut makes the exchange that was recorded as begun, or none when the call needs none, and hands its end to the recorders.
func (l *lane) carryOut(ctx context.Context, c claimed) {
	f := finished{claimed: c, next: c.call}
	switch {
	case c.crashed:
		f.result = decision.Result{Kind: decision.Lost, Reason: "the worker ended before the answer was recorded"}
		f.exchange = provider.Exchange{Err: "no end was recorded: the worker crashed, froze or lost its database"}
		f.next = c.call.Record(l.pace.policy(), f.result)
	case c.expired:
		f.next = c.call.Expire()
	case c.begins && !l.begin():
		// The exchanges before it hang. It was not sent, so it has used up no try.
		f.result = decision.Result{Kind: decision.Busy, Reason: "not sent: the provider takes long"}
		f.exchange = provider.Exchange{Err: "not sent: no exchange ended in time"}
		f.unsent = true
		c.ended(decision.Busy)
	case c.begins:
		// A process that was frozen since it claimed must not begin what another may be doing.
		if time.Since(c.at) > l.lease-l.timeout {
			l.log.Warn("a call is left to another worker: this one was frozen", "order", c.order, "key", c.key)
			<-l.sending
			c.ended(decision.Lost)
			return
		}
		f.result, f.exchange = l.providers.Send(ctx, c.request)
		<-l.sending
		l.took.Store((7*l.took.Load() + int64(f.exchange.Duration)) / 8)
		c.ended(f.result.Kind)
		f.next = c.call.Record(l.pace.policy(), f.result)
		f.asked = l.asked(c, f.exchange)
	}
	f.wait = l.pace.wait(f.next, f.asked)
	if f.unsent {
		f.wait = l.cfg.Poll
	}
	l.done <- f
	if len(l.done) >= maxBatch/2 {
		poke(l.many)
	}
}

// begin waits for its turn to send, well within the lease.
func (l *lane) begin() bool {
	select {
	case l.sending <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(l.cfg.LeaseMargin / 2)
	defer t.Stop()
	select {
	case l.sending <- struct{}{}:
		return true
	case <-t.C:
		return false
	}
}

// asked is for how long the provider wants to be left alone, within bounds.
func (l *lane) asked(c claimed, x provider.Exchange) time.Duration {
	bounded := min(x.RetryAfter, l.cfg.RetryAfterCap)
	if bounded < x.RetryAfter || x.Warning != "" {
		l.log.Warn("a provider's Retry-After is bounded", "provider", l.provider, "order", c.order, "wait", bounded, "cause", x.Warning)
	}
	return bounded
}
