package decision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chorus/internal/decision"
)

var small = decision.Policy{Tries: 2, Undos: 3, Asks: 2, Ends: 2}

// exchanges by a letter each: o ok, r refused, b busy, l lost, a absent, x the deadline passes.
func run(c decision.Call, p decision.Policy, script string) decision.Call {
	for _, letter := range script {
		if letter == 'x' {
			c = c.Expire()
			continue
		}
		kinds := map[rune]decision.ResultKind{
			'o': decision.OK, 'r': decision.Refusal, 'b': decision.Busy, 'l': decision.Lost, 'a': decision.Absent,
		}
		c = c.Record(p, decision.Result{Kind: kinds[letter], Reference: "ref", Score: 7, Reason: string(kinds[letter])})
	}
	return c
}

// TestCall: what each row of exchanges comes to (D7). The phase is what is sent next.
func TestCall(t *testing.T) {
	for _, c := range []struct {
		op      decision.Op
		script  string
		phase   decision.CallPhase
		outcome decision.Outcome
	}{
		{decision.Do, "", decision.Attempting, decision.Outcome{}},
		{decision.Do, "o", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref", Score: 7}},
		{decision.Do, "r", decision.Over, decision.Outcome{Kind: decision.Declined, Reason: "refused"}},
		{decision.Do, "b", decision.Attempting, decision.Outcome{}},
		{decision.Do, "bo", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref", Score: 7}},
		{decision.Do, "bb", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "busy"}},
		{decision.Do, "x", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "DEADLINE"}},
		{decision.Do, "bx", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "DEADLINE"}},

		// An unknown outcome is asked about, never taken for a failure (G7).
		{decision.Do, "l", decision.Asking, decision.Outcome{}},
		{decision.Do, "lx", decision.Asking, decision.Outcome{}},
		{decision.Do, "lo", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref"}},
		{decision.Do, "lr", decision.Over, decision.Outcome{Kind: decision.Declined, Reason: "refused"}},
		{decision.Do, "la", decision.Attempting, decision.Outcome{}},
		{decision.Do, "lao", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref", Score: 7}},
		{decision.Do, "lb", decision.Asking, decision.Outcome{}},
		{decision.Do, "lbb", decision.Over, decision.Outcome{Kind: decision.Stuck, Reason: "look-up: busy"}},
		{decision.Do, "lba", decision.Attempting, decision.Outcome{}},
		{decision.Do, "lbalbo", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref"}},

		// What may still take effect is cancelled by key before the failure goes out.
		{decision.Do, "lax", decision.Ending, decision.Outcome{Reason: "DEADLINE"}},
		{decision.Do, "laxo", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "DEADLINE"}},
		{decision.Do, "lar", decision.Ending, decision.Outcome{Reason: "refused"}},
		{decision.Do, "lala", decision.Ending, decision.Outcome{Reason: "no answer"}},
		{decision.Do, "lab", decision.Ending, decision.Outcome{Reason: "busy"}},
		{decision.Do, "labb", decision.Ending, decision.Outcome{Reason: "busy"}},
		{decision.Do, "lablo", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "busy"}},
		{decision.Do, "labbb", decision.Over, decision.Outcome{Kind: decision.Stuck, Reason: "cancel by key: busy"}},
		{decision.Do, "labr", decision.Over, decision.Outcome{Kind: decision.Stuck, Reason: "cancel by key: refused"}},

		// An undo is safe to repeat and has no deadline.
		{decision.Undo, "x", decision.Attempting, decision.Outcome{}},
		{decision.Undo, "lb", decision.Attempting, decision.Outcome{}},
		{decision.Undo, "lbo", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref", Score: 7}},
		{decision.Undo, "lbl", decision.Over, decision.Outcome{Kind: decision.Stuck, Reason: "lost"}},
		{decision.Undo, "r", decision.Over, decision.Outcome{Kind: decision.Stuck, Reason: "refused"}},

		// So is a look, which has.
		{decision.Look, "o", decision.Over, decision.Outcome{Kind: decision.Succeeded, Reference: "ref", Score: 7}},
		{decision.Look, "l", decision.Attempting, decision.Outcome{}},
		{decision.Look, "ll", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "lost"}},
		{decision.Look, "lx", decision.Over, decision.Outcome{Kind: decision.Failed, Reason: "DEADLINE"}},
		{decision.Look, "r", decision.Over, decision.Outcome{Kind: decision.Declined, Reason: "refused"}},
	} {
		t.Run(string(c.op)+" "+c.script, func(t *testing.T) {
			got := run(decision.NewCall(c.op), small, c.script)
			if got.Phase != c.phase {
				t.Errorf("next is %s, want %s", got.Phase, c.phase)
			}
			if diff := cmp.Diff(c.outcome, got.Outcome); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCallOverIsOver: what comes late changes nothing.
func TestCallOverIsOver(t *testing.T) {
	over := run(decision.NewCall(decision.Do), small, "o")
	if got := run(over, small, "rbla"+"x"); got != over {
		t.Errorf("a call that was over became %+v", got)
	}
}

// TestAgain: a stuck forward call is cancelled by key, never begun anew; a stuck undo has a fresh budget.
func TestAgain(t *testing.T) {
	do := run(decision.NewCall(decision.Do), small, "lbb").Again()
	if do.Phase != decision.Ending || !do.Unknown {
		t.Errorf("a stuck do goes on with %+v", do)
	}
	if end := run(do, small, "o"); end.Outcome.Kind != decision.Failed {
		t.Errorf("its cancel by key ends it %+v", end.Outcome)
	}
	for _, results := range []string{"l", "b", "r", "a", "lo", "bo", "ao"} { // whoever resolves the step meanwhile need not fear that it comes to stand
		if end := run(do, small, results); end.Outcome.Kind == decision.Succeeded || end.Phase != decision.Ending && end.Phase != decision.Over {
			t.Errorf("after %s a stuck do that goes on is %+v", results, end)
		}
	}
	undo := run(decision.NewCall(decision.Undo), small, "bbb").Again()
	if undo != decision.NewCall(decision.Undo) {
		t.Errorf("a stuck undo goes on with %+v", undo)
	}
}

// TestCallEnds walks at random under random budgets: every call ends within its budgets, a forward call that may have had its
// effect is never said to have failed unless its key was cancelled, and only one that did can have succeeded.
func TestCallEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(1, 5)
		p := decision.Policy{Tries: budget.Draw(t, "tries"), Undos: budget.Draw(t, "undos"), Asks: budget.Draw(t, "asks"), Ends: budget.Draw(t, "ends")}
		op := rapid.SampledFrom([]decision.Op{decision.Do, decision.Undo, decision.Look}).Draw(t, "op")
		c := decision.NewCall(op)
		open := false // an attempt was lost and nothing has been learned of it since
		said, ended := false, false
		limit := (p.Tries+1)*(p.Asks+1) + p.Undos + p.Ends + 1
		for steps := 0; c.Phase != decision.Over; steps++ {
			if steps > limit {
				t.Fatalf("no end after %d exchanges: %+v", steps, c)
			}
			if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
				if c = c.Expire(); c.Phase == decision.Over {
					break
				}
			}
			kinds := []decision.ResultKind{decision.OK, decision.Refusal, decision.Busy, decision.Lost}
			if c.Phase == decision.Asking {
				kinds = append(kinds, decision.Absent)
			}
			kind := rapid.SampledFrom(kinds).Draw(t, "result")
			switch {
			case c.Phase == decision.Attempting && kind == decision.Lost:
				open = true
			case c.Phase == decision.Ending && kind == decision.OK:
				ended = true
			case c.Phase != decision.Ending && kind == decision.OK:
				said = true
			}
			c = c.Record(p, decision.Result{Kind: kind, Reason: "reason"})
		}
		switch c.Outcome.Kind {
		case decision.Succeeded:
			if !said {
				t.Fatal("it succeeded and nobody said so")
			}
		case decision.Failed:
			if op == decision.Do && open && !ended {
				t.Fatal("it failed, and an attempt may still take effect")
			}
			if op == decision.Undo {
				t.Fatal("an undo does not fail, it is stuck")
			}
		case decision.Declined:
			if op == decision.Undo {
				t.Fatal("an undo is not declined, it is stuck")
			}
		case decision.Stuck:
			if op == decision.Look {
				t.Fatal("a look is never stuck: it holds nothing")
			}
		default:
			t.Fatalf("it is over without an outcome: %+v", c)
		}
	})
}
