package tools

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/inspect"
)

// AuditCmd shows what people did.
type AuditCmd struct {
	Cluster
	Output
	Service string  `help:"Only at this service, or at the tracker." placeholder:"NAME"`
	Order   *Number `help:"Only about this order." placeholder:"NUMBER"`
	Action  string  `help:"Only this action: redrive, discard, resolve, retry, cancel, rewind or erase." enum:",redrive,discard,resolve,retry,cancel,rewind,erase" default:""`
	Since   Instant `help:"Only what was done at or after a time, or in so long." placeholder:"TIME|2h"`
	Limit   int     `help:"Only the newest." default:"100"`
}

// Help is shown by --help.
func (*AuditCmd) Help() string {
	return `Every action of a person that changed something: who, when, why, what was so before and after. Each was recorded in the transaction that did it, where the service's own role can only add.

The name is what the request gave as X-Operator: the user of the operating system for the tools, the console's for its buttons. It is a name and no proof.`
}

// audited is an entry with the database that it stands in.
type audited struct {
	Service event.Participant `json:"service"`
	audit.Entry
}

// Run shows it, the newest first.
func (c *AuditCmd) Run(ctx context.Context, _ *slog.Logger) error {
	who := holders()
	if c.Service != "" {
		who = []event.Participant{event.Participant(c.Service)}
		if err := holds(who[0]); err != nil {
			return err
		}
	}
	if c.Limit < 1 || c.Limit > 1000 {
		return fmt.Errorf("--limit %d: want 1 to 1000", c.Limit)
	}
	filter := inspect.AuditFilter{Action: c.Action, Since: c.Since.Time}
	if c.Order != nil {
		filter.Order = c.Order.OrderNo
	}
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	found := []audited{}
	for _, p := range who {
		client, err := all.participant(p)
		if err != nil {
			return err
		}
		entries, err := client.Audit(ctx, filter, c.Limit)
		if err != nil {
			return fmt.Errorf("audit of %s: %w", p, err)
		}
		for _, e := range entries {
			found = append(found, audited{p, e})
		}
	}
	slices.SortStableFunc(found, func(a, b audited) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	found = found[:min(len(found), c.Limit)]
	if c.JSON {
		return c.printJSON(found)
	}
	if len(found) == 0 {
		c.printf("nobody has done anything\n")
		return nil
	}
	c.table(func(row func(...string)) {
		row("WHEN", "WHO", "DID", "AT", "TO", "ORDER", "WHY", "BEFORE", "AFTER")
		for _, e := range found {
			order := ""
			if e.Order != 0 {
				order = e.Order.String()
			}
			row(e.At.Local().Format(time.DateTime), e.Who, e.Action, string(e.Service), e.Subject, order, shorten(e.Why, 60), shorten(string(e.Before), 60), shorten(string(e.After), 60))
		}
	})
	return nil
}
