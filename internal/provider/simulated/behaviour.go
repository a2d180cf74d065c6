package simulated

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Behaviour is one rule of how a provider misbehaves. Of the rules that match a call one alone applies: a rule for
// the call's order before one for any order, then one for its operation before one for all. A rule that sets nothing but
// operation and order clears the one that was set for them.
type Behaviour struct {
	Operation string `json:"operation"`       // do, undo, lookup, cancel or all
	Order     int64  `json:"order,omitempty"` // 0: any order

	// Down is "down" (every call is refused, with FailStatus) or "unreachable" (the connection is closed without an answer).
	Down string `json:"down,omitempty"`
	// FailRate is the share (0 to 1) of calls that fail with FailStatus and do nothing.
	FailRate   float64 `json:"failRate,omitempty"`
	FailStatus int     `json:"failStatus,omitempty"` // 503 when 0
	// DeclineRate is the share of new requests that get a definite refusal (402 or 409, recorded under the key), and of
	// undos and cancels that get 403 undo_refused (not recorded). Look-ups are never declined.
	DeclineRate float64 `json:"declineRate,omitempty"`
	// TimeoutAfterSuccess is the share of calls that are carried out and never answered: the connection stays open until
	// the caller gives up, 60 s at most.
	TimeoutAfterSuccess float64 `json:"timeoutAfterSuccess,omitempty"`
	// LatencyMinMs and LatencyMaxMs bound the time in milliseconds before a call is looked at. It passes in full, also
	// when the caller gives up meanwhile: that is how an effect arrives late.
	LatencyMinMs int `json:"latencyMinMs,omitempty"`
	LatencyMaxMs int `json:"latencyMaxMs,omitempty"`
	// RetryAfter is sent with failures, in seconds, as a number or, when RetryAfterForm is "date", as an HTTP date.
	RetryAfter     int    `json:"retryAfter,omitempty"`
	RetryAfterForm string `json:"retryAfterForm,omitempty"`
	// Calls limits the rule to the next calls that match it; 0 is without limit.
	Calls int64 `json:"calls,omitempty"`
}

// The values of Behaviour.Down, and of the log's fault beside "fail", "decline" and "timeout".
const (
	Down        = "down"
	Unreachable = "unreachable"
)

const (
	faultFail    = "fail"
	faultDecline = "decline"
	faultTimeout = "timeout"

	maxLatency = 2 * time.Minute
)

// clears says whether b sets nothing.
func (b Behaviour) clears() bool {
	return b == Behaviour{Operation: b.Operation, Order: b.Order}
}

func (b Behaviour) check(f *fieldErrors) {
	if !slices.Contains([]operation{do, undo, lookup, cancel, all}, operation(b.Operation)) {
		f.add("operation", "must be do, undo, lookup, cancel or all")
	}
	if b.Order < 0 {
		f.add("order", "must be an order number from 1, or 0 for any")
	}
	if b.Down != "" && b.Down != Down && b.Down != Unreachable {
		f.add("down", `must be "down" or "unreachable"`)
	}
	f.rate("failRate", b.FailRate)
	f.rate("declineRate", b.DeclineRate)
	f.rate("timeoutAfterSuccess", b.TimeoutAfterSuccess)
	if b.FailStatus != 0 && (b.FailStatus < 400 || b.FailStatus > 599) {
		f.add("failStatus", "must be between 400 and 599")
	}
	most := int64(maxLatency / time.Millisecond)
	f.between("latencyMinMs", int64(b.LatencyMinMs), 0, most)
	f.between("latencyMaxMs", int64(b.LatencyMaxMs), 0, most)
	if b.LatencyMaxMs < b.LatencyMinMs {
		f.add("latencyMaxMs", "must not be below latencyMinMs")
	}
	f.between("retryAfter", int64(b.RetryAfter), 0, 24*60*60)
	if b.RetryAfterForm != "" && b.RetryAfterForm != "seconds" && b.RetryAfterForm != "date" {
		f.add("retryAfterForm", `must be "seconds" or "date"`)
	}
	if b.Calls < 0 {
		f.add("calls", "must not be negative")
	}
}

func (f *fieldErrors) rate(field string, r float64) {
	if !(r >= 0 && r <= 1) {
		f.add(field, "must be between 0 and 1")
	}
}

// retryAfter is the header's value, empty for none. A date is rounded up: the header knows whole seconds only.
func (b Behaviour) retryAfter(now time.Time) string {
	switch {
	case b.RetryAfter == 0:
		return ""
	case b.RetryAfterForm == "date":
		at := now.Add(time.Duration(b.RetryAfter) * time.Second)
		return at.Add(time.Second - 1).Truncate(time.Second).UTC().Format(http.TimeFormat)
	}
	return strconv.Itoa(b.RetryAfter)
}

// A rule is a behaviour in force.
type rule struct {
	Behaviour
	id int64 // of its row
}

// rules are those of one provider. The source of chance is theirs, so that one provider's calls do not shift another's.
type rules struct {
	mu   sync.Mutex // guards all below
	set  []rule
	rand *rand.Rand
}

// A mishap is what a rule does to one call.
type mishap struct {
	rule       int64 // whose count-down the call moves; 0 is none
	latency    time.Duration
	fault      string // "" for none
	failStatus int
	retryAfter string
}

// choose finds the rule for a call and draws what it does to it.
func (r *rules) choose(op operation, order int64, now time.Time) mishap {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.match(op, order)
	if i < 0 {
		return mishap{}
	}
	b := r.set[i].Behaviour
	m := mishap{failStatus: b.FailStatus, retryAfter: b.retryAfter(now)}
	if b.Calls > 0 {
		m.rule = r.set[i].id
		r.set[i].Calls--
		if r.set[i].Calls == 0 {
			r.set = slices.Delete(r.set, i, i+1)
		}
	}
	if m.failStatus == 0 {
		m.failStatus = http.StatusServiceUnavailable
	}
	spread := b.LatencyMaxMs - b.LatencyMinMs
	m.latency = time.Duration(b.LatencyMinMs+r.rand.IntN(spread+1)) * time.Millisecond
	switch {
	case b.Down != "":
		m.fault = b.Down
	case r.rand.Float64() < b.FailRate:
		m.fault = faultFail
	case op != lookup && r.rand.Float64() < b.DeclineRate:
		m.fault = faultDecline
	case r.rand.Float64() < b.TimeoutAfterSuccess:
		m.fault = faultTimeout
	}
	return m
}

func (r *rules) match(op operation, order int64) int {
	best, rank := -1, -1
	for i, b := range r.set {
		if (b.Order != 0 && b.Order != order) || (operation(b.Operation) != all && operation(b.Operation) != op) {
			continue
		}
		n := 0
		if b.Order != 0 {
			n += 2
		}
		if operation(b.Operation) != all {
			n++
		}
		if n > rank {
			best, rank = i, n
		}
	}
	return best
}

// byOrder says whether any rule asks for an order, which a look-up, undo or cancel may have to find out first.
func (r *rules) byOrder() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.set, func(b rule) bool { return b.Order != 0 })
}

func (r *rules) list() []Behaviour {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Behaviour, 0, len(r.set))
	for _, b := range r.set {
		out = append(out, b.Behaviour)
	}
	return out
}
