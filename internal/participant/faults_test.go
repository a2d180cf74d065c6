package participant_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/services/orders/order"
)

// attempts is how many statements an input may take, connections made anew included; the tests end at the first run without a cut.
const attempts = 80

// TestEachStatementOfFactsFails loses the database before, after, and without the server's knowledge at, each statement of the transactions of
// three lanes that work on the same orders. Each fact then has its effect once: state, outbox, calls, verdicts and dead letters (G4, G1).
func TestEachStatementOfFactsFails(t *testing.T) {
	t.Parallel()
	for _, how := range []moment{before, after, silent} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			b := newBase(t, event.Billing)
			kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
			d := participant.New(t.Context(), b.log, b.pool(nil), facts(), billing())
			s := newScissors(t)
			consume(b, kafka.Addr(), d, event.Billing, func(cfg *inbox.Config) {
				cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) {
					conn, err := pgx.ParseConfig(b.dsn)
					if err != nil {
						return nil, err
					}
					conn.RuntimeParams["idle_in_transaction_session_timeout"] = "5s"
					s.fit(conn)
					return pgx.ConnectConfig(ctx, conn)
				}
			})
			for n := 1; ; n++ {
				s.arm(n, how)
				charge, void, decline := event.OrderNo(10*n), event.OrderNo(10*n+1), event.OrderNo(10*n+2)
				unknown, broken := placed(void), placed(decline)
				unknown.Type, broken.Value = "OrderTeleported", []byte{0, 0, 0}
				for i, f := range []*inbox.Fact{&unknown, &broken} {
					f.ID = stranger(2*n + i)
					f.Headers[0].Value = []byte(event.ID(f.ID).String())
					f.Headers[1].Value = []byte(f.Type)
				}
				batch := []inbox.Fact{
					placed(charge), cancelled(void), unknown, placed(void), placed(decline), broken, placed(charge),
					screened(charge, event.Clear), screened(void, event.Clear), screened(decline, event.Reject),
					scheduled(charge), scheduled(void), scheduled(decline),
				}
				publish(t, kafka.Addr(), 1, batch...)
				all := ids(batch...)
				eventually(t, fmt.Sprintf("all facts are handled with a cut %s statement %d", how, n), func() bool {
					return one[int](b, `SELECT count(*) FROM inbox WHERE event_id = ANY($1)`, all) == 12 &&
						one[int](b, `SELECT coalesce(sum(duplicates), 0) FROM inbox WHERE event_id = ANY($1)`, all) >= 1
				})
				fired := s.disarm()
				for number, want := range map[event.OrderNo]string{
					charge:  "DOING, stated: , called: payment-" + charge.String() + "-0",
					void:    "CLOSED, stated: PaymentVoided, called: ",
					decline: "CLOSED, stated: PaymentDeclined, called: ",
				} {
					if got := fmt.Sprintf("%s, stated: %s, called: %s", b.phase(number), b.stated(number), b.called(number)); got != want {
						t.Errorf("order %s is %s, want %s", number, got, want)
					}
				}
				if got := one[int](b, `SELECT sum(duplicates) FROM inbox WHERE event_id = ANY($1)`, all); got != 1 {
					t.Errorf("%d duplicates, want 1", got)
				}
				reasons := fmt.Sprint(many[string](b, `SELECT reason FROM dead_letters WHERE event_id = ANY($1) ORDER BY "offset"`, all))
				if reasons != "[unknown_type undecodable]" {
					t.Errorf("dead letters %s", reasons)
				}
				if dead := one[int](b, `SELECT count(*) FROM inbox WHERE event_id = ANY($1) AND verdict = 'dead'`, all); dead != 2 {
					t.Errorf("%d dead verdicts, want 2", dead)
				}
				if t.Failed() {
					t.Fatalf("with a cut %s statement %d", how, n)
				}
				if !fired {
					t.Logf("%d statements", n-1)
					if n < 20 {
						t.Fatalf("only %d statements seen: the scissors do not count", n-1)
					}
					return
				}
				if n == 3*attempts {
					t.Fatal("no end of statements")
				}
			}
		})
	}
}

// cutEach runs an input with a cut at each of its statements. prepare makes an order ready; do is what a caller does until it
// is told that it is done; check looks at what came of it.
func cutEach(t *testing.T, least int, prepare func(number event.OrderNo), do func(s *scissors, number event.OrderNo) error, check func(number event.OrderNo)) {
	number := event.OrderNo(0)
	for _, how := range []moment{before, after, silent} {
		for n := 1; ; n++ {
			number++
			prepare(number)
			s := newScissors(t)
			s.arm(n, how)
			deadline := time.Now().Add(patience)
			for {
				err := do(s, number)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("with a cut %s statement %d: %v", how, n, err)
				}
			}
			fired := s.disarm()
			if check(number); t.Failed() {
				t.Fatalf("with a cut %s statement %d", how, n)
			}
			if !fired {
				if n <= least {
					t.Fatalf("only %d statements seen: the scissors do not count", n-1)
				}
				break
			}
			if n == attempts {
				t.Fatal("no end of statements")
			}
		}
	}
}

