package provider_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/provider"
	"chorus/internal/providertest"
)

// TestConfiguredOutcomes: what a status or a body means is the provider's configuration (C37).
func TestConfiguredOutcomes(t *testing.T) {
	t.Parallel()
	const rules = `
    answers: {reference: $.data.ref, state: $.status, active: [PAID], gone: [VOID], code: $.error.type, message: $.error.text}
    outcomes:
      - {status: 200, path: $.status, op: eq, value: FAILED, is: declined}
      - {status: 200, path: $.status, op: eq, value: WAIT, is: unknown}
      - {status: 409, path: $.error.type, op: eq, value: duplicate, is: ok}
      - {status: [423, 409], is: retryable}
      - {status: 4xx, path: $.error.retry, op: eq, value: true, is: retryable}
      - {status: 500, is: final}
      - {on: revert, status: 403, is: ok}
      - {on: ask, status: 410, is: absent}
      - {on: [ask, cancel], status: 418, is: retryable}
`
	p := providertest.Start(t)
	set := openSet(t, usual(p.URL, rules))
	do := attempt(decision.Do, `{}`)
	for _, c := range []struct {
		name   string
		call   provider.Call
		status int
		body   string
		want   decision.Result
	}{
		{"ok", do, 200, `{"status":"PAID","data":{"ref":"r-1"}}`, decision.Result{Kind: decision.OK, Reference: "r-1"}},
		{"refused by its body", do, 200, `{"status":"FAILED","error":{"type":"limit","text":"too much"}}`, decision.Result{Kind: decision.Refusal, Reason: "limit: too much"}},
		{"unknown by its body", do, 200, `{"status":"WAIT","data":{"ref":"r-1"}}`, decision.Result{Kind: decision.Lost, Reason: "HTTP 200 OK"}},
		{"duplicate is ok", do, 409, `{"error":{"type":"duplicate"},"data":{"ref":"r-1"}}`, decision.Result{Kind: decision.OK, Reference: "r-1"}},
		{"duplicate without a reference", do, 409, `{"error":{"type":"duplicate"}}`, decision.Result{Kind: decision.Lost, Reason: "HTTP 409 without a reference"}},
		{"other 409", do, 409, `{}`, decision.Result{Kind: decision.Busy, Reason: "HTTP 409 Conflict"}},
		{"locked", do, 423, ``, decision.Result{Kind: decision.Busy, Reason: "HTTP 423 Locked"}},
		{"says it may be retried", do, 400, `{"error":{"retry":true}}`, decision.Result{Kind: decision.Busy, Reason: "HTTP 400 Bad Request"}},
		{"does not say so", do, 400, `{"error":{"retry":false}}`, decision.Result{Kind: decision.Refusal, Reason: "HTTP 400 Bad Request"}},
		{"final 500", do, 500, `{}`, decision.Result{Kind: decision.Refusal, Reason: "HTTP 500 Internal Server Error"}},
		{"undo that is refused in vain", attempt(decision.Undo, ""), 403, ``, decision.Result{Kind: decision.OK}},
		{"question answered", in(decision.Asking, do), 200, `{"status":"PAID","data":{"ref":"r-1"}}`, decision.Result{Kind: decision.OK, Reference: "r-1"}},
		{"key is gone", in(decision.Asking, do), 200, `{"status":"VOID"}`, decision.Result{Kind: decision.Refusal, Reason: "VOID"}},
		{"key is absent", in(decision.Asking, do), 410, ``, decision.Result{Kind: decision.Absent, Reason: "HTTP 410 Gone"}},
		{"cancel is busy", in(decision.Ending, do), 418, ``, decision.Result{Kind: decision.Busy, Reason: "HTTP 418 I'm a teapot"}},
	} {
		p.Then(providertest.JSON(c.status, c.body))
		if got, _ := send(t, set, c.call); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestPRV01RetryAfterFormats: the formats of A48, in a header or in the body, bounded by cap and fallback.
func TestPRV01RetryAfterFormats(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	unix := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	for _, c := range []struct {
		name, rule, header, body string
		want                     time.Duration
		warned                   bool
	}{
		{"seconds", "format: seconds", "4", "", 4 * time.Second, false},
		{"milliseconds", "format: milliseconds", "1500", "", 1500 * time.Millisecond, false},
		{"iso 8601", "format: iso8601", now.Add(9 * time.Second).Format(time.RFC3339), "", 9 * time.Second, false},
		{"iso 8601 elsewhere", "format: iso8601", now.Add(9 * time.Second).In(time.FixedZone("", 19800)).Format(time.RFC3339), "", 9 * time.Second, false},
		{"unix", "format: unix", unix(6 * time.Second), "", 6 * time.Second, false},
		{"unix in the past", "format: unix", unix(-6 * time.Second), "", 0, true},
		{"auto is unix", "format: auto", unix(6 * time.Second), "", 6 * time.Second, false},
		{"http date", "format: httpdate", date(3 * time.Second), "", 3 * time.Second, false},
		{"http date where seconds are said", "format: httpdate", "3", "", 0, true},
		{"auto is seconds", "format: auto", "7", "", 7 * time.Second, false},
		{"auto is a date", "format: AUTO", date(3 * time.Second), "", 3 * time.Second, false},
		{"auto is iso 8601", "format: auto", now.Add(5 * time.Second).Format(time.RFC3339Nano), "", 5 * time.Second, false},
		{"another header", "header: X-Rate-Reset-In", "", "", 0, false},
		{"body", "path: $.error.retry_in, format: milliseconds", "9", `{"error":{"retry_in":250}}`, 250 * time.Millisecond, false},
		{"body is a text", "path: $.error.retry_in", "", `{"error":{"retry_in":"2"}}`, 2 * time.Second, false},
		{"body without it", "path: $.error.retry_in, fallback: 3s", "9", `{}`, 3 * time.Second, false},
		{"body is no JSON", "path: $.error.retry_in, fallback: 3s", "", `<html>`, 3 * time.Second, false},
		{"fallback", "fallback: 30s", "", "", 30 * time.Second, false},
		{"fallback for nonsense", "fallback: 30s", "later", "", 30 * time.Second, true},
		{"fallback for the past", "fallback: 2s", date(-time.Hour), "", 2 * time.Second, true},
		{"cap", "cap: 10s", "3600", "", 10 * time.Second, true},
		{"negative", "format: milliseconds", "-1", "", 0, true},
		{"absurd milliseconds", "format: milliseconds", "99999999999999999999", "", 24 * time.Hour, true},
		{"absurdly negative", "format: seconds", "-99999999999999999999", "", 0, true},
	} {
		h := http.Header{"Date": {date(0)}}
		if c.header != "" {
			h.Set("Retry-After", c.header)
		}
		p := providertest.Start(t, providertest.Answer{Status: 429, Header: h, Body: c.body})
		_, x := send(t, openSet(t, usual(p.URL, "    retry_after: {"+c.rule+"}\n")), attempt(decision.Do, `{}`))
		if x.RetryAfter != c.want || (x.Warning != "") != c.warned {
			t.Errorf("%s: %s %q, want %s", c.name, x.RetryAfter, x.Warning, c.want)
		}
	}
}

// TestBreaker: it opens after a streak, lets one exchange through after its rest, and closes when that one gets an answer.
func TestBreaker(t *testing.T) {
	t.Parallel()
	set := openSet(t, usual("http://h", "    breaker: {after: 3, rest: 2s}\n"))
	synctest.Test(t, func(t *testing.T) {
		g := set.Gate("pay")
		room := func() int { n, _ := g.Room(10); return n }
		fail := func(kinds ...decision.ResultKind) {
			for _, k := range kinds {
				g.Begin()(k)
			}
		}
		fail(decision.Busy, decision.Lost, decision.Refusal, decision.Busy, decision.Lost)
		if room() != 10 || g.Open() {
			t.Fatal("a refusal is an answer: the streak is broken")
		}
		fail(decision.Busy)
		if n, again := g.Room(10); n != 0 || again <= 0 || !g.Open() {
			t.Fatalf("room for %d after three in a row", n)
		}
		time.Sleep(2100 * time.Millisecond) // of the bubble's clock
		if room() != 1 {
			t.Fatalf("room for %d after the rest", room())
		}
		probe := g.Begin()
		if room() != 0 {
			t.Fatal("a second exchange beside the probe")
		}
		probe(decision.Lost)
		if room() != 0 || !g.Open() {
			t.Fatal("the probe failed and it is not open")
		}
		time.Sleep(2100 * time.Millisecond)
		g.Begin()(decision.Absent)
		if room() != 10 {
			t.Fatal("the probe got an answer and it is not closed")
		}
	})
}

// TestRate: so many a second, with a burst; what does not fit is told when to come again.
func TestRate(t *testing.T) {
	t.Parallel()
	text := usual("http://h", "    rate: {per_second: 10, burst: 3}\n    breaker: {after: 0}\n")
	synctest.Test(t, func(t *testing.T) {
		g := openSet(t, text).Gate("pay")
		begun := 0
		for start := time.Now(); time.Since(start) < 10*time.Second; {
			n, again := g.Room(64)
			for range n {
				g.Begin()(decision.OK)
			}
			begun += n
			time.Sleep(max(again, time.Millisecond))
		}
		if begun < 98 || begun > 103 {
			t.Errorf("%d exchanges in 10 s", begun)
		}
	})
}

// TestPRV09Texts: texts are adapted for the provider that needs it, the stored request stays as it is.
func TestPRV09Texts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, have, want string }{
		{"max: 200", "Cafe\u2028Set", "Cafe Set"},
		{"max: 200", "A\nB", "A B"},
		{"max: 200", "A\u0085B", "A B"},
		{"max: 200", "A\u00a0B", "A\u00a0B"},
		{"max: 200", "a\x00\r\n\tb", "a b"},
		{"only: bmp, instead: '?'", "🦄 Ünïcorn 서울", "? Ünïcorn 서울"},
		{"only: latin1, instead: ''", "🦄 Ünïcorn 서울", " Ünïcorn"},
		{"only: ascii, instead: '.'", "Ünïcorn 서울", ".n.corn ."},
		{"max: 20", "Rear Admiral of Twenty-One"[:21], "Rear Admiral of Twen"},
		{"max: 50", strings.Repeat("é", 60), strings.Repeat("é", 50)},
		{"max_bytes: 51", strings.Repeat("é", 60), strings.Repeat("é", 25)},
		{"max: 3", "ab 🦄x", "ab"},
		{"max: 2", "👩\u200d🚀", "👩"},
		{"forbid: '<>|', instead: '-'", "a<b>c|d", "a-b-c-d"},
	} {
		set := openSet(t, usual("http://h", "    texts: [{path: $.customer, "+c.rule+"}, {path: '$..name', "+c.rule+"}]\n"))
		body := marshal(t, map[string]any{"customer": c.have, "lines": []any{map[string]any{"name": c.have}}, "note": c.have})
		r := prepare(t, set, provider.Call{Provider: "pay", Op: decision.Do, Phase: decision.Attempting, Key: "k", Order: 1, Body: body})
		want := marshal(t, map[string]any{"customer": c.want, "lines": []any{map[string]any{"name": c.want}}, "note": c.have})
		if diff := cmp.Diff(readJSON(t, want), readJSON(t, r.Body)); diff != "" || !r.Rendered {
			t.Errorf("%s (-want +got):\n%s", c.rule, diff)
		}
	}
}
