package intent_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/providertest"
)

// processor is a provider that charges once for a key and remembers. cut makes the n-th charge request's answer end
// after so many bytes of it, header included; below 0 the whole answer goes out.
type processor struct {
	*httptest.Server
	mu      sync.Mutex // guards all below
	charged map[string]int
	running map[string]int // requests under way, by key
	overlap []string
	cut     func(n int) int
	n       int
	hold    time.Duration
}

func newProcessor(t *testing.T) *processor {
	p := &processor{charged: map[string]int{}, running: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /pay/charges", p.charge)
	mux.HandleFunc("GET /pay/charges/by-key/{key}", p.ask)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *processor) charge(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	key := r.Header.Get("Idempotency-Key")
	p.mu.Lock()
	if p.running[key]++; p.running[key] > 1 {
		p.overlap = append(p.overlap, key)
	}
	p.n++
	if p.charged[key] == 0 {
		p.charged[key] = 1
	}
	left := -1
	if p.cut != nil {
		left = p.cut(p.n)
	}
	hold := p.hold
	p.mu.Unlock()
	if hold > 0 {
		select {
		case <-time.After(hold):
		case <-r.Context().Done():
		}
	}
	p.mu.Lock()
	p.running[key]--
	p.mu.Unlock()
	const body = `{"id":"ch_1"}`
	answer := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if left >= 0 {
		answer = answer[:min(left, len(answer))]
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(conn, answer)
	conn.Close()
}

func (p *processor) ask(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.charged[r.PathValue("key")] == 0 {
		http.Error(w, `{"code":"unknown_key"}`, http.StatusNotFound)
		return
	}
	io.WriteString(w, `{"id":"ch_1","state":"active"}`)
}

// TestOneChargeWhereverTheAnswerBreaks: the provider charges, then drops the connection after any number of bytes of its answer (G7).
func TestOneChargeWhereverTheAnswerBreaks(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	const bytes = 56 // of the whole answer
	p.cut = func(n int) int {
		if n <= bytes {
			return n - 1
		}
		return -1
	}
	var all []intent.Planned
	for n := range bytes {
		all = append(all, do(100+event.OrderNo(n)))
	}
	b.plan(all...)
	b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.answers(bytes)
	if n := value[int](b, "SELECT count(*) FROM answered WHERE kind = 'SUCCEEDED' AND reference = 'ch_1'"); n != bytes {
		t.Errorf("%d of %d charges succeeded", n, bytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n != bytes || len(p.charged) != bytes {
		t.Errorf("%d requests for %d charges, want %d: a charge was repeated instead of asked for", p.n, len(p.charged), bytes)
	}
}

// TestCrashBetweenStartAndEnd: a start row without an end means that nobody knows; the next worker asks (G6, G7).
func TestCrashBetweenStartAndEnd(t *testing.T) {
	b := newBench(t)
	b.plan(do(1), undo(2))
	// What a worker leaves that was killed after it had claimed, and whose leases have run out.
	b.exec(`UPDATE calls SET running = true, exchanges = 1, lease_owner = 'dead', lease_token = 1, due_at = now() - interval '1 second'`)
	b.exec(`INSERT INTO call_attempts (call_id, n, part, kind, owner, method, url) SELECT id, 1, 'start', 'ATTEMPT', 'dead', 'POST', 'http://p/' FROM calls`)
	asked := http.NewServeMux()
	asked.HandleFunc("GET /pay/charges/by-key/payment-1-0", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"ch_1","state":"active"}`)
	})
	asked.HandleFunc("POST /pay/charges/ch_1/undo", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"ch_1","state":"undone"}`)
	})
	srv := httptest.NewServer(asked)
	t.Cleanup(srv.Close)
	b.start(quick(), provided(t, srv.URL, 5*time.Second))
	got := b.answers(2)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1 payment do SUCCEEDED ch_1", "2 payment undo SUCCEEDED ch_1"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ATTEMPT lost", "ASK ok"}, b.trail(1)); diff != "" {
		t.Errorf("the do (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ATTEMPT lost", "ATTEMPT ok"}, b.trail(2)); diff != "" {
		t.Errorf("the undo (-want +got):\n%s", diff)
	}
}

