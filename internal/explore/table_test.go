package explore

import (
	"maps"
	"slices"
	"testing"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
)

// observe runs what it takes to see every reaction once.
func observe(t *testing.T) Observed {
	t.Helper()
	seen := Observed{}
	for _, run := range []struct {
		sys System
		sc  Scenario
	}{
		{shipped(), without(everything("gift"), func(sc *Scenario) { sc.Gift = true })},
		{shipped(), everything("stock", event.StockStep)},
		{shipped(), everything("shipment", event.ShipmentStep)},
		{shipped(), everything("payment and screening", event.PaymentStep, event.ScreeningStep)},
	} {
		r := Explore(run.sys, run.sc)
		if r.Violation != "" {
			t.Fatal(r)
		}
		seen.Add(r.Seen)
	}
	return seen
}

// TestTableIsWhatTheRulesDo: what is declared in choreography happens in some run, and nothing else happens in any. A
// row declares what is stated at once and what may be stated when its calls end.
func TestTableIsWhatTheRulesDo(t *testing.T) {
	skipUnderRace(t)
	seen := observe(t)
	declared := map[event.Participant]map[event.Type]bool{}
	for _, row := range choreography.Table() {
		if row.Who == choreography.Notifications {
			continue
		}
		name := string(row.Who) + " on " + string(row.On) + row.Asked
		did, ok := seen[Cause{Who: row.Who, On: row.On, Asked: row.Asked}]
		if !ok {
			t.Errorf("%s: is declared and never comes about", name)
			continue
		}
		may := maps.Clone(did.States)
		for _, call := range row.Calls {
			if !did.Calls[call.Op] {
				t.Errorf("%s: declares the call %s %s and never makes it", name, call.Op, call.Step)
			}
			maps.Copy(may, answers(seen, row.Who, call.Op))
		}
		for op := range did.Calls {
			if !slices.ContainsFunc(row.Calls, func(c choreography.Call) bool { return c.Op == op }) {
				t.Errorf("%s: makes a call to %s and does not declare it", name, op)
			}
		}
		for _, fact := range row.States {
			if !may[fact] {
				t.Errorf("%s: declares %s and never states it", name, fact)
			}
		}
		for fact := range did.States {
			if !slices.Contains(row.States, fact) {
				t.Errorf("%s: states %s and does not declare it", name, fact)
			}
		}
		if declared[row.Who] == nil {
			declared[row.Who] = map[event.Type]bool{}
		}
		for _, fact := range row.States {
			declared[row.Who][fact] = true
		}
	}
	for cause, did := range seen {
		for fact := range did.States {
			if !declared[cause.Who][fact] {
				t.Errorf("%s states %s about %+v and no row declares it", cause.Who, fact, cause)
			}
		}
		acts := len(did.States)+len(did.Calls) > 0
		if acts && cause.Ended == "" && !slices.ContainsFunc(choreography.Table(), func(r choreography.Reaction) bool {
			return r.Who == cause.Who && r.On == cause.On && r.Asked == cause.Asked
		}) {
			t.Errorf("%+v has no row in the table", cause)
		}
	}
}

// answers is what may be stated when a call ends, or when the undo that its end begins ends.
func answers(seen Observed, who event.Participant, op decision.Op) map[event.Type]bool {
	ended := seen[Cause{Who: who, Ended: op}]
	all := maps.Clone(ended.States)
	if op == decision.Do && ended.Calls[decision.Undo] {
		maps.Copy(all, seen[Cause{Who: who, Ended: decision.Undo}].States)
	}
	return all
}
