package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A stream outlives the server's timeouts, which are for requests that end (UI-04).
func TestStreamOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 150 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := openStream(w)
		if err != nil {
			t.Error(err)
			return
		}
		if pause(r.Context().Done(), 3*timeout) {
			t.Error("the stream was cut off by the server's timeout")
			return
		}
		if err := out.send("fact", "7", []byte("two\r\nlines")); err != nil {
			t.Error(err)
		}
	}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(body), "event: fact\nid: 7\ndata: two\ndata: lines\n\n") {
		t.Errorf("received %q, %v", body, err)
	}
}
