// Package notifications is the service that tells customers how their order stands. It only listens: no outbox, no topic. A notification, the inbox row of its
// fact and the call that it owes to the outside are one transaction.
//
// Nothing waits for it. A message that does not get through is tried again as its provider asks, and in the end stands in the result table as failed: the
// order is not harmed. A crash leaves what package intent says: a message may be sent again, under its key, which whoever hears it recognises.
package notifications

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/provider"
	"chorus/internal/web"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the service's own migrations, for pg.Migrate.
func Schema() fs.FS { return schema }

// Config is the service's configuration. Postgres must be set.
type Config struct {
	Postgres string        `help:"URL of the service's database, as its service role." env:"CHORUS_POSTGRES" required:""`
	Kafka    []string      `help:"Kafka brokers, host:port." env:"CHORUS_KAFKA" default:"127.0.0.1:9092"`
	Registry string        `help:"URL of a Confluent-compatible schema registry. Empty: the embedded schemas' fixed ids." env:"CHORUS_REGISTRY"`
	Listen   string        `help:"Address of health, metrics and inspection." default:"127.0.0.1:0" env:"CHORUS_LISTEN"`
	Batch    int           `help:"Facts in one transaction, at most." default:"500" env:"CHORUS_BATCH"`
	Horizon  time.Duration `help:"How far back the inbox remembers." default:"720h" env:"CHORUS_HORIZON"`
	Instance string        `help:"Name of this replica, the same at each of its starts." env:"CHORUS_INSTANCE"`

	Providers     string        `help:"Base URL of the outside providers: {base} in the providers file." default:"http://127.0.0.1:9090" env:"CHORUS_PROVIDERS"`
	ProvidersFile string        `help:"Providers and routes (YAML). Empty: the shipped ones, which are the simulated providers." env:"CHORUS_PROVIDERS_FILE" placeholder:"FILE"`
	Calls         intent.Config `embed:"" prefix:"call-" envprefix:"CHORUS_CALL_"`
	Timeout       time.Duration `help:"Longest exchange with a provider." default:"5s" env:"CHORUS_CALL_TIMEOUT"`
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Providers == "" {
		c.Providers = "http://127.0.0.1:9090"
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Calls == (intent.Config{}) {
		c.Calls = intent.Defaults()
	}
	return c
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	log, cfg = log.With("participant", choreography.Notifications), cfg.withDefaults()
	file, err := provider.Load(cfg.ProvidersFile)
	if err != nil {
		return err
	}
	set, err := file.Set(cfg.Providers, cfg.Timeout, event.NotificationStep)
	if err != nil {
		return err
	}
	var db *pgxpool.Pool
	return participant.Serve(ctx, log, cfg.Listen, func(ctx context.Context, gate *web.Gate) (err error) {
		if db, err = pg.Await(ctx, log, cfg.Postgres, pg.Options{Name: "chorus notifications", MaxConns: 6}); err != nil {
			return err
		}
		calls, err := intent.New(log, cfg.Calls, db, set, messages{log, db})
		if err != nil {
			return err
		}
		return run(ctx, log, cfg, db, gate, newMessenger(log, file), calls)
	}, func() {
		if db != nil {
			db.Close()
		}
	})
}

func run(ctx context.Context, log *slog.Logger, cfg Config, db *pgxpool.Pool, gate *web.Gate, m messenger, calls *intent.Workers) error {
	c, err := participant.OpenCodec(ctx, log, cfg.Registry, codec.Avro)
	if err != nil {
		return err
	}
	tell := newTeller(participant.NewReader(ctx, c), m)
	facts, err := inbox.New(log, inbox.Config{
		Brokers: cfg.Kafka, Group: string(choreography.Notifications), Topics: participant.Topics(choreography.Notifications),
		Postgres: cfg.Postgres, BatchRecords: cfg.Batch, Horizon: cfg.Horizon, InstanceID: cfg.Instance, Together: true,
		Committed: func([]inbox.Fact, []inbox.Verdict) { calls.Wake() },
	}, tell.handle)
	if err != nil {
		return err
	}
	mux, meter := http.NewServeMux(), web.NewMeter()
	meter.MustRegister(participant.Figures(db, facts))
	web.Health(mux, func(ctx context.Context) error { return participant.Ready(ctx, db, facts) })
	inspect.Source{Participant: choreography.Notifications, DB: db, Calls: true, Handler: tell.handle}.Routes(mux)
	mux.HandleFunc("GET /v1/inspect/told", told(db))
	gate.Open(meter.Measure(mux))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return facts.Run(ctx) })
	group.Go(func() error { return calls.Run(ctx) })
	group.Go(func() error {
		return participant.Housekeep(ctx, log, db, string(choreography.Notifications), cfg.Horizon)
	})
	return group.Wait()
}

