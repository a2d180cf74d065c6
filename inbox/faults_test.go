package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"chorus/internal/broker"
)

// pump does what the broker's worker does: it claims, feeds batches from where the claim says, and claims again after an error.
func pump(t *testing.T, c *Consumer, batches ...[]broker.Record) {
	t.Helper()
	last := batches[len(batches)-1]
	end := last[len(last)-1].Offset + 1
	for range 20 {
		l, err := c.claim(t.Context(), partition(end))
		if err != nil {
			t.Logf("claim: %v", err)
			continue
		}
		for _, batch := range batches {
			if batch[len(batch)-1].Offset < l.Next() {
				continue
			}
			if err = l.Handle(t.Context(), batch); err != nil {
				t.Logf("handle: %v", err)
				break
			}
		}
		next := l.Next()
		l.Close()
		if err == nil {
			if next != end {
				t.Fatalf("handled up to %d, want %d", next, end)
			}
			return
		}
	}
	t.Fatal("20 claims and still not done")
}

// TestEachStatementFails loses the connection before, after, and without the server's knowledge at, each statement of the claim and of every transaction (G4, E.1-E.2). After
// recovery each fact has taken effect once, each dead letter is there once, and the books agree.
func TestEachStatementFails(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	old := record(5, "late", Header{Key: "occurredAt", Value: []byte("2001-02-03T04:05:06Z")})
	nobody := record(3, "x")
	nobody.Headers = nil
	first := []broker.Record{record(0, "a1"), record(1, "b1"), record(2, "a1"), nobody, record(4, "dead1"), old, record(6, "early1")}
	second := []broker.Record{record(7, "c1"), record(8, "a1"), record(9, "poison1"), record(10, "d1")}

	for _, how := range []cut{before, after, silent} {
		t.Run(how.String(), func(t *testing.T) {
			p, dsn := newProxy(t, b.dsn)
			for n := 1; ; n++ {
				consumer := fmt.Sprintf("%s-%d", how, n)
				cfg := b.config(consumer)
				cfg.Postgres = dsn
				p.arm(n, how)
				pump(t, newConsumer(t, cfg, apply(consumer)), first, second)
				fired := p.hasFired()
				b.checkOnce(consumer, "a1", "b1", "c1", "d1", "early1")
				if got := one[int](b, `SELECT duplicates FROM inbox WHERE consumer = $1 AND event_id = $2`, consumer, eventID("a1")); got != 2 {
					t.Errorf("%s: %d duplicates counted, want 2", consumer, got)
				}
				reasons := fmt.Sprint(many[string](b, `SELECT reason FROM dead_letters WHERE consumer = $1 ORDER BY "offset"`, consumer))
				if want := fmt.Sprint([]string{ReasonNoID, "unreadable", ReasonTooOld, "poison"}); reasons != want {
					t.Errorf("%s: dead letters %s, want %s", consumer, reasons, want)
				}
				verdicts := fmt.Sprint(many[string](b, `SELECT verdict FROM inbox WHERE consumer = $1 ORDER BY "offset"`, consumer))
				if want := "[applied applied dead dead remembered applied dead applied]"; verdicts != want {
					t.Errorf("%s: verdicts %s, want %s", consumer, verdicts, want)
				}
				if t.Failed() {
					t.Fatalf("with a cut %s statement %d", how, n)
				}
				if !fired {
					t.Logf("%d statements", n-1)
					if n < 15 {
						t.Fatalf("only %d statements seen: the proxy does not count", n-1)
					}
					break
				}
			}
		})
	}
}

// TestNoEffectWithoutFence is the control: with the fence row held at another epoch nothing of a batch stays.
func TestNoEffectWithoutFence(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	c := newConsumer(t, b.config("c"), apply("c"))
	l := mustClaim(t, c, partition(3))
	if _, err := b.conn.Exec(t.Context(), `UPDATE partition_owner SET epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}
	if err := l.Handle(context.Background(), records(0, "a", "b", "c")); !errors.Is(err, ErrFenced) {
		t.Fatalf("Handle under an old epoch: %v, want ErrFenced", err)
	}
	b.checkOnce("c")
	if n := one[int](b, `SELECT count(*) FROM inbox`); n != 0 {
		t.Errorf("%d inbox rows of a rolled back batch", n)
	}
}
