package explore

import (
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// everything is the scenario in which all that may happen does. Reaching the cap fails: it is above what there is.
func everything(name string, faulty ...event.Step) Scenario {
	return Scenario{
		Name: name, Policy: Budgets(), Faulty: faulty, Scores: []int{10, 95}, Short: true,
		Cancel: true, Ship: true, Timers: true, Expiry: true, Person: true, Cap: 12_000_000,
	}
}

var allSteps = []event.Step{event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep}

func without(sc Scenario, change func(*Scenario)) Scenario {
	change(&sc)
	return sc
}

// retryAsks is the system in which a retried forward call first asks what became of it, so that a success is found
// after its UndoStuck. D4 allows for it; the shipped Again cancels by key.
func retryAsks() System {
	sys := shipped()
	sys.Again = func(c decision.Call) decision.Call {
		if c.Op == decision.Do {
			return decision.Call{Op: decision.Do, Phase: decision.Asking, Unknown: true}
		}
		return decision.NewCall(c.Op)
	}
	return sys
}

// TestEveryInterleaving proves G8, G9, G10 (who owns each wait) and the ending rules of D4 for one order.
// "Everything" is the full product; the others add what it leaves out (see the package comment).
func TestEveryInterleaving(t *testing.T) {
	skipUnderRace(t)
	review := func(sc *Scenario) { sc.Scores = []int{10, 60, 95} }
	runs := []struct {
		sys System
		sc  Scenario
	}{
		{shipped(), without(everything("calm"), review)},
		{shipped(), without(everything("no timer, no customer, no person", allSteps...), func(sc *Scenario) {
			sc.Timers, sc.Cancel, sc.Ship, sc.Expiry, sc.Person = false, false, false, false, false
		})},
		{shipped(), without(everything("review", event.ScreeningStep, event.PaymentStep), review)},
		{shipped(), without(everything("gift", event.ShipmentStep), func(sc *Scenario) { sc.Gift = true })},
		{shipped(), without(everything("no reasons", event.ShipmentStep), func(sc *Scenario) { sc.Silent = true })},
		{retryAsks(), everything("retry asks: stock", event.StockStep)},
		{retryAsks(), everything("retry asks: shipment", event.ShipmentStep)},
		{retryAsks(), everything("retry asks: payment", event.PaymentStep)},
		{shipped(), everything("everything", allSteps...)},
	}
	for _, run := range runs {
		t.Run(run.sc.Name, func(t *testing.T) {
			began := time.Now()
			r := Explore(run.sys, run.sc)
			t.Logf("%s in %s", r, time.Since(began).Round(time.Millisecond))
			if r.Violation != "" {
				t.Error("the shipped rules do not hold")
			}
		})
	}
}

// TestWithoutInbox delivers every fact again at any moment to participants that have no inbox: the natural
// keys (one effect an order, one answer an undo) are a second line that holds by itself (D6). It reaches not one state
// more than with the inbox.
func TestWithoutInbox(t *testing.T) {
	skipUnderRace(t)
	for _, sc := range []Scenario{
		everything("calm"),
		everything("payment", event.PaymentStep),
		everything("shipment", event.ShipmentStep),
	} {
		t.Run(sc.Name, func(t *testing.T) {
			with := Explore(shipped(), sc)
			off := Explore(shipped(), without(sc, func(sc *Scenario) { sc.NoInbox = true }))
			t.Log(off)
			if off.Violation != "" {
				t.Error("a second delivery does harm")
			}
			if off.States != with.States || off.Moves <= with.Moves {
				t.Errorf("without the inbox %d states and %d moves, with it %d and %d", off.States, off.Moves, with.States, with.Moves)
			}
		})
	}
}

// TestCapIsLoud: a run that is cut short proves nothing and says so.
func TestCapIsLoud(t *testing.T) {
	r := Explore(shipped(), without(everything("cut short"), func(sc *Scenario) { sc.Cap = 100 }))
	if r.Violation == "" {
		t.Error("the cap was hit in silence")
	}
}

func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("explore is single-threaded and too slow under the race detector: run `go test ./internal/explore` without -race")
	}
}