// teller turns facts into notifications.
type teller struct {
	reader    *participant.Reader
	told      map[event.Type]bool // what customers are told about
	messenger messenger
}

func newTeller(reader *participant.Reader, m messenger) teller {
	t := teller{reader, map[event.Type]bool{}, m}
	for _, r := range choreography.Table() {
		if r.Who == choreography.Notifications {
			t.told[r.On] = true
		}
	}
	return t
}

func (t teller) handle(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	verdicts := make([]inbox.Verdict, len(facts))
	var ids [][16]byte
	var orders []int64
	var types, texts []string
	var messages []intent.Planned
	for i, f := range facts {
		if typ := event.Type(f.Type); event.Known(typ) && !t.told[typ] {
			verdicts[i] = inbox.Verdict{Outcome: inbox.Passed, Why: "nothing to tell about " + f.Type}
			continue
		}
		env, dead, err := t.reader.Read(f)
		if err != nil {
			return nil, err
		}
		if dead != nil {
			verdicts[i] = *dead
			continue
		}
		text := say(env.Fact)
		verdicts[i] = inbox.Verdict{Outcome: inbox.Applied, Why: text}
		ids, orders = append(ids, env.ID), append(orders, int64(env.Order))
		types, texts = append(types, f.Type), append(texts, text)
		if message, ok := t.messenger.message(env, text); ok {
			messages = append(messages, message)
		}
	}
	if len(ids) == 0 {
		return verdicts, nil
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO notifications (event_id, order_no, type, text)
		SELECT n.event_id, n.order_no, n.type, n.text FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) AS n(event_id, order_no, type, text)`, ids, orders, types, texts); err != nil {
		return nil, fmt.Errorf("write notifications: %w", err)
	}
	if len(messages) > 0 {
		if err := intent.Plan(ctx, tx, messages); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// say is what the customer reads. It holds no text of a provider's or of ours that is meant for operators.
func say(f event.Fact) string {
	switch f := f.(type) {
	case event.OrderConfirmed:
		return "Your order is confirmed and paid."
	case event.OrderRejected:
		return "We could not take your order: not everything is in stock. Nothing was charged."
	case event.OrderFailed:
		return "Your order failed" + because(f.Reason) + ". Nothing stays charged."
	case event.OrderCancelled:
		return "Your order is cancelled. Nothing stays charged."
	case event.OrderShipped:
		return "Your order is on its way."
	case event.OrderDelivered:
		return "Your order has arrived."
	}
	return string(f.Type())
}

// causes are the beginnings of the reasons that mean something to a customer. What stands behind them, and every other reason, is for operators:
// the names of providers, the status of a look-up.
var causes = map[string]string{
	"no carrier":      "no carrier could take it",
	"payment refused": "the payment was refused",
	"timed out":       "it took too long",
}

func because(reason string) string {
	for cause, words := range causes {
		if strings.HasPrefix(reason, cause) {
			return ": " + words
		}
	}
	return ""
}
