package payment_test

import (
	"testing"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/billing/payment"
)

func charged(kind decision.OutcomeKind, op decision.Op) decision.Answered {
	return decision.Answered{Step: event.PaymentStep, Op: op, Outcome: decision.Outcome{Kind: kind, Reference: "ch_1"}}
}

// TestCMP08PaidAfterTheDeadline: the order has timed out while its charge was under way. Whatever the processor says then, and whatever is
// delivered twice, the customer is charged nothing in the end, is paid back once at most, and others hear one answer.
func TestCMP08PaidAfterTheDeadline(t *testing.T) {
	t.Parallel()
	timedOut := fact(event.Orders, event.OrderCancellationRequested{Reason: event.TimedOut})
	refunded := event.PaymentRefunded{Payment: "ch_1", Amount: 250, Currency: "GBP", Reason: "TIMED_OUT"}
	taken := event.PaymentTaken{Payment: "ch_1", Processor: "pay-a", Amount: 250, Currency: "GBP"}
	for name, tt := range map[string]struct {
		inputs []decision.Input
		said   []event.Fact
		undos  int
	}{
		"charged a second after it": {
			append(ready(250), timedOut, charged(decision.Succeeded, decision.Do), charged(decision.Succeeded, decision.Undo)), []event.Fact{refunded}, 1,
		},
		"charged a second before it": {
			append(ready(250), charged(decision.Succeeded, decision.Do), timedOut, charged(decision.Succeeded, decision.Undo)), []event.Fact{taken, refunded}, 1,
		},
		"everything twice": {
			append(ready(250), timedOut, timedOut, charged(decision.Succeeded, decision.Do), timedOut, charged(decision.Succeeded, decision.Undo), timedOut, charged(decision.Succeeded, decision.Undo)),
			[]event.Fact{refunded}, 1,
		},
		"refused after it": {
			append(ready(250), timedOut, charged(decision.Declined, decision.Do)), []event.Fact{event.PaymentDeclined{Reason: "no reason given"}}, 0,
		},
		"before it was charged": {
			append([]decision.Input{timedOut}, ready(250)...), []event.Fact{event.PaymentVoided{Reason: "TIMED_OUT"}}, 0,
		},
	} {
		var s payment.State
		said, calls := play(t, payment.Rules{Route: to("pay-a")}, &s, tt.inputs...)
		undos := 0
		for _, c := range calls {
			if c.Op == decision.Undo {
				undos++
			}
		}
		same := len(said) == len(tt.said)
		for i := range said {
			same = same && said[i] == tt.said[i]
		}
		if !same || undos != tt.undos {
			t.Errorf("%s: said %+v with %d undos, want %+v with %d", name, said, undos, tt.said, tt.undos)
		}
	}
}
