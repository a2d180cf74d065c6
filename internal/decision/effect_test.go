package decision_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"chorus/internal/decision"
)

// inputs of an effect by name.
var inputs = map[string]func(decision.Effect) (decision.Effect, decision.Move, string){
	"do":        decision.Effect.Do,
	"refuse":    func(e decision.Effect) (decision.Effect, decision.Move, string) { return e.Refuse("refused") },
	"undo":      func(e decision.Effect) (decision.Effect, decision.Move, string) { return e.Undo("because") },
	"retry":     decision.Effect.Retry,
	"resolve":   func(e decision.Effect) (decision.Effect, decision.Move, string) { return e.Resolve("seen") },
	"done":      answer(decision.Do, decision.Succeeded),
	"declined":  answer(decision.Do, decision.Declined),
	"failed":    answer(decision.Do, decision.Failed),
	"stuck":     answer(decision.Do, decision.Stuck),
	"undone":    answer(decision.Undo, decision.Succeeded),
	"undostuck": answer(decision.Undo, decision.Stuck),
}

func answer(op decision.Op, kind decision.OutcomeKind) func(decision.Effect) (decision.Effect, decision.Move, string) {
	return func(e decision.Effect) (decision.Effect, decision.Move, string) {
		return e.Answer(op, decision.Outcome{Kind: kind, Reference: "ref"})
	}
}

// TestEffect: the races of D4, each as a row of inputs, with the last move and the phase at the end.
func TestEffect(t *testing.T) {
	for _, c := range []struct {
		name, inputs string
		move         decision.Move
		phase        decision.Phase
	}{
		{"forward", "do done", decision.SayDone, decision.Done},
		{"twice", "do done do", decision.Rest, decision.Done},
		{"declined", "do declined", decision.SayRefused, decision.Closed},
		{"exhausted", "do failed", decision.SayRefused, decision.Closed},
		{"refused without a call", "refuse", decision.SayRefused, decision.Closed},
		{"refused too late", "do refuse", decision.Rest, decision.Doing},
		{"undo before do", "undo", decision.SayNone, decision.Closed},
		{"late do meets a tombstone", "undo do", decision.Rest, decision.Closed},
		{"undo", "do done undo", decision.CallUndo, decision.Undoing},
		{"undone", "do done undo undone", decision.SayUndone, decision.Closed},
		{"undo twice", "do done undo undo", decision.Rest, decision.Undoing},
		{"undo after undone", "do done undo undone undo", decision.Rest, decision.Closed},
		{"undo during do", "do undo", decision.Wait, decision.Doing},
		{"undo during do, twice", "do undo undo", decision.Rest, decision.Doing},
		{"late success is undone", "do undo done", decision.CallUndo, decision.Undoing},
		{"refusal answers the undo", "do undo declined", decision.SayRefused, decision.Closed},
		{"failure answers the undo", "do undo failed", decision.SayRefused, decision.Closed},
		{"stuck", "do stuck", decision.SayStuck, decision.StuckDoing},
		{"stuck again is said once", "do stuck stuck", decision.Rest, decision.StuckDoing},
		{"undo of a stuck step", "do stuck undo", decision.Rest, decision.StuckDoing},
		{"stuck, retried, cancelled by key", "do stuck retry failed", decision.SayRefused, decision.Closed},
		{"stuck, resolved", "do stuck resolve", decision.SayRefused, decision.Closed},
		{"stuck, resolved, late answer", "do stuck retry resolve failed", decision.Rest, decision.Closed},
		{"stuck, found to stand", "do stuck done", decision.CallUndo, decision.Undoing},
		{"stuck, found to stand, undone: nobody heard of it", "do stuck done undone", decision.SayRefused, decision.Closed},
		{"stuck, found to stand, stuck again", "do stuck done undostuck", decision.SayStuck, decision.StuckUndoing},
		{"stuck, found to stand, stuck again, resolved", "do stuck done undostuck resolve", decision.SayRefused, decision.Closed},
		{"undo stuck", "do done undo undostuck", decision.SayStuck, decision.StuckUndoing},
		{"undo stuck, retried", "do done undo undostuck retry", decision.CallAgain, decision.StuckUndoing},
		{"undo stuck, retried, undone", "do done undo undostuck retry undone", decision.SayUndone, decision.Closed},
		{"undo stuck, resolved", "do done undo undostuck resolve", decision.SayUndone, decision.Closed},
		{"undo stuck, retried, resolved while that is under way, undone", "do done undo undostuck retry resolve undone", decision.Rest, decision.Closed},
		{"undo stuck, retried, resolved while that is under way, stuck again", "do done undo undostuck retry resolve undostuck", decision.Rest, decision.Closed},
		{"stuck, retried, resolved while that is under way, stuck again", "do stuck retry resolve stuck", decision.Rest, decision.Closed},
		{"resolve of what is not stuck", "do resolve", decision.Rest, decision.Doing},
		{"retry of what is not stuck", "do retry", decision.Rest, decision.Doing},
		{"answer that nobody awaits", "done", decision.Rest, decision.Open},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e decision.Effect
			var move decision.Move
			var why string
			for name := range strings.FieldsSeq(c.inputs) {
				e, move, why = inputs[name](e)
			}
			if move != c.move || e.Phase != c.phase {
				t.Errorf("move %d, phase %q; want %d, %q", move, e.Phase, c.move, c.phase)
			}
			if why == "" {
				t.Error("it does not say why")
			}
		})
	}
}

// TestEffectWalk: under any inputs in any order an effect says at most one closing fact, says nothing after it, says no
// forward fact after UndoStuck, calls each operation once but for retries, and what rests is unchanged.
func TestEffectWalk(t *testing.T) {
	names := []string{"do", "refuse", "undo", "retry", "resolve", "done", "declined", "failed", "stuck", "undone", "undostuck"}
	rapid.Check(t, func(t *rapid.T) {
		var e decision.Effect
		said := map[decision.Move]int{}
		stuckFacts := 0
		for range rapid.IntRange(1, 20).Draw(t, "length") {
			before := e
			name := rapid.SampledFrom(names).Draw(t, "input")
			var move decision.Move
			e, move, _ = inputs[name](e)
			said[move]++
			closings := said[decision.SayRefused] + said[decision.SayUndone] + said[decision.SayNone]
			switch {
			case move == decision.Rest && e != before:
				t.Fatalf("%s rests and changes %+v into %+v", name, before, e)
			case closings > 1:
				t.Fatal("a second closing fact")
			case closings == 1 && e.Phase != decision.Closed:
				t.Fatalf("closed, and then %q", e.Phase)
			case before.Phase == decision.Closed && move != decision.Rest:
				t.Fatalf("closed, and then move %d", move)
			case move == decision.SayDone && stuckFacts > 0:
				t.Fatal("a forward fact after UndoStuck")
			case said[decision.CallDo] > 1 || said[decision.CallUndo] > 1 || said[decision.SayDone] > 1:
				t.Fatal("done or undone twice")
			}
			if move == decision.SayStuck {
				stuckFacts++
				if e.Stucks != stuckFacts {
					t.Fatalf("UndoStuck %d has generation %d", stuckFacts, e.Stucks-1)
				}
			}
			if begun := e.Phase != decision.Open; begun {
				if why, ok := e.Begun(); !ok || why == "" {
					t.Fatal("begun, and does not say so")
				}
			}
		}
	})
}
