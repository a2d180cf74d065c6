package tools

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"chorus/internal/audit"
	"chorus/internal/inspect"
)

// DeadLettersCmds are the commands about dead letters.
type DeadLettersCmds struct {
	List    LettersListCmd    `cmd:"" default:"withargs" help:"List dead letters of all services."`
	Show    LettersShowCmd    `cmd:"" help:"Show one with its bytes, headers and reason."`
	Preview LettersPreviewCmd `cmd:"" help:"Say what a redrive would come to, and change nothing."`
	Redrive LettersRedriveCmd `cmd:"" help:"Have some, or all that filters choose, handled again."`
	Discard LettersDiscardCmd `cmd:"" help:"Close one without handling it."`
}

// LettersListCmd lists dead letters.
type LettersListCmd struct {
	Cluster
	Output
	LetterFilter
	State string `help:"open, redriven, discarded or all." enum:"open,redriven,discarded,all" default:"open"`
}

// Help is shown by --help.
func (*LettersListCmd) Help() string {
	return `A dead letter is a record that a service could not handle and never will as it is: not decodable, of no known type, too old. It was set aside with its bytes and its reason, and held up nothing else. Mend the cause, then chorus dead-letters redrive SERVICE/NUMBER.`
}

// Run lists.
func (c *LettersListCmd) Run(ctx context.Context, _ *slog.Logger) error {
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	state := c.State
	if state == "all" {
		state = ""
	}
	letters, err := c.find(ctx, all, state)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(letters)
	}
	if len(letters) == 0 {
		c.printf("no dead letters\n")
		return nil
	}
	c.table(func(row func(...string)) {
		row("LETTER", "STATE", "REASON", "TYPE", "ORDER", "WHERE", "SINCE", "DETAIL")
		for _, l := range letters {
			row(Letter{l.Participant, l.ID}.String(), l.State, l.Reason, shorten(l.EventType, 40), shorten(l.Key, 24),
				fmt.Sprintf("%s/%d@%d", l.Topic, l.Partition, l.Offset), l.FirstFailedAt.Local().Format(time.DateTime), shorten(l.Detail, 80))
		}
	})
	return nil
}

// LettersShowCmd shows a dead letter.
type LettersShowCmd struct {
	Cluster
	Output
	Letter Letter `arg:"" help:"SERVICE/NUMBER, as the list has it."`
}

// Run shows it.
func (c *LettersShowCmd) Run(ctx context.Context, _ *slog.Logger) error {
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	_, l, err := findLetter(ctx, all, c.Letter)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(l)
	}
	c.letter(l)
	return nil
}

func (o Output) letter(l inspect.Letter) {
	value := string(l.Value)
	if !utf8.ValidString(value) {
		value = fmt.Sprintf("%x (hex)", l.Value)
	}
	o.table(func(row func(...string)) {
		row("letter", Letter{l.Participant, l.ID}.String()+", "+l.State)
		row("reason", l.Reason)
		row("detail", l.Detail)
		row("record", fmt.Sprintf("%s/%d@%d, key %s", l.Topic, l.Partition, l.Offset, l.Key))
		row("fact", l.EventType+" "+l.EventID.String())
		row("occurred", l.OccurredAt.Local().Format(time.RFC3339Nano))
		row("failed", fmt.Sprintf("%s to %s, %d times", l.FirstFailedAt.Local().Format(time.DateTime), l.LastFailedAt.Local().Format(time.DateTime), l.Attempts))
		if l.ClosedWhy != "" {
			row("closed", l.ClosedAt.Local().Format(time.DateTime)+": "+l.ClosedWhy)
		}
		for _, name := range sortedKeys(l.Headers) {
			row("header "+name, l.Headers[name])
		}
		row("value", value)
	})
}

// LettersDiscardCmd closes a dead letter.
type LettersDiscardCmd struct {
	Cluster
	Output
	Letter Letter `arg:"" help:"SERVICE/NUMBER, as the list has it."`
	Reason string `help:"Why nobody needs it; it is kept." required:"" placeholder:"TEXT"`
}

// Run closes it.
func (c *LettersDiscardCmd) Run(ctx context.Context, _ *slog.Logger) error {
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	client, err := all.participant(c.Letter.Service)
	if err != nil {
		return err
	}
	if err := client.Discard(audit.By(ctx, audit.User()), c.Letter.ID, c.Reason); err != nil {
		return fmt.Errorf("discard %s: %w", c.Letter, err)
	}
	if c.JSON {
		return c.printJSON(map[string]string{"letter": c.Letter.String(), "state": "discarded"})
	}
	c.printf("%s  discarded\n", c.Letter)
	return nil
}
