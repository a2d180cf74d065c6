package intent_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/providertest"
)

// TestPRV01NextAttemptWaits: the provider's wish holds for all calls to it, in all processes, at all Retry-After forms.
func TestPRV01NextAttemptWaits(t *testing.T) {
	for _, form := range []string{"seconds", "date", "skewed date"} {
		t.Run(form, func(t *testing.T) {
			b := newBench(t)
			slow := providertest.JSON(429, `{}`)
			slow.Header.Set("Retry-After", "3")
			if form != "seconds" {
				now := time.Now().UTC()
				if form == "skewed date" {
					now = now.Add(time.Hour)
				}
				slow.Header.Set("Date", now.Format(http.TimeFormat))
				slow.Header.Set("Retry-After", now.Add(3*time.Second).Format(http.TimeFormat))
			}
			p := providertest.Start(t, slow, created, created)
			w := b.start(quick(), provided(t, p.URL, 5*time.Second))
			b.plan(do(1))
			w.Wake()
			p.Wait(t.Context(), 1)
			b.until("the pause is known", func() bool { return value[int](b, "SELECT count(*) FROM call_pauses") == 1 })
			b.plan(do(2))
			other := b.start(quick(), provided(t, p.URL, 5*time.Second))
			other.Wake()
			b.answers(2)
			requests := p.Requests()
			for _, r := range requests[1:] {
				if d := r.At.Sub(requests[0].At); d < 3*time.Second || d > 5*time.Second {
					t.Errorf("%s followed after %s, want 3 to 5 s", r.Key(), d)
				}
			}
		})
	}
}

// TestAbsurdRetryAfterIsBounded: no provider can hold an order for a day, and the log says what was done.
func TestAbsurdRetryAfterIsBounded(t *testing.T) {
	b := newBench(t)
	slow, past := providertest.JSON(503, `{}`), providertest.JSON(503, `{}`)
	slow.Header.Set("Retry-After", "86400")
	past.Header.Set("Retry-After", "-1")
	p := providertest.Start(t, slow, past, created)
	cfg := quick()
	cfg.RetryAfterCap = 20 * time.Millisecond
	w := b.start(cfg, provided(t, p.URL, 5*time.Second))
	b.plan(do(1))
	w.Wake()
	b.answers(1)
	if n := strings.Count(w.log.String(), "Retry-After is bounded"); n != 2 {
		t.Errorf("%d warnings, want 2", n)
	}
}

// TestWakeUp: a call that was planned here is made at once; the poll would come an hour later.
func TestWakeUp(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	cfg := quick()
	cfg.Poll, cfg.Silence = time.Hour, time.Hour
	w := b.start(cfg, provided(t, p.URL, 5*time.Second))
	w.listens(b)
	b.plan(do(1))
	w.Wake()
	b.answers(1)
	var took []time.Duration
	for n := range 50 {
		order := event.OrderNo(n + 2)
		b.plan(do(order))
		committed := time.Now()
		w.Wake()
		b.answers(n + 2)
		calls, err := intent.Calls(t.Context(), b.pool, order)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, calls[0].Attempts[0].StartedAt.Sub(committed))
	}
	slices.Sort(took)
	t.Logf("from commit to the start of the exchange: median %s, worst %s", took[25], took[49])
	if took[25] > 50*time.Millisecond {
		t.Errorf("median %s", took[25])
	}
}

// TestOtherReplicaIsNotified: a process that did not plan the call hears of it, although it hardly ever polls.
func TestOtherReplicaIsNotified(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	cfg := quick()
	cfg.Poll, cfg.Silence = time.Hour, time.Hour // a proof of hearing would wake the other too
	b.start(cfg, provided(t, p.URL, 5*time.Second)).listens(b)
	planner := b.start(cfg, configured(t, "elsewhere", p.URL, "")) // cannot make the call itself
	for n := range 3 {
		b.plan(do(event.OrderNo(n + 1)))
		planner.Wake()
		b.answers(n + 1)
	}
}

// TestWakeIsAnnouncedOnce: many wake-ups make few notifications (D7).
func TestWakeIsAnnouncedOnce(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN chorus_calls"); err != nil {
		t.Fatal(err)
	}
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	for range 1000 {
		w.Wake()
	}
	w.Wake()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
		t.Fatalf("no notification: %v", err)
	}
	w.stop()
	heard := 1
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := conn.Conn().WaitForNotification(ctx)
		cancel()
		if err != nil {
			break
		}
		heard++
	}
	if heard > 10 {
		t.Errorf("%d notifications", heard)
	}
}

// deafConn delivers nothing of what comes while it is deaf.
type deafConn struct {
	net.Conn
	deaf    *atomic.Bool
	listens atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "LISTEN chorus_calls") {
		c.listens.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.listens.Load() || !c.deaf.Load() {
			return n, err
		}
	}
}

// TestDeafListenerIsNoticed: a connection that looks alive and delivers nothing is replaced.
func TestDeafListenerIsNoticed(t *testing.T) {
	b := newBench(t)
	p := newProcessor(t)
	var deaf atomic.Bool
	cfg, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &deafConn{Conn: c, deaf: &deaf}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	quiet := quick()
	quiet.Silence = 100 * time.Millisecond
	w := (&bench{t: t, pool: pool}).start(quiet, provided(t, p.URL, 5*time.Second))
	w.listens(b)
	deaf.Store(true)
	b.until("the deaf listener is noticed", func() bool { return strings.Contains(w.log.String(), "the listener is deaf") })
	deaf.Store(false)
	b.until("it hears again", func() bool { return strings.Contains(w.log.String(), "listening for due calls works again") })
}
