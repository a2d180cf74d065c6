package provider

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"chorus/internal/outside"
)

// spec is one provider of a file.
type spec struct {
	name    string
	do      *template // also of a look
	ask     *template // nil: unknown says what replaces it
	end     *template // cancel by key; nil when the provider has none
	undo    *template
	unknown string // ask, repeat or cancel: how an unknown outcome is found out
	headers []header
	limits  Limits
	retry   retryRule
	reading reading
	texts   []textRule
}

type header struct{ name, value string }

// Limits are how much a provider takes, and how patient its calls are. Zeros stand for what the service does by default.
type Limits struct {
	Timeout     time.Duration // of a whole exchange, from dialling to the last byte of the answer
	Concurrency int           // exchanges at a time of one process
	Rate        float64       // exchanges a second of one process; 0 is any number
	Burst       int
	Breaker     Breaker
	Do          Patience
	Ask         Patience
	End         Patience
	Undo        Patience
}

// Breaker stops the exchanges with a provider that answers nothing useful any more. Calls then wait, they do not fail; their deadline
// goes on. One exchange is let through after each rest, and when it gets an answer, all are.
type Breaker struct {
	After int // busy and lost exchanges in a row; 0 is never
	Rest  time.Duration
}

// Patience is how often and how far apart one kind of exchange is tried.
type Patience struct {
	Tries   int
	Backoff time.Duration // after the first; doubled after each
	Cap     time.Duration
}

// Usual limits.
const (
	usualConcurrency = 64
	usualBreaker     = 32
	usualRest        = 2 * time.Second
)

func (r *reader) readSpecs(n node, f *File) map[string]*spec {
	all := map[string]*spec{}
	for _, p := range r.pairs(n) {
		if p.key == "" || url.PathEscape(p.key) != p.key || strings.Trim(p.key, ".") == "" {
			r.fault(p.at, "name %q is not a plain path segment", p.key)
		}
		all[p.key] = r.readSpec(p, f.steps(p.key))
	}
	return all
}

// readSpec reads a provider that the given steps call.
func (r *reader) readSpec(p pair, steps []outside.Shape) *spec {
	s := &spec{
		name: p.key, reading: usualReading(),
		limits: Limits{Concurrency: usualConcurrency, Breaker: Breaker{usualBreaker, usualRest}},
		retry:  retryRule{header: "Retry-After", format: "auto", cap: longest},
	}
	var request any
	effect := len(steps) == 0
	for i, shape := range steps {
		effect = effect || !shape.Reads
		if request = sample(shape.Request); i > 0 {
			request = nil
		}
	}
	var ask, cancel, revert node
	s.do = r.readTemplate(p.value, "POST", always, []string{"request"}, request, map[string]func(node){
		"ask":         func(n node) { ask = n },
		"cancel":      func(n node) { cancel = n },
		"revert":      func(n node) { revert = n },
		"unknown":     func(n node) { s.unknown = r.oneOf(n, "ask", "repeat", "cancel") },
		"headers":     func(n node) { s.headers = r.readHeaders(n) },
		"timeout":     func(n node) { s.limits.Timeout = r.duration(n, time.Millisecond, 5*time.Minute) },
		"concurrency": func(n node) { s.limits.Concurrency = r.whole(n, 1, 10_000) },
		"rate":        func(n node) { r.readRate(n, &s.limits) },
		"breaker":     func(n node) { s.limits.Breaker = r.readBreaker(n) },
		"retry":       func(n node) { s.limits.Do = r.readPatience(n) },
		"retry_after": func(n node) { s.retry = r.readRetryAfter(n) },
		"answers":     func(n node) { r.readReading(n, &s.reading) },
		"outcomes":    func(n node) { s.reading.outcomes = r.readOutcomes(n) },
		"texts":       func(n node) { s.texts = r.readTexts(n, request) },
	})
	patient := func(into *Patience) map[string]func(node) {
		return map[string]func(node){"retry": func(n node) { *into = r.readPatience(n) }}
	}
	if ask.Node != nil {
		s.ask = r.readTemplate(ask, "GET", always, []string{"request"}, request, patient(&s.limits.Ask))
	}
	if cancel.Node != nil {
		s.end = r.readTemplate(cancel, "POST", append(undoing, always...), []string{"request"}, request, patient(&s.limits.End))
	}
	if revert.Node != nil {
		s.undo = r.readTemplate(revert, "DELETE", append(append([]string{"reference"}, undoing...), always...), []string{"request", "response"}, request, patient(&s.limits.Undo))
	}
	if s.unknown == "" {
		s.unknown = "ask"
	}
	if effect {
		r.checkEffect(p, s)
	}
	return s
}

