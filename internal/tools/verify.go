package tools

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"chorus/internal/check"
	"chorus/internal/check/live"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/money"
	"chorus/internal/participant"
	"chorus/internal/tracker"
)

// VerifyCmd checks all invariants over the live system.
type VerifyCmd struct {
	Cluster
	Output
	Grace    time.Duration `help:"How long after its deadline an order may still be under way." default:"1m"`
	NoTopics bool          `help:"Do not read the topics: faster, and blind for what was never published."`
}

// Help is shown by --help.
func (*VerifyCmd) Help() string {
	return `Reads every order at every service, the providers' ledger, the stock and the topics, and checks that they agree: nothing lost, nothing done twice, nothing left behind, and the sums exact. Orders that still move are judged by their deadline; those that need a person are listed. What looks wrong is read again for some seconds before it is called a violation, so it may run while orders flow.

Exit code: 0 all is well, 1 a violation, or something could not be read.`
}

// Run checks.
func (c *VerifyCmd) Run(ctx context.Context, log *slog.Logger) error {
	src, err := c.sources(ctx, log)
	if err != nil {
		return err
	}
	cfg := live.Defaults()
	cfg.Rules.Grace = c.Grace
	report, err := live.Verify(ctx, log, src, cfg)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if c.JSON {
		err = c.printJSON(report)
	} else {
		c.report(report)
	}
	if err == nil && !report.OK {
		err = ExitError{Code: 1}
	}
	return err
}

func (c *VerifyCmd) sources(ctx context.Context, log *slog.Logger) (live.Sources, error) {
	var src live.Sources
	all, err := c.addresses(ctx)
	if err != nil {
		return src, err
	}
	if err := all.answer(ctx, !c.NoTopics); err != nil {
		return src, err
	}
	for name, to := range map[event.Participant]*inspect.Client{
		event.Orders: &src.Orders, event.Inventory: &src.Inventory, event.Fraud: &src.Fraud,
		event.Shipping: &src.Shipping, event.Billing: &src.Billing,
	} {
		if *to, err = all.participant(name); err != nil {
			return src, err
		}
	}
	if src.Notifications, err = all.participant(choreography.Notifications); err != nil {
		return src, err
	}
	if src.Others, err = all.inspected(tracker.Name); err != nil {
		return src, err
	}
	if src.Providers, err = all.providers(); err != nil || c.NoTopics {
		return src, err
	}
	if src.Kafka, err = all.brokers(); err != nil {
		return src, err
	}
	if all["cdc"] != "" {
		if src.Publisher, err = all.url("cdc"); err != nil {
			return src, err
		}
	}
	src.Codec, err = all.codec(ctx, log)
	return src, err
}

// codecWithin bounds how long a tool waits for a registry that is away. Services wait without a bound.
const codecWithin = 15 * time.Second

// codec reads the topics' values.
func (a addresses) codec(ctx context.Context, log *slog.Logger) (*codec.Codec, error) {
	if a["registry"] != "" {
		alive, cancel := context.WithTimeout(ctx, aliveWithin)
		defer cancel()
		if err := a.alive(alive, "registry"); err != nil {
			return nil, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, codecWithin)
	defer cancel()
	c, err := participant.OpenCodec(bounded, log, a["registry"], codec.Avro)
	if err != nil {
		return nil, fmt.Errorf("learn the schemas: %w", err)
	}
	return c, nil
}

func (c *VerifyCmd) report(r *check.Report) {
	for _, res := range r.Checks {
		word := "ok"
		if res.Found > 0 {
			word = "VIOLATED " + strconv.Itoa(res.Found) + "x"
		}
		c.printf("%-10s %s: %s\n", res.Name, word, res.Says)
		if text := figures(res.Figures); text != "" {
			c.printf("           %s\n", text)
		}
		for _, text := range res.Unseen {
			c.printf("           not seen: %s\n", clean(text))
		}
		for _, v := range res.Violations {
			c.printf("           - %s\n", clean(v.String()))
		}
		if more := res.Found - len(res.Violations); more > 0 {
			c.printf("           - and %d more\n", more)
		}
	}
	for _, a := range r.Attention {
		c.printf("needs a person: order %s: %s\n", a.Order, clean(a.Why))
	}
	word := "all is well"
	if !r.OK {
		word = "VIOLATED"
	}
	c.printf("%s (%s)\n", word, r.Took)
}

func figures(all []check.Figure) string {
	texts := make([]string, len(all))
	for i, f := range all {
		if f.Currency != "" {
			texts[i] = f.Name + " " + money.Text(f.Value, f.Currency)
			continue
		}
		texts[i] = fmt.Sprintf("%s %d", f.Name, f.Value)
	}
	return strings.Join(texts, ", ")
}
