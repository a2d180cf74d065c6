package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"chorus/internal/provider/simulated"
)

// ProvidersSetCmd makes a simulated provider misbehave.
type ProvidersSetCmd struct {
	Cluster
	Output
	Provider    string        `arg:"" help:"warehouse, bureau, carrier-domestic, carrier-international, pay-standard or pay-highvalue."`
	Operation   string        `help:"Which calls: do, undo, lookup, cancel or all." enum:"do,undo,lookup,cancel,all" default:"all"`
	Order       Number        `help:"Only calls about this order." placeholder:"NUMBER" optional:""`
	Down        bool          `help:"Refuse every call."`
	Unreachable bool          `help:"Close every connection without an answer."`
	FailRate    float64       `help:"Share of calls that fail and do nothing, 0 to 1."`
	FailStatus  int           `help:"Status of failures; 503 when not given."`
	DeclineRate float64       `help:"Share of requests that are refused for good, 0 to 1."`
	Timeout     float64       `help:"Share of calls that are carried out and never answered, 0 to 1." name:"timeout-after-success"`
	Latency     time.Duration `help:"Least time before a call is looked at."`
	LatencyMax  time.Duration `help:"Most time before a call is looked at; --latency when not given."`
	RetryAfter  int           `help:"Seconds that failures ask to be left alone."`
	RetryAsDate bool          `help:"Send Retry-After as a date."`
	Calls       int64         `help:"Only the next so many calls; 0 for all."`
}

// Help is shown by --help.
func (*ProvidersSetCmd) Help() string {
	return `Sets one rule; it stays until it is cleared, also over a restart. Of several rules the one for an order wins, then the one for an operation.

  chorus providers set pay-standard --timeout-after-success 1 --calls 1   (charged, never answered: watch the look-up)
  chorus providers set carrier-domestic --down                            (retries, then everything is undone)
  chorus providers set pay-standard --operation undo --fail-rate 1        (a stuck refund: needs a person)
  chorus providers set warehouse --latency 2s

A rule that sets nothing clears the one for the same operation and order.`
}

// Run sets it.
func (c *ProvidersSetCmd) Run(ctx context.Context, _ *slog.Logger) error {
	if _, err := chosen(c.Provider); err != nil {
		return err
	}
	if c.Down && c.Unreachable {
		return errors.New("providers set: --down and --unreachable exclude each other")
	}
	b := simulated.Behaviour{
		Operation: c.Operation, Order: int64(c.Order.OrderNo), FailRate: c.FailRate, FailStatus: c.FailStatus, DeclineRate: c.DeclineRate,
		TimeoutAfterSuccess: c.Timeout, LatencyMinMs: int(c.Latency.Milliseconds()),
		LatencyMaxMs: int(max(c.Latency, c.LatencyMax).Milliseconds()), RetryAfter: c.RetryAfter, Calls: c.Calls,
	}
	if c.Down {
		b.Down = simulated.Down
	}
	if c.Unreachable {
		b.Down = simulated.Unreachable
	}
	if c.RetryAsDate {
		b.RetryAfterForm = "date"
	}
	client, err := c.providersClient(ctx)
	if err != nil {
		return err
	}
	rules, err := client.SetBehaviour(ctx, c.Provider, b)
	if err != nil {
		return fmt.Errorf("set %s: %w", c.Provider, err)
	}
	return c.rules(map[string][]simulated.Behaviour{c.Provider: rules})
}

func (c Cluster) providersClient(ctx context.Context) (*simulated.Client, error) {
	all, err := c.addresses(ctx)
	if err != nil {
		return nil, err
	}
	return all.providers()
}

// ProvidersShowCmd shows the rules in force.
type ProvidersShowCmd struct {
	Cluster
	Output
	Provider string `arg:"" optional:"" help:"Only this one."`
}

// Run shows them.
func (c *ProvidersShowCmd) Run(ctx context.Context, _ *slog.Logger) error {
	names, err := chosen(c.Provider)
	if err != nil {
		return err
	}
	client, err := c.providersClient(ctx)
	if err != nil {
		return err
	}
	all := map[string][]simulated.Behaviour{}
	for _, name := range names {
		if all[name], err = client.Behaviour(ctx, name); err != nil {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	return c.rules(all)
}

// ProvidersClearCmd takes rules away.
type ProvidersClearCmd struct {
	Cluster
	Output
	Provider string `arg:"" optional:"" help:"Only this one."`
}

// Help is shown by --help.
func (*ProvidersClearCmd) Help() string {
	return `Takes away all rules of one provider, or of all: the outside world behaves again.`
}

// Run clears them.
func (c *ProvidersClearCmd) Run(ctx context.Context, _ *slog.Logger) error {
	names, err := chosen(c.Provider)
	if err != nil {
		return err
	}
	client, err := c.providersClient(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := client.ClearBehaviour(ctx, name); err != nil {
			return fmt.Errorf("clear %s: %w", name, err)
		}
	}
	return c.rules(map[string][]simulated.Behaviour{})
}

// chosen are the providers that a command is about: all, when it names none.
func chosen(provider string) ([]string, error) {
	names := simulated.Names()
	switch {
	case provider == "":
		return names, nil
	case slices.Contains(names, provider):
		return []string{provider}, nil
	}
	return nil, fmt.Errorf("there is no provider %s; providers are %s", provider, strings.Join(names, ", "))
}

func (o Output) rules(all map[string][]simulated.Behaviour) error {
	if o.JSON {
		return o.printJSON(all)
	}
	any := false
	for _, name := range sortedKeys(all) {
		for _, b := range all[name] {
			any = true
			o.printf("%s %s: %s\n", name, b.Operation, describe(b))
		}
	}
	if !any {
		o.printf("no rules: every provider behaves\n")
	}
	return nil
}

// describe says what a rule does.
func describe(b simulated.Behaviour) string {
	var parts []string
	add := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(b.Order != 0, "order %d", b.Order)
	add(b.Down != "", "%s", b.Down)
	add(b.FailRate > 0, "%g%% fail", 100*b.FailRate)
	add(b.FailStatus != 0, "status %d", b.FailStatus)
	add(b.DeclineRate > 0, "%g%% declined", 100*b.DeclineRate)
	add(b.TimeoutAfterSuccess > 0, "%g%% carried out and not answered", 100*b.TimeoutAfterSuccess)
	add(b.LatencyMaxMs > 0, "%d to %d ms late", b.LatencyMinMs, b.LatencyMaxMs)
	add(b.RetryAfter > 0, "retry after %d s", b.RetryAfter)
	add(b.Calls > 0, "for %d more calls", b.Calls)
	return strings.Join(parts, ", ")
}
