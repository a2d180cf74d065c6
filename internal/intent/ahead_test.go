package intent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chorus/internal/event"
)

// TestClaimedAheadOfAHang: calls are claimed ahead of those under way while the provider is quick. When it begins to hang, one that waits
// for its turn is given back without having been sent: it is not unknown, and it has used up no try.
func TestClaimedAheadOfAHang(t *testing.T) {
	b := newBench(t)
	var hang, most, now atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost && hang.Add(-1) >= 0 {
			now.Add(-1) // its caller may give up before this server notices
			<-r.Context().Done()
			now.Add(1)
			return
		}
		_, _ = io.WriteString(w, `{"id":"ch_1","state":"active"}`)
	}))
	t.Cleanup(srv.Close)
	cfg := quick()
	cfg.LeaseMargin = 400 * time.Millisecond
	w := b.start(cfg, configured(t, "pay", srv.URL, "    concurrency: 4\n    timeout: 2s\n    breaker: {after: 0}\n"))
	const quicks = 100
	for n := range quicks {
		b.plan(do(event.OrderNo(n + 1)))
	}
	w.Wake()
	b.answers(quicks)
	hang.Store(4)
	for n := range 8 {
		b.plan(do(event.OrderNo(quicks + n + 1)))
	}
	w.Wake()
	lines := b.answers(quicks + 8)
	for _, line := range lines {
		if !strings.Contains(line, "SUCCEEDED") {
			t.Error(line)
		}
	}
	var unsent, asked int
	for n := range 8 {
		trail := b.trail(event.OrderNo(quicks + n + 1))
		switch {
		case slices.Contains(trail, "ATTEMPT lost"):
			asked++
		case slices.Contains(trail, "ATTEMPT busy"):
			unsent++
		}
		if slices.Contains(trail, "ATTEMPT lost") && slices.Contains(trail, "ATTEMPT busy") {
			t.Errorf("%v", trail)
		}
	}
	if asked != 4 {
		t.Errorf("%d calls have an unknown outcome, want the 4 that were sent", asked)
	}
	if unsent == 0 {
		t.Error("nothing was claimed ahead: the test proves nothing")
	}
	if n := most.Load(); n > 4 {
		t.Errorf("%d exchanges at a time", n)
	}
}
