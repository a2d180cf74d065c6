package intent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/providertest"
)

// begin plans calls in a transaction that commits if after returns nil.
func (b *bench) begin(w *works, after func() error, planned ...intent.Planned) (begun *intent.Begun, err error) {
	b.t.Helper()
	err = pg.InTx(b.t.Context(), b.pool, "plan", func(tx pgx.Tx) (err error) {
		begun.Drop()
		if begun, err = w.Plan(b.t.Context(), tx, planned); err != nil {
			return err
		}
		return after()
	})
	return begun, err
}

func committed() error { return nil }

const starts = "SELECT count(*) FROM call_attempts WHERE part = 'start'"

// TestBegunWithItsTransaction: the start of an exchange is on record when the transaction that planned it commits, nothing is sent before, and
// the call is never claimed: its lease is the first there was.
func TestBegunWithItsTransaction(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, created)
	cfg := quick()
	cfg.Poll = patience // no lane looks
	w := b.start(cfg, provided(t, p.URL, 5*time.Second))
	w.listens(b)
	begun, err := b.begin(w, func() error {
		if n := len(p.Requests()); n != 0 {
			t.Errorf("%d requests before the commit", n)
		}
		return nil
	}, do(1))
	if err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, starts); n != 1 {
		t.Errorf("%d starts on record", n)
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests before Go", n)
	}
	begun.Go()
	if diff := cmp.Diff([]string{"1 payment do SUCCEEDED ch_1"}, b.answers(1)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := value[int](b, "SELECT lease_token FROM calls"); n != 2 {
		t.Errorf("the token is %d: one lease and one record make 2", n)
	}
	if diff := cmp.Diff([]string{"ATTEMPT ok"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestBegunAndRolledBack: what a transaction planned that is rolled back is neither stored nor sent, and its slot is free again.
func TestBegunAndRolledBack(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, created)
	w := b.start(quick(), configured(t, "pay", p.URL, "    concurrency: 1\n"))
	w.listens(b)
	no := errors.New("no")
	for range 5 {
		begun, err := b.begin(w, func() error { return no }, do(1), do(2))
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
		begun.Drop()
	}
	if n := value[int](b, "SELECT count(*) FROM calls"); n != 0 {
		t.Errorf("%d calls", n)
	}
	begun, err := b.begin(w, committed, do(1))
	if err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, starts); n != 1 {
		t.Error("the slot is not free")
	}
	begun.Go()
	b.answers(1)
	if n := len(p.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestBegunAndNeverSent: the process dies between the commit and the exchange. Whoever finds the call does not know that, and asks
// by key before anything else (G7).
func TestBegunAndNeverSent(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.JSON(404, `{}`), created)
	cfg := quick()
	cfg.LeaseMargin = 100 * time.Millisecond
	w := b.start(cfg, provided(t, p.URL, 200*time.Millisecond))
	w.listens(b)
	begun, err := b.begin(w, committed, do(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(begun.Drop)
	if diff := cmp.Diff([]string{"1 payment do SUCCEEDED ch_1"}, b.answers(1)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ATTEMPT lost", "ASK absent", "ATTEMPT ok"}, b.trail(1)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
	if !begun.Over() {
		t.Error("the lease is over and its holder does not know")
	}
}

// TestPlannedTwiceBeginsOnce: a decision that is repeated finds its call, which begins only once and takes no slot.
func TestPlannedTwiceBeginsOnce(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, created, created)
	w := b.start(quick(), configured(t, "pay", p.URL, "    concurrency: 2\n"))
	w.listens(b)
	for range 6 {
		begun, err := b.begin(w, committed, do(1), do(1))
		if err != nil {
			t.Fatal(err)
		}
		begun.Go()
	}
	b.answers(1)
	begun, err := b.begin(w, committed, do(2))
	if err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, starts); n != 2 {
		t.Errorf("%d starts on record, want one of each order", n)
	}
	begun.Go()
	b.answers(2)
	if n := len(p.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestLeftToTheLanes: what may not be sent at once is planned like any other call.
func TestLeftToTheLanes(t *testing.T) {
	late := do(1)
	late.Intent.Deadline = time.Now().Add(-time.Second)
	odd := do(1)
	odd.Intent.Op = "barter"
	for name, c := range map[string]struct {
		planned intent.Planned
		more    string
		before  string
		stopped bool
	}{
		"the deadline is over":        {planned: late},
		"a kind that is not known":    {planned: odd},
		"the provider wants a pause":  {planned: do(1), before: "INSERT INTO call_pauses VALUES ('pay', now() + interval '1 hour')"},
		"the rate is limited":         {planned: do(1), more: "    rate: {per_second: 50, burst: 10}\n"},
		"the process ends":            {planned: do(1), stopped: true},
		"a provider of another build": {planned: intent.Planned{Order: 1, CausationID: cause, Intent: decision.Intent{Step: event.PaymentStep, Op: decision.Do, Provider: "bank", Body: charge{1, 100}}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := providertest.Start(t)
			w := b.start(quick(), configured(t, "pay", p.URL, c.more))
			w.listens(b)
			if c.before != "" {
				b.exec(c.before)
			}
			if c.stopped {
				w.stop()
			}
			// Within the transaction, so that no lane has it yet.
			var running int
			err := pg.InTx(t.Context(), b.pool, "plan", func(tx pgx.Tx) error {
				begun, err := w.Plan(t.Context(), tx, []intent.Planned{c.planned})
				if err != nil {
					return err
				}
				defer begun.Drop()
				if err := tx.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE running OR lease_token > 0 OR due_at > now()) FROM calls").Scan(&running); err != nil {
					return err
				}
				return context.Canceled // nothing stays
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if running != 0 {
				t.Error("the call began")
			}
		})
	}
}
