// Package live collects the rows of a running system and has package check judge them (D12): `chorus verify`, and the
// console's invariants. It only reads, through the interfaces that everybody may use; it stores nothing.
//
// Six databases, a ledger and five topics share no snapshot. So what looks wrong while the rows stream by is only a suspect. A suspect is
// read again, its status before and after everything else, a few times over some seconds; what still looks wrong then, with a status
// that stood still, is a violation.
package live

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"time"

	"chorus/internal/check"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
)

// Sources are where the rows come from.
type Sources struct {
	Orders, Inventory, Fraud, Shipping, Billing inspect.Client

	Notifications inspect.Client // what customers were told; without its address that is not judged

	Others []inspect.Client // those without states of orders, whose dead letters and redeliveries count too

	Providers *simulated.Client
	Kafka     []string     // brokers; none: the topics are not read, and not judged
	Codec     *codec.Codec // for the topics
	Publisher string       // cdc's address; without it its positions are not judged
}

// Config bounds the verification. Defaults returns good values.
type Config struct {
	Rules  check.Rules
	Page   int             // states asked for at once
	Pauses []time.Duration // before each further look at the suspects
}

// Defaults allow an order to be a minute late, and a suspect six seconds to turn out sound.
func Defaults() Config {
	return Config{
		Rules: check.Rules{Grace: time.Minute, Waits: choreography.DefaultDurations()},
		Page:  2000,
		Pauses: []time.Duration{
			100 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second,
		},
	}
}

// Verify runs all checks. It fails when a source cannot be read; what is wrong with the orders is in the report.
func Verify(ctx context.Context, log *slog.Logger, src Sources, cfg Config) (*check.Report, error) {
	began := time.Now()
	v := &verifier{
		log: log, src: src, cfg: cfg, report: check.NewReport(began.UTC()), sums: check.NewSums(), topics: newTopics(src),
		seed: maphash.MakeSeed(),
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"read the outboxes", v.readOutboxes},
		{"read the topics", v.topics.advance},
		{"read all orders", v.stream},
		{"look at suspects again", v.again},
		{"wait for what the outboxes hold", v.feeds},
		{"count the stock", v.stock},
		{"add up the money", v.money},
		{"ask for figures", v.figures},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
		log.Debug("verify", "done", step.what, "after", time.Since(began).Round(time.Millisecond))
	}
	v.report.Took = time.Since(began).Round(time.Millisecond).String()
	return v.report, nil
}

// verifier is one run.
type verifier struct {
	log      *slog.Logger
	src      Sources
	cfg      Config
	report   *check.Report
	sums     *check.Sums
	topics   *topics
	suspects []event.OrderNo
	orders   int64 // looked at
	unjudged int64 // changed whenever they were looked at

	positions int // of the publisher that were taken
	seed      maphash.Seed
}

// settle takes an order as it is.
func (v *verifier) settle(o check.Order, found []check.Violation) {
	v.report.Add(found...)
	v.sums.Add(o)
	if o.Attention() {
		v.report.Needs(o)
	}
}

func (v *verifier) money(ctx context.Context) error {
	sum, err := v.src.Providers.Summary(ctx)
	if err != nil {
		return err
	}
	type book struct{ provider, currency string }
	net := map[book]int64{}
	for _, t := range sum.Totals {
		net[book{t.Provider, t.Currency}] = t.Net
	}
	var accounts []check.Account
	for _, a := range sum.Accounts {
		accounts = append(accounts, check.Account{
			Provider: a.Provider, Currency: a.Currency, Funded: a.Funded, Balance: a.Balance, Net: net[book{a.Provider, a.Currency}],
		})
	}
	figures, found := v.sums.Money(accounts)
	v.report.Figures(check.Money, figures...)
	v.report.Add(found...)
	return nil
}

// figures tells how much was looked at, and what else an operator wants to see beside it.
func (v *verifier) figures(ctx context.Context) error {
	var duplicates, dead int64
	clients := slices.Clone(v.src.Others)
	if v.asksTold() {
		clients = append(clients, v.src.Notifications)
	}
	for _, p := range v.participants() {
		clients = append(clients, p.client)
	}
	for _, c := range clients {
		f, err := c.Figures(ctx)
		if err != nil {
			return err
		}
		duplicates += f.Duplicates
		dead += f.DeadLetters
	}
	figure := func(name string, n int64) check.Figure { return check.Figure{Name: name, Value: n} }
	v.report.Figures(check.Ends, figure("orders", v.orders))
	v.report.Figures(check.Ends, v.sums.StatusFigures()...)
	v.report.Figures(check.Ends, figure("need a person", v.sums.Attention), figure("open dead letters", dead))
	if v.unjudged > 0 {
		v.report.Figures(check.Ends, figure("changed whenever looked at", v.unjudged))
	}
	v.report.Figures(check.Once, figure("redeliveries absorbed", duplicates))
	if v.topics.state != check.Unread {
		f := v.topics.feed
		v.report.Figures(check.Story, figure("records", f.Records), figure("duplicates", f.Duplicates), figure("unreadable", v.topics.unreadable))
	}
	return nil
}
