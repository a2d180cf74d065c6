package participant_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
)

// CON-20 at the door of a service with two replicas: every table that the door touches is expanded while facts, outcomes of calls and requests come in. What runs is the old code on the
// new schema, with statements that were prepared on the old one: nothing is set aside, refused, lost or done twice.
func TestMigrationUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 2))
	doors := make([]*participant.Door[paymentState], 2)
	for i := range doors {
		doors[i] = participant.New(t.Context(), b.log, b.pool(nil), facts(), billing())
		consume(b, kafka.Addr(), doors[i], event.Billing, nil)
	}
	const each = 20
	next := event.OrderNo(1)
	round := func(when string) {
		t.Helper()
		first, last := next, next+each
		next = last
		var batch []inbox.Fact
		for number := first; number < last; number++ {
			batch = append(batch, placed(number), screened(number, event.Clear), scheduled(number))
		}
		publish(t, kafka.Addr(), 2, batch...)
		eventually(t, "the charges "+when, func() bool {
			return one[int](b, `SELECT count(*) FROM order_states WHERE order_no >= $1 AND phase = 'DOING'`, first) == each
		})
		for number := first; number < last; number++ {
			// The outcome comes to one replica, and a person's late question about it to the other.
			if err := doors[number%2].Answer(t.Context(), []intent.Answer{{Order: number, Answered: taken("ch"), Cause: intent.Cause{CausationID: stranger(int(number))}}},
				func(context.Context, pgx.Tx) error { return nil }); err != nil {
				t.Fatalf("the outcome for order %s %s: %v", number, when, err)
			}
			said, err := doors[(number+1)%2].Request(t.Context(), number, decision.Requested{
				ID: participant.NewID(), At: participant.Now(), Request: decision.Resolve{Step: event.PaymentStep, Evidence: "the bank says so"},
			}, nil)
			if err != nil || said.Verdict != decision.Refused {
				t.Fatalf("the request about order %s %s: %s, %v", number, when, said.Verdict, err)
			}
		}
	}
	round("before")
	for _, ddl := range []string{
		`ALTER TABLE order_states ADD COLUMN note text`,
		`ALTER TABLE order_states ALTER COLUMN phase TYPE varchar(75)`,
		`ALTER TABLE inbox ADD COLUMN note text NOT NULL DEFAULT 'x'`,
		`ALTER TABLE inbox ALTER COLUMN duplicates TYPE bigint`,
		`ALTER TABLE outbox ADD COLUMN tenant text`,
		`ALTER TABLE calls ADD COLUMN note text`,
		`ALTER TABLE partition_owner ALTER COLUMN owner TYPE varchar(100)`,
		`ALTER TABLE order_states ALTER COLUMN order_no TYPE numeric(20)`,
	} {
		if _, err := b.conn.Exec(t.Context(), ddl); err != nil {
			t.Fatalf("%s: %v", ddl, err)
		}
		round("after " + ddl)
	}
	all := int(next - 1)
	for sql, want := range map[string]int{
		`SELECT count(*) FROM dead_letters`:                        0,
		`SELECT count(*) FROM calls`:                               all,
		`SELECT count(*) FROM outbox WHERE type = 'PaymentTaken'`:  all,
		`SELECT count(DISTINCT aggregateid) FROM outbox`:           all,
		`SELECT count(*) FROM order_states WHERE phase = 'DONE'`:   all,
		`SELECT count(*) FROM inbox WHERE topic IS NOT NULL`:       3 * all,
		`SELECT count(*) FROM outbox WHERE type <> 'PaymentTaken'`: 0,
	} {
		if got := one[int](b, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}
