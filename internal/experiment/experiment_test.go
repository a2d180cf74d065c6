package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/check"
	"chorus/internal/experiment/naive"
)

// TestEverySeedScenario: each of the 25 experiments of the system that this one has to surpass is here once, and the two that show how facts get lost.
func TestEverySeedScenario(t *testing.T) {
	t.Parallel()
	seen, names := map[string]int{}, map[string]bool{}
	for _, e := range All() {
		seen[e.Seed]++
		if names[e.Name] || e.Name == "" || e.Name != strings.ToLower(e.Name) {
			t.Errorf("%s: the name %q is taken, or none", e.Seed, e.Name)
		}
		names[e.Name] = true
		if e.Title == "" || e.About == "" || e.run == nil {
			t.Errorf("%s says nothing, or does nothing", e.Name)
		}
	}
	want := []string{"N1", "N2"}
	for n := 1; n <= 25; n++ {
		want = append(want, fmt.Sprint("E", n))
	}
	for _, seed := range want {
		if seen[seed] != 1 {
			t.Errorf("%s is there %d times", seed, seen[seed])
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"billing-down", "E4", "e4"} {
		if e, err := Find(name); err != nil || e.Name != "billing-down" {
			t.Errorf("%s: %v, %v", name, e.Name, err)
		}
	}
	if _, err := Find("billing"); err == nil || !strings.Contains(err.Error(), "billing-down") {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestFirstErrorEndsTheTrial: what comes after it does nothing, notes nothing and says nothing.
func TestFirstErrorEndsTheTrial(t *testing.T) {
	t.Parallel()
	var said []string
	tr := &trial{ctx: t.Context(), tell: func(line string) { said = append(said, line) }}
	failure := errors.New("gone")
	done := 0
	tr.step("one")
	tr.try("first", func() error { done++; return failure })
	tr.try("second", func() error { done++; return nil })
	tr.until("third", func(context.Context) (bool, error) { done++; return true, nil })
	tr.step("two")
	tr.expectCount("something", 1, 2)
	if done != 1 || len(tr.outcomes) != 0 || !errors.Is(tr.err, failure) {
		t.Errorf("done %d, outcomes %v, error %v", done, tr.outcomes, tr.err)
	}
	if diff := cmp.Diff([]string{"  1. one"}, said); diff != "" {
		t.Error(diff)
	}
}

// TestUnexpectedOutcomeIsAFailure: an experiment that cannot fail shows nothing.
func TestUnexpectedOutcomeIsAFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		got      string
		verified bool
		want     bool
	}{
		{"as expected", "CONFIRMED", true, true}, {"another outcome", "FAILED", true, false}, {"an invariant is violated", "CONFIRMED", false, false},
	} {
		var said []string
		tr := &trial{ctx: t.Context(), tell: func(line string) { said = append(said, line) }}
		tr.lab.Verify = func(context.Context) (*check.Report, error) { return &check.Report{OK: tt.verified}, nil }
		tr.expect("order 1 ends", "CONFIRMED", tt.got)
		r, err := tr.result(Experiment{Name: "x"}, time.Now())
		if err != nil || r.OK != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
		}
		if named := slices.ContainsFunc(said, func(l string) bool { return strings.Contains(l, "expected CONFIRMED, got FAILED") }); named != (tt.got == "FAILED") {
			t.Errorf("%s: said %q", tt.name, said)
		}
	}
}

// TestJudge: without an outbox one order is lost, or made up; with one neither.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		gap    string
		outbox bool
		books  naive.Books
		ok     bool
	}{
		{"lost, as naive handlers do", naive.AfterCommit, false, naive.Books{Orders: []int{1, 2}, Told: []int{1}}, true},
		{"not lost by chance", naive.AfterCommit, false, naive.Books{Orders: []int{1, 2}, Told: []int{1, 2}}, false},
		{"not lost", naive.AfterCommit, true, naive.Books{Orders: []int{1, 2}, Told: []int{1, 2}}, true},
		{"lost by an outbox", naive.AfterCommit, true, naive.Books{Orders: []int{1, 2}, Told: []int{1}}, false},
		{"made up, as naive handlers do", naive.BeforeCommit, false, naive.Books{Orders: []int{1}, Told: []int{1, 2}}, true},
		{"made up by an outbox", naive.BeforeCommit, true, naive.Books{Orders: []int{1}, Told: []int{1, 2}}, false},
	} {
		tr := &trial{ctx: t.Context()}
		tr.judge(tt.gap, tt.outbox, tt.books, 2, 2)
		if ok := !slices.ContainsFunc(tr.outcomes, func(o Outcome) bool { return !o.OK }); ok != tt.ok {
			t.Errorf("%s: %+v", tt.name, tr.outcomes)
		}
	}
}
