package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/gap"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/tracker"
)

// TraceCmd shows everything about one order.
type TraceCmd struct {
	Front
	Output
	Order  Number `arg:"" help:"Number of the order."`
	Follow bool   `help:"Go on with what happens, until nothing is awaited any more." short:"f"`
}

// Help is shown by --help.
func (*TraceCmd) Help() string {
	return `Every fact of the order across the services in causal order, with its place in Kafka; what each consumer decided about it and why; every call to a provider with all attempts; and what the order waits for at present: what, from whom, since when, until when, and why it has not come.

Why is one of: not published (it is committed and in no topic), not consumed (what sets it off is in the topic, and its owner has not handled it), failed (a dead letter, or a call that fails or is stuck), overdue (taken up, and its time is over), or in progress.

With --follow the command ends as place --wait does, when the order is confirmed or wholly undone, and everybody has handled its facts. It goes on while a person is needed. With --follow --json each fact is one line.

Exit code: 1 when there is no such order.`
}

// traced is the front's answer about an order: its story, what each consumer decided, and the calls with every attempt.
type traced struct {
	tracker.Timeline
	Facts   []tracedFact   `json:"facts"`
	Calls   []tracedCall   `json:"calls"`
	Waits   []tracedWait   `json:"waits,omitempty"`
	Audit   []tracedAction `json:"audit,omitempty"`
	Missing []missing      `json:"missing,omitempty"` // who did not answer
	Unread  bool           `json:"unread,omitempty"`  // the order is placed and the tracker has read none of its facts
}

// tracedWait is what the order waits for, and why it has not come.
type tracedWait struct {
	tracker.Wait
	Gap gap.Gap `json:"gap"`
}

type tracedAction struct {
	Participant event.Participant `json:"participant"`
	audit.Entry
}

type tracedFact struct {
	tracker.Fact
	Why      string          `json:"why,omitempty"`
	Verdicts []tracedVerdict `json:"verdicts"`
}

// tracedVerdict without a verdict is of a consumer that has not handled the fact yet, or has not answered.
type tracedVerdict struct {
	Participant event.Participant `json:"participant"`
	inspect.Verdict
}

type tracedCall struct {
	Participant event.Participant `json:"participant"`
	intent.CallView
}

type missing struct {
	Participant event.Participant `json:"participant"`
	Reason      string            `json:"reason"`
}

// traceWithin bounds the question. The console itself waits less than two seconds for a service.
const traceWithin = 10 * time.Second

// followEvery is how often a followed order is looked at.
const followEvery = 300 * time.Millisecond

// Run shows the order, once or until it has ended.
func (c *TraceCmd) Run(ctx context.Context, _ *slog.Logger) error {
	front, err := c.client(ctx)
	if err != nil {
		return err
	}
	if c.Follow {
		return c.follow(ctx, front)
	}
	t, err := front.trace(ctx, c.Order.OrderNo)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(t)
	}
	for _, l := range traceLines(t, time.Now(), c.paint()) {
		c.printf("%s\n", l.text)
	}
	return nil
}

// trace asks for the story.
func (c *client) trace(ctx context.Context, no event.OrderNo) (t traced, err error) {
	ctx, cancel := context.WithTimeout(ctx, traceWithin)
	defer cancel()
	err = c.do(ctx, http.MethodGet, orderPath(no)+"/trace", nil, &t)
	if status(err) == http.StatusNotFound {
		return t, ExitError{1, fmt.Errorf("there is no order %s", no)}
	}
	return t, about(err, "trace order %s", no)
}

// about puts what was tried before an error; nil stays nil.
func about(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// follow prints each line when it is new. Services that are away for a while are waited for.
func (c *TraceCmd) follow(ctx context.Context, front *client) error {
	shown := map[string]bool{}
	show := newFacts
	if !c.JSON {
		show = func(t traced) ([]shownLine, error) { return traceLines(t, time.Now(), c.paint()), nil }
	}
	for {
		t, err := front.trace(ctx, c.Order.OrderNo)
		switch {
		case err == nil:
			lines, err := show(t)
			if err != nil {
				return err
			}
			for _, l := range lines {
				if !shown[l.key] {
					shown[l.key] = true
					c.printf("%s\n", l.text)
				}
			}
			if atRest(t.Status) && len(t.Waits) == 0 && complete(t) {
				return nil
			}
		case !passing(err):
			return err
		}
		if err := sleep(ctx, followEvery); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil // whoever watched has seen enough
			}
			return err
		}
	}
}

// complete reports whether everybody has answered about every fact.
func complete(t traced) bool {
	if t.Unread {
		return false
	}
	for _, f := range t.Facts {
		for _, v := range f.Verdicts {
			if v.Verdict.Verdict == "" {
				return false
			}
		}
	}
	return len(t.Missing) == 0
}

func newFacts(t traced) ([]shownLine, error) {
	var lines []shownLine
	for _, f := range t.Facts {
		raw, err := json.Marshal(f.Fact)
		if err != nil {
			return nil, err
		}
		lines = append(lines, shownLine{f.ID.String(), string(raw)})
	}
	return lines, nil
}
