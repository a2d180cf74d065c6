package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/inbox"
	"chorus/internal/check"
	"chorus/internal/choreography"
	"chorus/internal/inspect"
)

func cmdVerify(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	if neg != (len(args) > 0) {
		ts.Fatalf("usage: verify, ! verify CHECK ...")
	}
	if neg {
		ts.Check(c.violated(ctx, ts, args))
		return
	}
	// What still moves is hardly judged: a clean report about it would say nothing.
	all, err := c.settled(ctx)
	ts.Check(err)
	if len(all) == 0 {
		ts.Fatalf("there are no orders to verify")
	}
	ts.Check(c.heardAll(ctx))
	report, err := c.verify(ctx)
	ts.Check(err)
	show(ts, report)
	if !report.OK {
		ts.Fatalf("invariants are violated")
	}
	ts.Check(c.noLetters(ctx))
}

// violated waits until the invariants named are violated: what breaks them may be under way.
func (c *system) violated(ctx context.Context, ts *testscript.TestScript, names []string) error {
	var report *check.Report
	err := c.wait(fmt.Sprintf("%v to be violated", names), func() (_ bool, err error) {
		if report, err = c.verify(ctx); err != nil {
			return false, err
		}
		for _, name := range names {
			if !slices.ContainsFunc(report.Checks, func(r check.Result) bool { return string(r.Name) == name && r.Found > 0 }) {
				return false, nil
			}
		}
		return true, nil
	})
	if report != nil {
		show(ts, report)
	}
	return err
}

func show(ts *testscript.TestScript, report *check.Report) {
	for _, r := range report.Checks {
		fmt.Fprintf(ts.Stdout(), "%s: %d found %v\n", r.Name, r.Found, r.Figures)
		for _, v := range r.Violations {
			fmt.Fprintf(ts.Stdout(), "  %s\n", v)
		}
	}
}

// verify runs chorus verify.
func (c *system) verify(ctx context.Context) (*check.Report, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.bin, "verify", "--json", "--grace", "0s", "--data", c.data)
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), &out, &errs
	err := cmd.Run()
	var report check.Report
	if json.Unmarshal(out.Bytes(), &report) != nil || len(report.Checks) == 0 {
		return nil, fmt.Errorf("chorus verify: %w\n%s", err, errs.String())
	}
	if (err == nil) != report.OK {
		return nil, fmt.Errorf("chorus verify ended with %v; its report says ok: %t", err, report.OK)
	}
	return &report, nil
}

// heardAll waits until notifications has handled all that there is: what customers are told comes last.
func (c *system) heardAll(ctx context.Context) error {
	return c.wait("notifications to catch up", func() (bool, error) {
		var lag struct {
			Groups []struct {
				Group  string
				Behind int64
			}
		}
		if err := c.api(ctx, http.MethodGet, "/v1/tracker/lag", nil, &lag); err != nil {
			if away(err) {
				err = nil
			}
			return false, err
		}
		for _, g := range lag.Groups {
			if g.Group == string(choreography.Notifications) {
				return g.Behind == 0, nil
			}
		}
		return false, nil
	})
}

// noLetters: nothing was set aside anywhere (G10).
func (c *system) noLetters(ctx context.Context) error {
	var faults []error
	for _, name := range absorbers() {
		client, err := c.participant(name)
		if err != nil {
			return err
		}
		figures, err := client.Figures(ctx)
		if err != nil {
			return err
		}
		if figures.DeadLetters > 0 {
			letters, _ := client.Letters(ctx, inspect.LetterFilter{State: inbox.Open}, 5)
			reasons := []string{}
			for _, l := range letters {
				reasons = append(reasons, fmt.Sprintf("%s of %s: %s: %s", l.EventType, l.Key, l.Reason, l.Detail))
			}
			slices.Sort(reasons)
			faults = append(faults, fmt.Errorf("%s has %d dead letters: %s", name, figures.DeadLetters, strings.Join(reasons, "; ")))
		}
	}
	return errors.Join(faults...)
}
