// Package orders is the service that takes orders. It owns the topic orders.events, the catalogue, the orders as people
// read them and the answers that were given under idempotency keys; order/ holds its rules.
//
// Whatever happens to an order goes through the door in one transaction: its state, its row, its fact and, when
// it is placed, the answer under its key. A crash before the commit leaves nothing but a gap in the numbers; a crash after it
// leaves an order whose answer a repeated request gets. The service has no Kafka producer (G1).
package orders

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"chorus/internal/broker"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the service's own migrations, for pg.Migrate.
func Schema() fs.FS { return schema }

// Config is the service's configuration.
type Config struct {
	participant.Config
	Rules    order.Rules   `embed:"" envprefix:"CHORUS_"`
	Deadline time.Duration `help:"How long an order may take to be confirmed." default:"15m" env:"CHORUS_DEADLINE"`
	Shop     Shop          `embed:""`

	InventoryURL string `help:"Base URL of inventory, for a person's help with its step." env:"CHORUS_INVENTORY_URL"`
	ShippingURL  string `help:"Base URL of shipping." env:"CHORUS_SHIPPING_URL"`
	BillingURL   string `help:"Base URL of billing." env:"CHORUS_BILLING_URL"`

	Token          string   `help:"Bearer token that the API wants. Empty: none." env:"CHORUS_API_TOKEN"`
	RateLimit      float64  `help:"Writes a second that the API takes of one client address, with bursts of as many; 0 for no limit." default:"0" env:"CHORUS_RATE_LIMIT"`
	TrustedProxies []string `help:"Networks of proxies whose X-Forwarded-For names the client, such as that of the console." default:"127.0.0.0/8,::1/128" placeholder:"CIDR" env:"CHORUS_TRUSTED_PROXIES"`
	proxies        []netip.Prefix
	RequestTimeout time.Duration `help:"Longest time that a request may take." default:"10s" env:"CHORUS_REQUEST_TIMEOUT"`
	KeyLifetime    time.Duration `help:"How long an answer is kept under its idempotency key." default:"24h" env:"CHORUS_KEY_LIFETIME"`
	ArchiveAfter   time.Duration `help:"How long an ended order stays in the lists before it moves to the archive." default:"2160h" env:"CHORUS_ARCHIVE_AFTER"`
}

// withDefaults fills in what is zero and reports every fault at once.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&c.Rules.BackWithin, order.Defaults().BackWithin}, {&c.Deadline, 15 * time.Minute},
		{&c.RequestTimeout, 10 * time.Second}, {&c.KeyLifetime, 24 * time.Hour}, {&c.ArchiveAfter, 90 * 24 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	faults := []error{c.Shop.check()}
	if c.Deadline < 0 || c.RequestTimeout < 0 || c.KeyLifetime < 0 || c.ArchiveAfter < 0 || c.Rules.BackWithin < 0 {
		faults = append(faults, errors.New("a duration is negative"))
	}
	if !(c.RateLimit >= 0) || math.IsInf(c.RateLimit, 0) {
		faults = append(faults, fmt.Errorf("rate limit %v: want a number from 0", c.RateLimit))
	}
	var err error
	if c.proxies, err = parseProxies(c.TrustedProxies); err != nil {
		faults = append(faults, fmt.Errorf("trusted proxies: %w", err))
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("configuration of orders: %w", err)
	}
	return c, nil
}

// spec is how orders takes part.
func (c Config) spec() participant.Spec[order.State] {
	return participant.Spec[order.State]{
		Name: event.Orders, Decide: c.Rules.Decide, Due: order.State.Due,
		Phase: func(s order.State) string { return string(s.Status) },
		Saved: saved,
	}
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	kafka, err := broker.NewClient(cfg.Kafka) // connects when it is first asked
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer kafka.Close()

	opened := make(chan *participant.Service[order.State], 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return participant.Run(ctx, log, cfg.Config, participant.Setup[order.State]{
			Spec: cfg.spec(),
			Routes: func(s *participant.Service[order.State], mux *http.ServeMux) {
				opened <- s
				handler := newAPI(s.Log, s.DB, s.Door, cfg)
				mux.Handle("/v1/", handler)
				mux.Handle("GET /openapi.json", handler)
			},
			Gate: func(s *participant.Service[order.State]) (participant.Gate, error) {
				return newGate(s.Log, s.DB, func(ctx context.Context, topics []string) (ends, error) {
					offsets, err := broker.ListEndOffsets(ctx, kafka, topics...)
					if err != nil {
						return ends{}, err
					}
					ids, err := broker.TopicIDs(ctx, kafka, topics...)
					return ends{offsets, ids}, err
				}), nil
			},
		})
	})
	group.Go(func() error {
		select {
		case s := <-opened:
			return keepHouse(ctx, s.Log, s.DB, cfg)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}
