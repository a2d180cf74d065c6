// Package experiment breaks a running cluster on purpose and compares what becomes of it with what should (D10): a provider that is down or
// silent, a service that is killed in the middle of a call or frozen, a click that comes twice. Each experiment is a scenario of a dozen lines over
// the interfaces that everybody may use: the front address, the simulated providers' control API, the supervisor's on loopback. None of them is a
// mode of a service; the two that show how facts get lost run a process of their own (package naive).
//
// It stores nothing. What it breaks it mends: rules of the providers are set back to what they were, frozen processes thawed and stopped ones
// started, also when it is interrupted. Killed in the middle it leaves the rules that it set, which `chorus providers clear` takes away.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Experiment is one of them.
type Experiment struct {
	Name  string `json:"name"`   // on the command line
	Seed  string `json:"number"` // E1 to E25 as in the system that this one has to surpass; N1, N2 and X1… go beyond it
	Title string `json:"title"`
	About string `json:"about"` // what happens elsewhere, and what to see here
	Alone bool   `json:"-"`     // needs the data folder of a chorus up: its database server and its broker

	run func(t *trial)
}

// All lists every experiment in the order in which they are told.
func All() []Experiment {
	return slices.Concat(paths(), retries(), undos(), crashes(), people(), beyond(), lost())
}

// Find returns the experiment of a name or of a seed's number.
func Find(name string) (Experiment, error) {
	var names []string
	for _, e := range All() {
		if e.Name == name || strings.EqualFold(e.Seed, name) {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Experiment{}, fmt.Errorf("there is no experiment %s; there are %s", name, strings.Join(names, ", "))
}

// Outcome is what was expected of one thing, and what it was.
type Outcome struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
}

// Result is what an experiment came to.
type Result struct {
	Name     string    `json:"name"`
	OK       bool      `json:"ok"` // every outcome as expected, and the invariants hold
	Outcomes []Outcome `json:"outcomes"`
	Verify   string    `json:"verify"` // what the invariants say
	Took     string    `json:"took"`
}

// Run carries out an experiment, and tells what it does line by line. The error is of the experiment itself: a cluster that is not there,
// a wait that did not end, ctx. An outcome that is not the expected one is in the result.
func Run(ctx context.Context, lab Lab, e Experiment, tell func(line string)) (Result, error) {
	began := time.Now()
	t := &trial{ctx: ctx, lab: lab, tell: tell}
	if e.Alone && lab.Bench == nil {
		return Result{}, fmt.Errorf("%s makes a table and a topic of its own: name the database server that it may use (--data of a chorus up, or --postgres URL)", e.Name)
	}
	t.say("%s %s: %s", e.Seed, e.Name, e.Title)
	if !e.Alone { // those have nothing to do with the providers
		t.begin()
	}
	if t.err == nil {
		e.run(t)
	}
	if err := t.restore(); err != nil {
		t.say("  NOT MENDED: %s", err)
		t.err = errors.Join(t.err, err)
	} else if ctx.Err() != nil {
		t.say("  interrupted; what was broken is mended")
	}
	if t.err != nil {
		return Result{}, fmt.Errorf("%s: %w", e.Name, t.err)
	}
	return t.result(e, began)
}

// result compares, and has the invariants checked.
func (t *trial) result(e Experiment, began time.Time) (Result, error) {
	r := Result{Name: e.Name, OK: true, Outcomes: t.outcomes}
	t.say("  outcome")
	for _, o := range t.outcomes {
		if o.OK {
			t.say("    ok   %s: %s", o.What, o.Got)
			continue
		}
		r.OK = false
		t.say("    NOT  %s: expected %s, got %s", o.What, o.Want, o.Got)
	}
	report, err := t.lab.Verify(t.ctx)
	if err != nil {
		return r, fmt.Errorf("%s: verify: %w", e.Name, err)
	}
	r.OK, r.Verify = r.OK && report.OK, report.InAWord()
	r.Took = time.Since(began).Round(100 * time.Millisecond).String()
	t.say("  verify: %s", r.Verify)
	word := "as expected"
	if !r.OK {
		word = "NOT as expected"
	}
	t.say("  %s, after %s", word, r.Took)
	return r, nil
}
