// Package console is the front address (D10): server-rendered pages where a person places an order, sees it travel through the
// services, and helps it where it is stuck; the tracker's API; and the way through to the orders API under /v1/.
//
// It keeps the tracker's database and nothing else. What services know is asked of each service's inspection API; a service
// that does not answer is named in the answer and takes nothing else away. Pages work without scripts; with them they are live.
// A crash leaves nothing behind: forms carry their own idempotency keys.
package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/tracker"
	"chorus/internal/web"
)

// Config is the console's configuration.
type Config struct {
	Listen   string                 `help:"The front address: pages, API, /readyz." default:"127.0.0.1:8080" env:"CHORUS_LISTEN"`
	Postgres string                 `help:"URL of the tracker's database, as its service role." env:"CHORUS_POSTGRES" required:""`
	Kafka    []string               `help:"Kafka brokers, host:port." env:"CHORUS_KAFKA" default:"127.0.0.1:9092"`
	Registry string                 `help:"URL of a Confluent-compatible schema registry. Empty: the embedded schemas' fixed ids." env:"CHORUS_REGISTRY"`
	Services Services               `embed:""`
	Control  string                 `help:"Control URL of the supervisor of a chorus up, on loopback. Without it there are no experiments." env:"CHORUS_CONTROL"`
	Waits    choreography.Durations `embed:"" prefix:"wait-" envprefix:"CHORUS_WAIT_"`
	Instance string                 `help:"Name of this replica, the same at each of its starts." env:"CHORUS_INSTANCE"`
	MaxConns int32                  `help:"Connections beside those of the partitions." default:"8" env:"CHORUS_MAX_CONNS"`
}

// Services are the base URLs of the other processes, as in http://127.0.0.1:8101. One that is empty is not asked.
type Services struct {
	Orders        string `help:"Base URL of the orders service." env:"CHORUS_ORDERS" required:""`
	Inventory     string `help:"Base URL of the inventory service." env:"CHORUS_INVENTORY"`
	Fraud         string `help:"Base URL of the fraud service." env:"CHORUS_FRAUD"`
	Shipping      string `help:"Base URL of the shipping service." env:"CHORUS_SHIPPING"`
	Billing       string `help:"Base URL of the billing service." env:"CHORUS_BILLING"`
	Notifications string `help:"Base URL of the notifications service." env:"CHORUS_NOTIFICATIONS"`
	CDC           string `help:"Base URL of cdc, whose readiness counts." env:"CHORUS_CDC"`
	Providers     string `help:"Base URL of the outside providers, whose readiness counts." env:"CHORUS_PROVIDERS"`
}

// named is a process with its base URL.
type named struct {
	Name string
	URL  string
}

// all lists the processes that were named.
func (s Services) all() []named {
	return given(append(s.participants(), named{"cdc", s.CDC}, named{"providers", s.Providers}))
}

// participants lists those with an inspection API.
func (s Services) participants() []named {
	return given([]named{
		{string(event.Orders), s.Orders}, {string(event.Inventory), s.Inventory}, {string(event.Fraud), s.Fraud},
		{string(event.Shipping), s.Shipping}, {string(event.Billing), s.Billing}, {string(choreography.Notifications), s.Notifications},
	})
}

func given(all []named) (kept []named) {
	for _, n := range all {
		if n.URL != "" {
			kept = append(kept, n)
		}
	}
	return kept
}

// check reports all faults together.
func (s Services) check() error {
	var faults []error
	if s.Orders == "" {
		faults = append(faults, errors.New("the orders service's URL is needed"))
	}
	for _, n := range s.all() {
		if u, err := url.Parse(n.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("%s: want a URL such as http://127.0.0.1:8101", n.Name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("console configuration: %w", err)
	}
	return nil
}

// server answers requests.
type server struct {
	log      *slog.Logger
	services Services
	tracker  *tracker.Tracker
	self     http.Handler // the tracker's inspection API
	http     *http.Client // for the services
	ready    func(ctx context.Context) error
	lag      func(ctx context.Context, group string, topics []string) (broker.GroupState, error)
	pages    pages
	trials   *trials // nil without a supervisor
}

// Run runs the console until ctx ends. Database, broker and services may be away at the start or at any time.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	if err := cfg.Services.check(); err != nil {
		return err
	}
	pages, err := parsePages()
	if err != nil {
		return err
	}
	listener, err := web.Listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	gate := &web.Gate{} // answers 503 until the database has been found
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return web.Serve(ctx, log, listener, gate) })
	group.Go(func() error { return run(ctx, log, cfg, gate, pages) })
	return group.Wait()
}

func run(ctx context.Context, log *slog.Logger, cfg Config, gate *web.Gate, pages pages) error {
	db, err := pg.Await(ctx, log, cfg.Postgres, pg.Options{Name: "chorus console", MaxConns: cfg.MaxConns})
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := participant.OpenCodec(ctx, log, cfg.Registry, codec.Avro)
	if err != nil {
		return err
	}
	t, err := tracker.New(ctx, log, db, c, cfg.Waits)
	if err != nil {
		return err
	}
	facts, err := t.Consumer(cfg.Kafka, cfg.Postgres, cfg.Instance)
	if err != nil {
		return err
	}
	observer, err := broker.NewClient(cfg.Kafka)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer observer.Close()
	self := http.NewServeMux()
	inspect.Source{Participant: tracker.Name, DB: db, Handler: t.Handle}.Routes(self)
	s := &server{
		log: log, services: cfg.Services, tracker: t, pages: pages, http: newClient(),
		self:  self,
		ready: func(ctx context.Context) error { return participant.Ready(ctx, db, facts) },
		lag: func(ctx context.Context, group string, topics []string) (broker.GroupState, error) {
			return broker.GroupLag(ctx, observer, group, topics)
		},
	}
	s.trials = newTrials(log, cfg, c, s.http)
	gate.Open(s.handler())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return facts.Run(ctx) })
	if s.trials != nil {
		group.Go(func() error { return s.trials.work(ctx) })
	}
	group.Go(func() error { return participant.Housekeep(ctx, log, db, tracker.Name, recognise) })
	return group.Wait()
}

// recognise is for how long the tracker's inbox recognises a redelivery. One that comes later is absorbed by the fact's own key.
const recognise = 30 * 24 * time.Hour

// newClient is for all requests to the services. Each request has a limit of its own besides.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // they are neighbours
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: transport}
}

// handler is everything that the front address answers.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		web.JSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", s.getReady)
	mux.Handle("GET /metrics", promhttp.Handler())
	s.api(mux)
	s.proxies(mux)
	s.site(mux)
	return mux
}
