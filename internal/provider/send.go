package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"time"

	"chorus/internal/decision"
)

const (
	maxRead  = 1 << 20  // bytes of an answer that are read; one that is longer is unreadable
	maxKept  = 16 << 10 // bytes of an answer that are recorded
	maxNames = 64 << 10 // bytes of an answer's headers
)

// Exchange is what is recorded of a request's answer.
type Exchange struct {
	Status     int               // 0 when no answer came
	Header     map[string]string // those worth keeping
	Body       []byte            // the first 16 kB
	Duration   time.Duration
	Err        string        // why there is no (whole) answer
	RetryAfter time.Duration // for how long the provider asks everybody to stay away; 0 when it does not
	Warning    string        // a Retry-After that could not be taken as it is
}

// newTransport makes connections for one provider. HTTP/2 is off because its implementation sends a
// request again by itself when a server refuses the stream.
func newTransport(concurrency int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		Protocols:              protocols,
		MaxIdleConnsPerHost:    concurrency,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxNames,
	}
}

// body can be read once. Since it is neither nil nor comes with a GetBody, net/http never sends the request
// again by itself; otherwise it does so for a GET, and for a POST with an Idempotency-Key, when a kept connection
// turns out to be closed. Every exchange would then have to be counted twice or lied about.
type body struct {
	left []byte
}

func (b *body) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *body) Close() error { return nil }

// Send makes one exchange: it writes the request at most once, follows no redirect, and returns within the
// provider's timeout. It has no error: whatever happens means something for the call. ctx
// ending it early leaves an unknown outcome, like a timeout. So does an answer over which the program panics: it is that call's
// own affair, and is asked about by key, while a process that ended over it would break off the exchanges of all others, again at each try.
func (s *Set) Send(ctx context.Context, r Request) (result decision.Result, x Exchange) {
	begun := time.Now()
	defer func() {
		if p := recover(); p != nil {
			result = decision.Result{Kind: decision.Lost, Reason: "the answer made the program panic"}
			x = Exchange{Err: cut(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()), maxPanic)}
		}
		x.Duration = time.Since(begun)
	}()
	return s.clients[r.Provider].send(ctx, r)
}

// maxPanic is how many characters of a panic and its stack are kept with the attempt.
const maxPanic = 3000

func (c *client) send(ctx context.Context, r Request) (decision.Result, Exchange) {
	if r.Method == None {
		what := "the provider has no " + r.kind + " by key"
		return decision.Result{Kind: decision.Refusal, Reason: what}, Exchange{Err: "nothing was sent: " + what}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// Called on this goroutine. Without a connection nothing can have been sent; with one it may have.
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, nil)
	if err != nil { // the URL was made by Prepare
		return decision.Result{Kind: decision.Busy, Reason: "no request"}, Exchange{Err: err.Error()}
	}
	req.Header = r.Header.Clone()
	req.Body, req.ContentLength = &body{left: r.Body}, int64(len(r.Body))
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.broken(ctx, connected, err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, maxRead+1))
	x := Exchange{Status: res.StatusCode, Header: kept(res.Header), Body: content[:min(len(content), maxKept)]}
	if err == nil && len(content) > maxRead {
		err = fmt.Errorf("the answer is longer than %d bytes", maxRead)
	}
	if err != nil {
		x.Err, content = err.Error(), nil // half an answer is none, whatever it begins with
	}
	result := c.meaning(r, res, content)
	if result.Kind == decision.Busy || result.Kind == decision.Lost && x.Status >= 500 {
		x.RetryAfter, x.Warning = c.retry.wait(res.Header, content, time.Now())
	}
	return result, x
}

// broken says what no answer means. The reasons may travel in facts, so they hold no addresses.
func (c *client) broken(ctx context.Context, connected bool, err error) (decision.Result, Exchange) {
	timeout := errors.Is(ctx.Err(), context.DeadlineExceeded)
	r := decision.Result{Kind: decision.Lost, Reason: "the connection broke before the answer"}
	switch {
	case !connected:
		r = decision.Result{Kind: decision.Busy, Reason: "no connection"}
	case timeout:
		r.Reason = fmt.Sprintf("no answer within %s", c.timeout)
	case ctx.Err() != nil:
		r.Reason = "broken off by the end of the process"
	}
	return r, Exchange{Err: err.Error()}
}

// kept are the headers of an answer that explain what was done about it.
func kept(h http.Header) map[string]string {
	keep := map[string]string{}
	for _, name := range []string{"Content-Type", "Date", "Retry-After", "X-Request-Id"} {
		if v := h.Get(name); v != "" {
			keep[name] = cut(v, 200)
		}
	}
	if v := location(h); v != "" {
		keep["Location"] = v
	}
	return keep
}
