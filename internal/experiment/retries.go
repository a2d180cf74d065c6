package experiment

import (
	"time"

	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// retries are about calls that fail.
func retries() []Experiment {
	return []Experiment{
		{Name: "transient-failure", Seed: "E5", Title: "a processor that fails twice is asked again, and nobody else is", run: transientFailure,
			About: "Elsewhere results are kept in memory until the whole attempt has ended: a crash in between reserves and ships anew. Here each step is a fact of its own, so only the step that failed is repeated, under the same key."},
		{Name: "rate-limit", Seed: "E6", Title: "the bureau asks for time and gets it, then never answers", run: rateLimit,
			About: "Elsewhere the budget is one for all steps. Here each call has its own; Retry-After is kept by all calls to that provider. Out of attempts, the order is undone without a charge."},
		{Name: "first-step-fails", Seed: "E7", Title: "the warehouse is down: there is nothing to undo", run: firstStepFails,
			About: "Four attempts, then the order is rejected. No carrier and no processor was asked."},
		{Name: "permanent-refusal", Seed: "E24", Title: "a provider that answers 404 is not asked again", run: permanentRefusal,
			About: "A definite refusal is final: one attempt, then everything before it is undone."},
		{Name: "unreachable", Seed: "E25", Title: "a carrier closes every connection: nobody knows whether it has booked", run: unreachable,
			About: "Elsewhere a broken connection counts as a failure, and what the provider may have done is forgotten. Here the outcome is unknown: the carrier is asked by key, and in the end told by key never to book; only then the stock is released."},
	}
}

func transientFailure(t *trial) {
	t.step("The processor fails the next two charges.")
	t.set(simulated.Behaviour{Operation: do, FailRate: 1, Calls: 2}, simulated.PayStandard)
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.expectCount("calls to the warehouse", 1, t.calls(no, simulated.Warehouse))
	t.expectCount("calls to the carrier", 1, t.calls(no, simulated.CarrierDomestic))
	t.expectCount("attempts to charge", 3, t.calls(no, simulated.PayStandard, do))
	t.expectCount("keys that were used for them", 1, t.keys(no, simulated.PayStandard))
	t.holds(no, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayStandard}, 7350)
}

func rateLimit(t *trial) {
	const pause = 2
	t.step("The bureau answers 429 and asks for %d seconds, twice.", pause)
	t.set(simulated.Behaviour{Operation: do, FailRate: 1, FailStatus: 429, RetryAfter: pause, Calls: 2}, simulated.Bureau)
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.expectCount("calls to the bureau", 3, t.calls(no, simulated.Bureau))
	t.expectWord("between two of them", t.apart(no, simulated.Bureau) >= pause*time.Second, "at least 2s", t.apart(no, simulated.Bureau).String())

	t.step("Now it answers 429 and nothing else.")
	t.set(simulated.Behaviour{Operation: do, FailRate: 1, FailStatus: 429, RetryAfter: pause}, simulated.Bureau)
	no = t.place("bea")
	t.ends(no, order.Failed)
	t.expectCount("calls to the processors", 0, t.calls(no, simulated.PayStandard)+t.calls(no, simulated.PayHighValue))
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, nil, 0)
}

func firstStepFails(t *trial) {
	t.step("The warehouse refuses every call.")
	t.set(simulated.Behaviour{Operation: all, Down: simulated.Down}, simulated.Warehouse)
	no := t.place("ada")
	t.ends(no, order.Rejected)
	t.undone(no)
	t.holds(no, nil, 0)
	t.expectCount("calls to the carrier", 0, t.calls(no, simulated.CarrierDomestic))
	t.expectCount("calls to the processor", 0, t.calls(no, simulated.PayStandard))
}

func permanentRefusal(t *trial) {
	t.step("The processor's address is wrong: it answers 404.")
	t.set(simulated.Behaviour{Operation: do, FailRate: 1, FailStatus: 404}, processors...)
	no := t.place("ada")
	t.ends(no, order.Failed)
	t.expectCount("attempts to charge", 1, t.calls(no, simulated.PayStandard, do))
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, nil, 0)
}

func unreachable(t *trial) {
	t.step("The carrier closes the connection of every booking.")
	t.set(simulated.Behaviour{Operation: do, Down: simulated.Unreachable}, simulated.CarrierDomestic)
	no := t.place("ada")
	t.ends(no, order.Failed)
	asked := t.calls(no, simulated.CarrierDomestic, lookup)
	t.expectWord("the carrier was asked by key", asked > 0, "yes", "never")
	t.expectCount("cancels by key", 1, t.calls(no, simulated.CarrierDomestic, cancel))
	t.expectCount("calls to the processor", 0, t.calls(no, simulated.PayStandard))
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, nil, 0)
}