// TestEachStatementFails makes every statement of the workers fail some of the time, before or after it has run, and the door too:
// each call is answered once, and charged once.
func TestEachStatementFails(t *testing.T) {
	for _, c := range []struct{ name, table, when, op string }{
		{"lease and state", "calls", "BEFORE", "UPDATE"},
		{"lease and state, after", "calls", "AFTER", "UPDATE"},
		{"start and end rows", "call_attempts", "BEFORE", "INSERT"},
		{"start and end rows, after", "call_attempts", "AFTER", "INSERT"},
		{"what the door saves", "answered", "BEFORE", "INSERT"},
	} {
		for _, code := range []string{"40001", "53000", "XX000"} {
			t.Run(c.name+" "+code, func(t *testing.T) {
				b := newBench(t)
				b.exec(`CREATE SEQUENCE tries`) // survives the rollback
				b.exec(fmt.Sprintf(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF nextval('tries') %% 2 = 1 AND currval('tries') < 7 THEN RAISE EXCEPTION 'broken on purpose' USING ERRCODE = '%s'; END IF;
					RETURN NEW; END $$`, code))
				b.exec(fmt.Sprintf(`CREATE TRIGGER fail %s %s ON %s FOR EACH ROW EXECUTE FUNCTION fail()`, c.when, c.op, c.table))
				p := newProcessor(t)
				p.cut = func(n int) int { return -1 }
				cfg := quick()
				cfg.LeaseMargin = 100 * time.Millisecond
				b.plan(do(1), do(2), do(3))
				b.start(cfg, provided(t, p.URL, 300*time.Millisecond))
				b.answers(3)
				b.until("all calls have ended", func() bool { return value[int](b, "SELECT count(*) FROM calls WHERE ended_at IS NULL") == 0 })
				if n := value[int](b, "SELECT count(*) FROM answered"); n != 3 {
					t.Errorf("%d answers", n)
				}
				if n := value[int](b, `SELECT count(*) FROM call_attempts AS s WHERE part = 'start' AND NOT EXISTS (
					SELECT FROM call_attempts AS e WHERE e.call_id = s.call_id AND e.n = s.n AND e.part = 'end')`); n != 0 {
					t.Errorf("%d exchanges have no end", n)
				}
			})
		}
	}
}

// TestDoorThatRefusesLosesNothing: the provider's word is recorded although the door cannot take it, and brought again.
func TestDoorThatRefusesLosesNothing(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, created, created)
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	w.door.mu.Lock()
	w.door.fault = func(a intent.Answer) error {
		if a.Order == 1 {
			return errors.New("no such state")
		}
		return nil
	}
	w.door.mu.Unlock()
	b.plan(do(1), do(2))
	w.Wake()
	if diff := cmp.Diff([]string{"2 payment do SUCCEEDED ch_1"}, b.answers(1)); diff != "" {
		t.Errorf("the other order (-want +got):\n%s", diff)
	}
	b.until("the problem is on the call", func() bool {
		return value[int](b, "SELECT count(*) FROM calls WHERE order_no = 1 AND phase = 'OVER' AND problem LIKE '%no such state' AND ended_at IS NULL") == 1
	})
	w.door.mu.Lock()
	w.door.fault = nil
	w.door.mu.Unlock()
	b.answers(2)
	if diff := cmp.Diff([]string{"ATTEMPT ok"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
	if n := value[int](b, "SELECT count(*) FROM calls WHERE problem IS NOT NULL OR ended_at IS NULL"); n != 0 {
		t.Error("the call is not clean")
	}
}

// TestDatabaseGoesAway: the loss of all connections in the middle of calls loses and doubles nothing.
func TestDatabaseGoesAway(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	p.hold = 20 * time.Millisecond
	cfg := quick()
	cfg.LeaseMargin = 200 * time.Millisecond
	pool, err := pg.Open(t.Context(), b.dsn, pg.Options{Name: "workers"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w := (&bench{t: t, pool: pool}).start(cfg, provided(t, p.URL, 300*time.Millisecond))
	const orders = 200
	for n := range orders {
		b.plan(do(1 + event.OrderNo(n)))
		w.Wake()
		if n%40 == 39 {
			b.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'workers'")
		}
	}
	b.answers(orders)
	if n := value[int](b, "SELECT count(DISTINCT order_no) FROM answered WHERE kind = 'SUCCEEDED'"); n != orders {
		t.Errorf("%d of %d orders were charged", n, orders)
	}
	if n := value[int](b, "SELECT count(*) FROM answered"); n != orders {
		t.Errorf("%d answers", n)
	}
}

// TestUnknownKindStaysOpen covers CMP-03: a record of a newer program waits for one, visibly.
func TestUnknownKindStaysOpen(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, undone)
	newer, elsewhere := undo(1), do(2)
	newer.Intent.Op = "RELEASE_COUPON"
	elsewhere.Intent.Provider = "pay-by-bean"
	b.plan(newer, elsewhere)
	b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.until("both problems are on their calls", func() bool {
		return value[int](b, `SELECT count(*) FROM calls WHERE ended_at IS NULL AND NOT running AND exchanges = 0
			AND problem IN ('unknown kind of call "RELEASE_COUPON"', 'unknown provider "pay-by-bean"')`) == 2
	})
	backlog, err := intent.Backlog(t.Context(), b.pool)
	if err != nil || len(backlog) != 2 || backlog[0].Problems != 1 || backlog[1].Problems != 1 {
		t.Errorf("backlog %+v, %v", backlog, err)
	}
	// A program that knows the kind comes along.
	b.exec(`UPDATE calls SET op = 'undo', state = jsonb_set(state, '{op}', '"undo"'), due_at = now() WHERE order_no = 1`)
	b.answers(1)
}

// TestStopDrains: exchanges under way end and are recorded; one that takes longer than the grace is recorded as lost.
func TestStopDrains(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.Answer{Status: 201, Body: `{"id":"ch_1"}`, Delay: 50 * time.Millisecond})
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.plan(do(1))
	w.Wake()
	p.Wait(t.Context(), 1)
	w.stop()
	if diff := cmp.Diff([]string{"ATTEMPT ok"}, b.trail(1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	p = providertest.Start(t, providertest.Answer{Fault: providertest.Hang})
	cfg := quick()
	cfg.Grace = 50 * time.Millisecond
	w = b.start(cfg, provided(t, p.URL, patience))
	b.plan(do(2))
	w.Wake()
	p.Wait(t.Context(), 1)
	w.stop()
	if diff := cmp.Diff([]string{"ATTEMPT lost"}, b.trail(2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return "http://" + ln.Addr().String()
}

// TestProviderDown: nothing was sent, so nothing has to be found out or ended.
func TestProviderDown(t *testing.T) {
	b := newBench(t)
	b.plan(do(1))
	b.start(quick(), provided(t, refusing(t), 5*time.Second))
	if diff := cmp.Diff([]string{"1 payment do FAILED no connection"}, b.answers(1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
