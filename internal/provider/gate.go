package provider

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"chorus/internal/decision"
)

// Gate says how many exchanges with a provider may begin now: its rate, and its circuit breaker. One goroutine asks [Gate.Room] and
// begins; exchanges end anywhere.
type Gate struct {
	rate    *rate.Limiter // nil without a limit
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// probeEvery is how often to look whether the one exchange that a breaker let through has ended.
const probeEvery = 50 * time.Millisecond

func newGate(l Limits) *Gate {
	g := &Gate{}
	if l.Rate > 0 {
		g.rate = rate.NewLimiter(rate.Limit(l.Rate), l.Burst)
	}
	if after := uint32(l.Breaker.After); after > 0 {
		g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests: 1, Timeout: l.Breaker.Rest,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= after },
		})
	}
	return g
}

// Room returns how many of want exchanges may begin now, and when that is none, when to ask again.
func (g *Gate) Room(want int) (room int, again time.Duration) {
	if g.breaker != nil {
		switch g.breaker.State() {
		case gobreaker.StateOpen:
			return 0, probeEvery
		case gobreaker.StateHalfOpen:
			if g.breaker.Counts().Requests > 0 {
				return 0, probeEvery
			}
			want = min(want, 1)
		}
	}
	if g.rate == nil {
		return want, 0
	}
	if tokens := g.rate.Tokens(); tokens < 1 {
		return 0, time.Duration((1 - tokens) / float64(g.rate.Limit()) * float64(time.Second))
	} else if tokens < float64(want) {
		want = int(tokens)
	}
	return want, 0
}

// Free reports whether an exchange may begin without being counted first: nothing limits the rate, and the breaker is closed.
func (g *Gate) Free() bool {
	return g.rate == nil && (g.breaker == nil || g.breaker.State() == gobreaker.StateClosed)
}

// Open reports whether the breaker is open.
func (g *Gate) Open() bool { return g.breaker != nil && g.breaker.State() == gobreaker.StateOpen }

var errNoUse = errors.New("busy or lost")

// Begin counts an exchange that begins. Call the returned function with what it meant.
func (g *Gate) Begin() func(decision.ResultKind) {
	if g.rate != nil {
		g.rate.Allow()
	}
	if g.breaker == nil {
		return func(decision.ResultKind) {}
	}
	done, err := g.breaker.Allow()
	if err != nil { // it opened since Room: what is on record as begun is sent all the same
		return func(decision.ResultKind) {}
	}
	return func(kind decision.ResultKind) {
		if kind == decision.Busy || kind == decision.Lost {
			done(errNoUse)
		} else {
			done(nil)
		}
	}
}
