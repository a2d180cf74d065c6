package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chorus/internal/check"
	"chorus/internal/cluster"
	"chorus/internal/experiment/naive"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
)

// Lab is the cluster that is worked on.
type Lab struct {
	Front         inspect.Client
	Notifications inspect.Client
	Providers     *simulated.Client
	Supervisor    cluster.Client

	// Verify checks the invariants over everything.
	Verify func(ctx context.Context) (*check.Report, error)

	// Bench makes what the experiments have that show how facts get lost; nil where it is out of reach.
	Bench func(ctx context.Context) (*naive.Bench, error)
}

// trial is an experiment under way. Its first error ends it: what comes after does nothing, so that a scenario reads as a list of steps.
type trial struct {
	ctx      context.Context
	lab      Lab
	tell     func(line string)
	steps    int
	outcomes []Outcome
	err      error

	rules   map[string][]simulated.Behaviour // of the providers, as they were
	touched map[string]string                // processes that were frozen or stopped, and what brings them back
}

const (
	patience = 4 * time.Minute        // for each thing that is waited for; with the usual settings a call may take a minute to fail
	lookMost = 500 * time.Millisecond // between two looks
	mending  = time.Minute            // for setting everything back
)

func (t *trial) say(format string, args ...any) { t.tell(fmt.Sprintf(format, args...)) }

// step says what is done next.
func (t *trial) step(format string, args ...any) {
	if t.err == nil {
		t.steps++
		t.say("  %d. %s", t.steps, fmt.Sprintf(format, args...))
	}
}

// try does something unless an error came before.
func (t *trial) try(what string, do func() error) {
	if t.err != nil {
		return
	}
	if err := do(); err != nil {
		t.err = fmt.Errorf("%s: %w", what, err)
	}
}

// until asks again and again until the answer is yes. An error ends the wait.
func (t *trial) until(what string, asked func(ctx context.Context) (bool, error)) {
	t.try("wait for "+what, func() error {
		ctx, cancel := context.WithTimeoutCause(t.ctx, patience, fmt.Errorf("not within %s", patience))
		defer cancel()
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, lookMost) {
			yes, err := asked(ctx)
			if yes || err != nil {
				return err
			}
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return context.Cause(ctx)
			case <-timer.C:
			}
		}
	})
}

// expect notes an outcome.
func (t *trial) expect(what, want, got string) {
	if t.err == nil {
		t.outcomes = append(t.outcomes, Outcome{what, want, got, want == got})
	}
}

func (t *trial) expectCount(what string, want, got int) {
	t.expect(what, fmt.Sprint(want), fmt.Sprint(got))
}

// expectWord notes whether something is so.
func (t *trial) expectWord(what string, is bool, want, otherwise string) {
	got := otherwise
	if is {
		got = want
	}
	t.expect(what, want, got)
}

// begin remembers how the providers behave, and has them behave.
func (t *trial) begin() {
	t.rules, t.touched = map[string][]simulated.Behaviour{}, map[string]string{}
	for _, name := range simulated.Names() {
		t.try("read the rules of "+name, func() error {
			rules, err := t.lab.Providers.Behaviour(t.ctx, name)
			if err == nil && len(rules) > 0 {
				t.say("  (what somebody had set at %s is put aside meanwhile)", name)
				err = t.lab.Providers.ClearBehaviour(t.ctx, name)
			}
			if err == nil { // only what was read is set back
				t.rules[name] = rules
			}
			return err
		})
	}
}

// restore sets everything back, also after an interruption.
func (t *trial) restore() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), mending)
	defer cancel()
	var faults []error
	for name, action := range t.touched {
		if _, err := t.lab.Supervisor.Do(ctx, name, action); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", action, name, err))
		}
	}
	for name, rules := range t.rules {
		if err := t.lab.Providers.ClearBehaviour(ctx, name); err != nil {
			faults = append(faults, fmt.Errorf("clear the rules of %s: %w", name, err))
			continue
		}
		for _, b := range rules {
			if _, err := t.lab.Providers.SetBehaviour(ctx, name, b); err != nil {
				faults = append(faults, fmt.Errorf("set back a rule of %s: %w", name, err))
			}
		}
	}
	return errors.Join(faults...)
}

// list joins texts for people; none is "nothing".
func list(texts []string) string {
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, ", ")
}
