package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"chorus/internal/web"
)

const patience = 30 * time.Second

// serve runs a server until stop is called; stop returns what Serve did.
func serve(t *testing.T, h http.Handler) (url string, stop func() error) {
	t.Helper()
	l, err := web.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- web.Serve(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)), l, h) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return within(t, "the server's end", done)
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + l.Addr().String(), stop
}

func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
		panic("unreachable")
	}
}

func get(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// A request that has begun when the process is told to stop is finished: its context does not end.
func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	url, stop := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		if r.Context().Err() != nil {
			web.Fail(w, http.StatusServiceUnavailable, "cut off")
			return
		}
		web.JSON(w, http.StatusOK, "done")
	}))
	answer := make(chan int, 1)
	go func() {
		resp, err := http.Get(url)
		if err != nil {
			t.Error(err)
			answer <- 0
			return
		}
		resp.Body.Close()
		answer <- resp.StatusCode
	}()
	within(t, "the request", begun)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	// The stop is under way when the address no longer takes connections.
	for dial := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, http.MethodHead, url+"/again", nil)
		_, err := dial.Do(req)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err == nil {
			t.Fatal("a second request was answered")
		}
	}
	close(goOn)
	if status := within(t, "the answer", answer); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if err := within(t, "the stop", stopped); err != nil {
		t.Error(err)
	}
}

// A live stream gets what is flushed at once, and ends when the process stops.
func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: first\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	url, stop := serve(t, web.NewMeter().Measure(mux))
	resp := get(t, url+"/events", "text/event-stream")
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "data: first\n" {
		t.Fatalf("%q %v", line, err)
	}
	begun := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("the stream held up the stop for %s", took)
	}
}

func TestPanicIsAnsweredAndTheServerLives(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at the disco") }))
	for range 2 {
		if resp := get(t, url, ""); resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
}

func TestGateOpens(t *testing.T) {
	t.Parallel()
	gate := &web.Gate{}
	url, _ := serve(t, gate)
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v1/orders": http.StatusServiceUnavailable} {
		if resp := get(t, url+path, ""); resp.StatusCode != want {
			t.Errorf("%s: %d before it is open", path, resp.StatusCode)
		}
	}
	mux := http.NewServeMux()
	why := errors.New("no database")
	web.Health(mux, func(context.Context) error { return why })
	gate.Open(mux)
	resp := get(t, url+"/readyz", "")
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "no database") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	why = nil
	if resp := get(t, url+"/readyz", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("%d when ready", resp.StatusCode)
	}
}

// The label is the route: a label for each order would never be freed.
func TestRequestsAreMeasuredByRoute(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/orders/{order}", func(w http.ResponseWriter, _ *http.Request) { web.Fail(w, http.StatusConflict, "no") })
	url, _ := serve(t, web.NewMeter().Measure(mux))
	get(t, url+"/v1/orders/1", "")
	get(t, url+"/v1/orders/2", "")
	get(t, url+"/nowhere/3", "")
	body, err := io.ReadAll(get(t, url+"/metrics", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`chorus_http_request_duration_seconds_count{route="GET /v1/orders/{order}",status="409"} 2`,
		`chorus_http_request_duration_seconds_count{route="none",status="404"} 1`,
		"go_goroutines",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s", want)
		}
	}
}

// A page of another site can do nothing in the name of whoever looks at it, at whichever process's port.
func TestOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { web.JSON(w, http.StatusOK, "done") }))
	for _, test := range []struct {
		method, header, value string
		want                  int
	}{
		{"POST", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "Sec-Fetch-Site", "same-site", 403},
		{"PUT", "Origin", "http://evil.example", 403},
		{"POST", "Origin", "null", 403},
		{"POST", "Origin", url, 200},
		{"POST", "User-Agent", "curl", 200},
		{"GET", "Sec-Fetch-Site", "cross-site", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(test.header, test.value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s with %s %s: %d, want %d", test.method, test.header, test.value, resp.StatusCode, test.want)
		}
	}
}

// DNS rebinding: a name of somebody else's that points to this machine is the page's own origin.
func TestOtherHostsAreRefusedOnLoopback(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { web.JSON(w, http.StatusOK, "done") }))
	own := strings.TrimPrefix(url, "http://")
	for host, want := range map[string]int{
		own: 200, "localhost": 200, "LOCALHOST:80": 200, "[::1]:80": 200, "127.0.0.2": 200,
		"evil.example": 403, "evil.example:80": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "10.0.0.1": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}
