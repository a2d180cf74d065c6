package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
)

// config is where everything is.
type config struct {
	brokers  []string
	registry string // URL; not needed where values are JSON
	postgres string // URL of a database of our own
}

// topics are all that the shop has. Payments are in billing's; the rest is counted.
var topics = []string{"orders.events", "inventory.events", "fraud.events", "shipping.events", "billing.events"}

// consumer names our place in the inbox. Under another name all facts would be new again.
const consumer = "analytics"

// always is longer than any shop has been open. Nothing prunes this inbox, so it remembers every fact, and history of any age is safe to count.
const always = 100 * 365 * 24 * time.Hour

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka brokers, host:port, with commas between them")
	registry := flag.String("registry", "", "schema registry, as a URL")
	postgres := flag.String("postgres", os.Getenv("ANALYTICS_POSTGRES"), "database, as a URL (ANALYTICS_POSTGRES)")
	show := flag.Bool("show", false, "print the figures and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg := config{brokers: strings.Split(*brokers, ","), registry: *registry, postgres: *postgres}
	var err error
	if *show {
		err = printFigures(ctx, os.Stdout, cfg.postgres)
	} else {
		err = run(ctx, log, cfg)
	}
	if err != nil {
		log.Error("analytics", "err", err)
		os.Exit(1)
	}
}

// run makes the tables, if needed, and consumes until ctx ends.
func run(ctx context.Context, log *slog.Logger, cfg config) error {
	conn, err := pgx.Connect(ctx, cfg.postgres)
	if err != nil {
		return fmt.Errorf("connect to the figures: %w", err)
	}
	_, err = conn.Exec(ctx, inbox.Schema+schema)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	values := newDecoder(cfg.registry)
	return inbox.Run(ctx, log, inbox.Config{
		Brokers: cfg.brokers, Group: consumer, Consumer: consumer, Topics: topics, Postgres: cfg.postgres,
		Horizon: always,
	}, func(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
		return count(ctx, tx, values, facts)
	})
}
