// Package providertest is a misbehaving HTTP provider for tests of whoever calls one: it follows a script, one answer for
// each request, and records every request that it read.
//
//	p := providertest.Start(t,
//		providertest.Answer{Status: 503, Header: http.Header{"Retry-After": {"2"}}},
//		providertest.Answer{Fault: providertest.CloseAfterReading},
//		providertest.JSON(201, `{"id":"ch_1"}`))
//
// A request beyond the script's end fails the test and gets 500.
package providertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Fault is a way of not answering.
type Fault int

const (
	// None answers as the script says.
	None Fault = iota
	// CloseBeforeReading resets the connection when the headers are in and the body is not read.
	CloseBeforeReading
	// CloseAfterReading closes the connection when the request is read, without an answer.
	CloseAfterReading
	// CloseAfterHeaders closes the connection when the answer's headers are sent, before any of its body.
	CloseAfterHeaders
	// Hang reads the request and answers nothing until the caller gives up or the test ends.
	Hang
)

// An Answer is what one request gets.
type Answer struct {
	Status int // 200 when 0
	Header http.Header
	Body   string
	// CutAt sends only so many bytes of Body, under a Content-Length for all of it, and closes the connection. 0 sends all.
	CutAt int
	// Delay passes before the answer, or before the fault; the caller's leaving ends it.
	Delay time.Duration
	Fault Fault
}

// JSON is an answer of type application/json.
func JSON(status int, body string) Answer {
	return Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// HTML is the error page of a proxy that stands before the provider.
func HTML(status int) Answer {
	return Answer{
		Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body: "<!DOCTYPE html><html><body><h1>" + http.StatusText(status) + "</h1></body></html>",
	}
}

// Redirect sends the caller to another URL, which may be a path of the same provider.
func Redirect(status int, location string) Answer {
	return Answer{Status: status, Header: http.Header{"Location": {location}}}
}

// A Request is one that arrived. Body is empty when the script closed before reading it.
type Request struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
	At     time.Time
}

// Key is the request's Idempotency-Key.
func (r Request) Key() string { return r.Header.Get("Idempotency-Key") }

// A Provider is a running server.
type Provider struct {
	URL string

	t       testing.TB
	ending  chan struct{}
	mu      sync.Mutex // guards all below
	script  []Answer
	seen    []Request
	arrived chan struct{} // closed and replaced when a request is recorded
}

// Start runs a provider on a free port of the loopback until the test ends.
func Start(t testing.TB, script ...Answer) *Provider {
	t.Helper()
	p := &Provider{t: t, script: script, ending: make(chan struct{}), arrived: make(chan struct{})}
	srv := httptest.NewServer(p)
	p.URL = srv.URL
	t.Cleanup(func() {
		close(p.ending) // lets go of those that hang, for which Close would wait
		srv.CloseClientConnections()
		srv.Close()
	})
	return p
}

// Then adds answers to the end of the script.
func (p *Provider) Then(more ...Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = append(p.script, more...)
}

// Requests returns what arrived until now, in the order in which they were read.
func (p *Provider) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// Wait returns the requests as soon as there are n of them, or fails the test when ctx ends before.
func (p *Provider) Wait(ctx context.Context, n int) []Request {
	p.t.Helper()
	for {
		p.mu.Lock()
		seen, arrived := slices.Clone(p.seen), p.arrived
		p.mu.Unlock()
		if len(seen) >= n {
			return seen
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			p.t.Fatalf("the provider got %d of %d requests: %v", len(seen), n, ctx.Err())
		}
	}
}

// Unused is how many answers of the script nobody asked for.
func (p *Provider) Unused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.script)
}

// next deals out the next answer of the script.
func (p *Provider) next() (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.script) == 0 {
		return Answer{}, false
	}
	a := p.script[0]
	p.script = p.script[1:]
	return a, true
}

func (p *Provider) record(r Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
	close(p.arrived)
	p.arrived = make(chan struct{})
}

// ServeHTTP plays the next answer of the script.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := p.next()
	seen := Request{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), At: time.Now()}
	if a.Fault != CloseBeforeReading {
		seen.Body, _ = io.ReadAll(r.Body) // what a caller sent who left half-way is on record as it is
	}
	p.record(seen)
	if !ok {
		p.t.Errorf("providertest: %s %s came after the end of the script", r.Method, r.URL)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if a.Delay > 0 || a.Fault == Hang {
		p.pause(r, a)
	}
	switch a.Fault {
	case CloseBeforeReading:
		reset(w)
		return
	case CloseAfterReading, Hang:
		panic(http.ErrAbortHandler)
	}
	p.answer(w, a)
}

// pause waits for the delay or, when the answer hangs, without end.
func (p *Provider) pause(r *http.Request, a Answer) {
	var over <-chan time.Time
	if a.Fault != Hang {
		t := time.NewTimer(a.Delay)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-p.ending:
		panic(http.ErrAbortHandler)
	}
}

func (p *Provider) answer(w http.ResponseWriter, a Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	short := a.CutAt > 0 && a.CutAt < len(a.Body)
	if short || a.Fault == CloseAfterHeaders {
		w.Header().Set("Content-Length", strconv.Itoa(max(len(a.Body), 1)))
	}
	w.WriteHeader(a.Status)
	switch {
	case a.Fault == CloseAfterHeaders:
		a.Body = ""
	case short:
		a.Body = a.Body[:a.CutAt]
	}
	io.WriteString(w, a.Body) // a caller that has left is part of the test
	if short || a.Fault == CloseAfterHeaders {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// reset ends the connection at once, with what is unread thrown away, so that the caller sees a reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
