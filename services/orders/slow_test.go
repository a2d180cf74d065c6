package orders

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"chorus/internal/web"
)

// TestSlowClientsCostOthersNothing opens many connections that begin a request and never finish it, in the server that the service runs: others are served
// meanwhile, and the slow ones are cut.
func TestSlowClientsCostOthersNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	l, err := web.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	go func() { ended <- web.Serve(ctx, log, l, newAPI(log, r.db, r.door, r.cfg)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	addr := l.Addr().String()
	r.url = "http://" + addr
	r.sell([3]string{"A", "1.00", "GBP"})

	begun := map[string]string{ // how a request begins, and how its answer does
		"POST /v1/ord": "", // nobody can be told anything in the middle of a header
		"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nX-A: ":                                                                               "",
		"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{":                      "HTTP/1.1 408 ",
		"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"cus\r\n": "HTTP/1.1 408 ",
	}
	type slow struct {
		net.Conn
		want string
	}
	var all []slow
	for range 50 {
		for text, want := range begun {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			all = append(all, slow{c, want})
		}
	}
	for range 20 {
		if got := r.call("POST", "/v1/orders", one); got.status != 202 {
			t.Errorf("meanwhile: %s", got)
		}
	}
	for _, c := range all {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c) // until the server cuts it
		if err != nil || !strings.HasPrefix(string(answer), c.want) {
			t.Fatalf("%q, %v; want %q and the end", clip(string(answer), 200), err, c.want)
		}
	}

	for what, change := range map[string]func(*http.Request){
		"a header of 100 kB":  func(req *http.Request) { req.Header.Set("X-A", strings.Repeat("a", 100<<10)) },
		"a path of 100 kB":    func(req *http.Request) { req.URL.Path += strings.Repeat("1", 100<<10) },
		"10,000 header lines": func(req *http.Request) { req.Header["X-A"] = strings.Fields(strings.Repeat("abcdefgh ", 10_000)) },
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/orders/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it was cut off while it still sent
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", what, resp.Status)
		}
	}
}