// An answer of a provider, whose end is fenced by the caller's lease (G4, G7).
func TestEachStatementOfAnswersFails(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	calm := b.pool(nil)
	d := participant.New(t.Context(), b.log, calm, facts(), billing())
	cutEach(t, 6, func(number event.OrderNo) {
		must(t, calm, d, event.Billing, placed(number), screened(number, event.Clear), scheduled(number))
	}, func(s *scissors, number event.OrderNo) error {
		pool := b.pool(s)
		defer pool.Close()
		cutting := participant.New(t.Context(), b.log, pool, facts(), billing())
		key := "payment-" + number.String() + "-0"
		err := cutting.Answer(t.Context(), []intent.Answer{{Order: number, Answered: taken("ch-1"), Cause: intent.Cause{CausationID: stranger(1), Hop: 2, Key: key}}},
			func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, `UPDATE calls SET ended_at = now() WHERE key = $1 AND ended_at IS NULL`, key)
				if err == nil && tag.RowsAffected() == 0 {
					err = intent.ErrLeaseLost
				}
				return err
			})
		if errors.Is(err, intent.ErrLeaseLost) {
			return nil // it is recorded already
		}
		return err
	}, func(number event.OrderNo) {
		if got := b.phase(number) + " " + b.stated(number); got != "DONE PaymentTaken" {
			t.Errorf("order %s is %s", number, got)
		}
		if ended := one[int](b, `SELECT count(*) FROM calls WHERE order_no = $1 AND ended_at IS NOT NULL`, int64(number)); ended != 1 {
			t.Errorf("%d calls ended", ended)
		}
	})
}

// A person's resolution of a stuck step.
func TestEachStatementOfRequestsFails(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	calm := b.pool(nil)
	d := participant.New(t.Context(), b.log, calm, facts(), billing())
	cutEach(t, 5, func(number event.OrderNo) {
		must(t, calm, d, event.Billing, placed(number), screened(number, event.Clear), scheduled(number))
		stuck := decision.Answered{Step: event.PaymentStep, Op: decision.Do, Outcome: decision.Outcome{Kind: decision.Stuck, Reason: "no telling"}}
		if err := d.Answer(t.Context(), []intent.Answer{{Order: number, Answered: stuck, Cause: intent.Cause{CausationID: stranger(1)}}},
			func(context.Context, pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}, func(s *scissors, number event.OrderNo) error {
		pool := b.pool(s)
		defer pool.Close()
		cutting := participant.New(t.Context(), b.log, pool, facts(), billing())
		_, err := cutting.Request(t.Context(), number, decision.Requested{
			ID: participant.NewID(), At: participant.Now(), Request: decision.Resolve{Step: event.PaymentStep, Evidence: "the bank says so"},
		}, nil)
		return err // a second one is refused, which is an answer
	}, func(number event.OrderNo) {
		if got := b.phase(number) + " " + b.stated(number); got != "CLOSED UndoStuck PaymentDeclined" {
			t.Errorf("order %s is %s", number, got)
		}
	})
}

// A deadline, and the placing of the order with what the API stores beside it.
func TestEachStatementOfTimersFails(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Orders)
	calm := b.pool(nil)
	// The orders service has tables of its own; here its answers stand for them.
	if _, err := b.conn.Exec(t.Context(), `CREATE TABLE answers (order_no bigint PRIMARY KEY); GRANT INSERT ON answers TO PUBLIC`); err != nil {
		t.Fatal(err)
	}
	deadline := participant.Now().Add(-time.Minute)
	place := func(d *participant.Door[order.State], number event.OrderNo) error {
		_, err := d.Request(t.Context(), number, decision.Requested{ID: stranger(int(number)), At: deadline, Request: order.Place{OrderPlaced: event.OrderPlaced{
			Customer: "ada", Currency: "EUR", Shipping: event.Domestic, Deadline: deadline, Lines: []event.Line{{SKU: "A", Quantity: 1}},
		}}}, func(tx pgx.Tx, said participant.Answer[order.State]) error {
			if said.Verdict == decision.Refused {
				return nil
			}
			_, err := tx.Exec(t.Context(), `INSERT INTO answers (order_no) VALUES ($1)`, int64(number))
			return err
		})
		return err
	}
	cutEach(t, 10, func(event.OrderNo) {}, func(s *scissors, number event.OrderNo) error {
		pool := b.pool(s)
		defer pool.Close()
		d := participant.New(t.Context(), b.log, pool, facts(), orders())
		if err := place(d, number); err != nil {
			return err
		}
		due, err := d.Elapsed(t.Context(), participant.Due{}, 10)
		if err != nil {
			return err
		}
		return d.Elapse(t.Context(), due)
	}, func(number event.OrderNo) {
		if got := b.phase(number) + " " + b.stated(number); got != "COMPENSATING OrderPlaced OrderCancellationRequested" {
			t.Errorf("order %s is %s", number, got)
		}
		if n := one[int](b, `SELECT count(*) FROM answers WHERE order_no = $1`, int64(number)); n != 1 {
			t.Errorf("%d answers", n)
		}
	})
	if d := participant.New(t.Context(), b.log, calm, facts(), orders()); pg.Code(place(d, 1)) != "" {
		t.Error("placing again is an error, want a refusal")
	}
}
