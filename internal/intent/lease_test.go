package intent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/providertest"
)

// TestLostLease: a worker that was away for longer than its lease records nothing, and its answer does not count.
func TestLostLease(t *testing.T) {
	b := newBench(t)
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	arrived := make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, `{"id":"ch_found","state":"active"}`)
			return
		}
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case held <- struct{}{}: // until the test reads
		case <-r.Context().Done():
		}
		io.WriteString(w, `{"id":"ch_late"}`)
	}))
	t.Cleanup(srv.Close)
	b.plan(do(1))
	slow := b.start(quick(), provided(t, srv.URL, patience))
	<-arrived
	// The lease runs out while the exchange is under way, as for a process that was frozen.
	b.exec("UPDATE calls SET due_at = now() - interval '1 second'")
	b.answers(1)
	<-held
	b.until("the late worker has noticed", func() bool { return strings.Contains(slow.log.String(), "taken over") })
	if diff := cmp.Diff([]string{"1 payment do SUCCEEDED ch_found"}, b.answers(1)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ATTEMPT lost", "ASK ok"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestLeaseTakenOver: while another worker holds the call, the one that had it writes nothing, not even that its exchange ended.
func TestLeaseTakenOver(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.Answer{Status: 201, Body: `{"id":"ch_1"}`, Delay: 100 * time.Millisecond})
	b.plan(do(1))
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	p.Wait(t.Context(), 1)
	b.exec("UPDATE calls SET lease_token = lease_token + 1, lease_owner = 'another', due_at = now() + interval '1 hour'")
	b.until("the worker has noticed", func() bool { return strings.Contains(w.log.String(), "taken over") })
	w.stop()
	if diff := cmp.Diff([]string{"ATTEMPT open"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
	if n := value[int](b, "SELECT count(*) FROM answered"); n != 0 {
		t.Errorf("%d answers", n)
	}
}

// TestFrozenBeforeTheExchange: a worker that finds its lease nearly over does not begin what another may be doing.
func TestFrozenBeforeTheExchange(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t) // any request fails the test
	cfg := quick()
	cfg.LeaseMargin = time.Nanosecond // by the time that the claim has committed it is over
	b.plan(do(1))
	w := b.start(cfg, provided(t, p.URL, 5*time.Second))
	b.until("the call is left", func() bool { return strings.Contains(w.log.String(), "this one was frozen") })
	w.stop()
	if diff := cmp.Diff([]string{"ATTEMPT open"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestTwoProcessesShareTheWork: no exchange runs twice at once, none is left out.
func TestTwoProcessesShareTheWork(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	p.hold = 2 * time.Millisecond
	const orders = 300
	first, second := b.start(quick(), provided(t, p.URL, 5*time.Second)), b.start(quick(), provided(t, p.URL, 5*time.Second))
	for n := 0; n < orders; n += 50 {
		var some []intent.Planned
		for i := range 50 {
			some = append(some, do(1+event.OrderNo(n+i)))
		}
		b.plan(some...)
		first.Wake()
	}
	b.answers(orders)
	first.stop()
	second.stop()
	if n := value[int](b, "SELECT count(DISTINCT order_no) FROM answered WHERE kind = 'SUCCEEDED'"); n != orders {
		t.Errorf("%d of %d orders were charged", n, orders)
	}
	if n := value[int](b, "SELECT count(*) FROM answered"); n != orders {
		t.Errorf("%d answers", n)
	}
	if n := value[int](b, "SELECT count(DISTINCT owner) FROM call_attempts"); n != 2 {
		t.Errorf("%d processes worked, want 2", n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.overlap) != 0 || p.n != orders {
		t.Errorf("%d requests; at once: %v", p.n, p.overlap)
	}
}
