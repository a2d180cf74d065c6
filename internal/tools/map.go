package tools

import (
	"context"
	"log/slog"
	"strings"

	"chorus/internal/choreography"
)

// MapCmd draws the choreography.
type MapCmd struct {
	Format string `help:"text, or mermaid for a flowchart." enum:"text,mermaid" default:"text"`

	Output Output `kong:"-"`
}

// Help is shown by --help.
func (*MapCmd) Help() string {
	return `Who reacts to which fact, what that makes it state or call, and who owes what to whom within which time. It is drawn from the table that the services themselves take their subscriptions from, so it cannot be out of date. It needs no cluster.`
}

// Run draws.
func (c *MapCmd) Run(context.Context, *slog.Logger) error {
	drawn, err := choreography.Map(c.Format)
	if err != nil {
		return err
	}
	c.Output.printf("%s\n", strings.TrimRight(drawn, "\n"))
	return nil
}
