package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/provider"
	"chorus/internal/providertest"
)

// TestPRV03EveryAttemptIsTheSame: the body is there again at each attempt, to the byte, with its length and its key.
func TestPRV03EveryAttemptIsTheSame(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 10, 1 << 20} {
		body := `{"name":"` + strings.Repeat("x", size) + `"}`
		p := providertest.Start(t,
			providertest.HTML(503), providertest.HTML(429), providertest.Answer{Fault: providertest.CloseAfterReading},
			providertest.JSON(200, `{"id":"ch_1"}`))
		set := open(t, p.URL)
		for range 4 {
			send(t, set, attempt(decision.Do, body))
		}
		for i, r := range p.Wait(t.Context(), 4) {
			if !bytes.Equal(r.Body, []byte(body)) {
				t.Errorf("request %d has %d bytes, want %d", i, len(r.Body), len(body))
			}
			if got := r.Header.Get("Content-Length"); got != fmt.Sprint(len(body)) {
				t.Errorf("request %d has Content-Length %q", i, got)
			}
			if r.Key() != "payment-8842-0" {
				t.Errorf("request %d has key %q", i, r.Key())
			}
		}
	}
}

// TestPanicIsUnknown: an exchange in which the program panics has an unknown outcome, is on record with its cause, and harms no other (C16, G7).
func TestPanicIsUnknown(t *testing.T) {
	t.Parallel()
	p := providertest.Start(t, providertest.JSON(201, `{"id":"ch_1"}`))
	set := open(t, p.URL)
	req, err := set.Prepare(attempt(decision.Do, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { panic("an answer that nobody has thought of") }})
	got, x := set.Send(ctx, req)
	if got.Kind != decision.Lost || !strings.HasPrefix(x.Err, "panic: an answer that nobody has thought of\n") || !strings.Contains(x.Err, "send.go") {
		t.Errorf("%+v, %q", got, x.Err)
	}
	if got, x := set.Send(t.Context(), req); got.Kind != decision.OK {
		t.Errorf("the next exchange: %+v, %+v", got, x)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	do := attempt(decision.Do, `{"amount":1}`)
	undo := attempt(decision.Undo, "")
	undo.Key, undo.Reference = "payment-8842-0-undo", "ch/1 ?"
	for _, c := range []struct {
		call   provider.Call
		method string
		path   string
		key    string
		body   string
	}{
		{do, "POST", "/pay/charges", "payment-8842-0", `{"amount":1}`},
		{in(decision.Asking, do), "GET", "/pay/charges/by-key/payment-8842-0", "", ""},
		{in(decision.Ending, do), "POST", "/pay/charges/by-key/payment-8842-0/cancel", "payment-8842-0", `{"reason":"CUSTOMER","order":8842}`},
		{undo, "POST", "/pay/charges/ch%2F1%20%3F/undo", "payment-8842-0-undo", `{"reason":"CUSTOMER","order":8842}`},
	} {
		p := providertest.Start(t, providertest.JSON(200, `{"id":"ch_1","state":"active"}`))
		send(t, open(t, p.URL), c.call)
		r := p.Wait(t.Context(), 1)[0]
		got := []string{r.Method, r.Path, r.Key(), string(r.Body), r.Header.Get("X-Order"), r.Header.Get("Traceparent")}
		if diff := cmp.Diff([]string{c.method, c.path, c.key, c.body, "8842", "00-1-2-01"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestUnknownCallsAreRefused(t *testing.T) {
	t.Parallel()
	set := open(t, "http://127.0.0.1:1")
	for want, c := range map[string]provider.Call{
		`unknown provider "shop"`:              {Provider: "shop", Op: decision.Do, Phase: decision.Attempting},
		`unknown kind of call "RELEASE"`:       {Provider: "pay", Op: "RELEASE", Phase: decision.Attempting},
		`unknown phase of a call "PONDER"`:     {Provider: "pay", Op: decision.Do, Phase: "PONDER"},
		`unknown reference of an undo ""`:      {Provider: "pay", Op: decision.Undo, Phase: decision.Attempting},
		`unknown phase of a call "ATTEMPTING"`: {Provider: "pay", Op: decision.Undo, Phase: "ATTEMPTING"},
	} {
		if _, err := set.Prepare(c); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}

// TestTransportNeverRepeats keeps a connection alive and lets the provider close it under the next request: net/http
// would send a request with an Idempotency-Key, or a GET, again by itself.
func TestTransportNeverRepeats(t *testing.T) {
	t.Parallel()
	do := attempt(decision.Do, `{}`)
	for _, c := range []provider.Call{do, in(decision.Asking, do), in(decision.Ending, do), attempt(decision.Undo, "")} {
		var requests, connections atomic.Int32
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if requests.Add(1) == 2 {
				panic(http.ErrAbortHandler) // on the kept connection: nothing of an answer, then the end
			}
			io.WriteString(w, `{"id":"ch_1","state":"active"}`)
		}))
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		srv.Start()
		t.Cleanup(srv.Close)
		set := open(t, srv.URL)
		if first, _ := send(t, set, c); first.Kind != decision.OK {
			t.Fatalf("%s: first exchange: %+v", c.Phase, first)
		}
		second, _ := send(t, set, c)
		if second.Kind != decision.Lost {
			t.Errorf("%s %s: %+v, want it lost", c.Op, c.Phase, second)
		}
		if r, n := requests.Load(), connections.Load(); r != 2 || n != 1 {
			t.Errorf("%s %s: %d requests over %d connections, want 2 over 1", c.Op, c.Phase, r, n)
		}
	}
}

func TestNoConnectionIsBusy(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // nobody listens there now
	got, x := send(t, open(t, "http://"+ln.Addr().String()), attempt(decision.Do, `{}`))
	if got.Kind != decision.Busy || got.Reason != "no connection" || x.Err == "" {
		t.Errorf("%+v, %q", got, x.Err)
	}
}

func TestTimeoutIsLost(t *testing.T) {
	t.Parallel()
	p := providertest.Start(t, providertest.Answer{Fault: providertest.Hang}, providertest.Answer{Fault: providertest.Hang})
	set := openSet(t, usual(p.URL, "    timeout: 20ms\n"))
	if got, _ := send(t, set, attempt(decision.Do, `{}`)); got.Kind != decision.Lost || got.Reason != "no answer within 20ms" {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := open(t, p.URL).Prepare(attempt(decision.Do, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Wait(t.Context(), 2)
		cancel()
	}()
	if got, _ := open(t, p.URL).Send(ctx, r); got.Kind != decision.Lost || got.Reason != "broken off by the end of the process" {
		t.Errorf("%+v", got)
	}
}