// checkEffect reports what a call with an effect cannot do without.
func (r *reader) checkEffect(p pair, s *spec) {
	if s.undo == nil {
		r.fault(p.at, "provider %s has an effect and no revert: nothing could take it back", s.name)
	}
	if s.unknown == "ask" && s.ask == nil {
		r.fault(p.at, "provider %s has an effect and no ask: say unknown: repeat or unknown: cancel for a provider without look-up by key", s.name)
	}
	if s.unknown == "cancel" && s.end == nil {
		r.fault(p.at, "provider %s cancels by key what is unknown and has no cancel", s.name)
	}
	if s.do.method == "GET" {
		r.fault(p.at, "provider %s has an effect and its method is GET", s.name)
	}
}

func (r *reader) readHeaders(n node) (all []header) {
	for _, p := range r.pairs(n) {
		name := textproto.CanonicalMIMEHeaderKey(p.key)
		switch name {
		case "Idempotency-Key", "Content-Length", "Host", "Connection", "Transfer-Encoding", "X-Order", "Traceparent", "Tracestate":
			r.fault(p.at, "header %s is set by chorus", name)
		}
		value, _ := r.referring(p.value)
		if !validHeader(name, value) {
			r.fault(p.at, "header %s is no HTTP header, or its value is none", p.key)
			continue
		}
		all = append(all, header{name, value})
	}
	return all
}

func validHeader(name, value string) bool {
	if name == "" || strings.ContainsAny(name, " \t\r\n:") {
		return false
	}
	return strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) < 0
}

func (r *reader) readRate(n node, l *Limits) {
	l.Burst = 1
	r.fields(n, map[string]func(node){
		"per_second": func(n node) { l.Rate = float64(r.whole(n, 1, 1_000_000)) },
		"per_minute": func(n node) { l.Rate = float64(r.whole(n, 1, 1_000_000)) / 60 },
		"burst":      func(n node) { l.Burst = r.whole(n, 1, 1_000_000) },
	})
	if l.Rate == 0 {
		r.fault(n, "a rate needs per_second or per_minute")
	}
}

func (r *reader) readBreaker(n node) Breaker {
	b := Breaker{usualBreaker, usualRest}
	r.fields(n, map[string]func(node){
		"after": func(n node) { b.After = r.whole(n, 0, 1_000_000) },
		"rest":  func(n node) { b.Rest = r.duration(n, 10*time.Millisecond, time.Hour) },
	})
	return b
}

func (r *reader) readPatience(n node) (p Patience) {
	r.fields(n, map[string]func(node){
		"tries":   func(n node) { p.Tries = r.whole(n, 1, 10_000) },
		"backoff": func(n node) { p.Backoff = r.duration(n, time.Millisecond, time.Hour) },
		"cap":     func(n node) { p.Cap = r.duration(n, time.Millisecond, 24*time.Hour) },
	})
	if p.Cap > 0 && p.Backoff > p.Cap {
		r.fault(n, "the cap is shorter than the first wait")
	}
	return p
}

// fixed are the headers of every request. Those of the configuration may be secret, so no record holds them.
func (s *spec) fixed(h http.Header) {
	for _, one := range s.headers {
		h.Set(one.name, one.value)
	}
}
