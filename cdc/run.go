package cdc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Run publishes all sources until ctx ends, then stops reading, waits up to
// DrainTimeout for the acknowledgements of what was sent, confirms and returns
// nil. An outage of Kafka or of a database is waited out and never ends it; an
// error means that the configuration cannot work or that the address is taken.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	registry := prometheus.NewRegistry()
	cfg, sources, err := prepare(log, cfg, newMetrics(registry))
	if err != nil {
		return err
	}
	registry.MustRegister(collector(sources))

	// The listener closes last: probes should see a stop, not a refused connection.
	closeListener, err := listen(ctx, log, cfg.Listen, registry, sources)
	if err != nil {
		return err
	}
	defer closeListener()
	var running sync.WaitGroup
	for _, s := range sources {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
	return nil
}

// prepare reads the configuration and makes its sources, for the process and
// for the tools: what one takes, the other does.
func prepare(log *slog.Logger, cfg Config, m *metrics) (Config, []*source, error) {
	cfg, err := cfg.load()
	if err != nil {
		return cfg, nil, fmt.Errorf("configure cdc: %w", err)
	}
	cfg, err = cfg.withDefaults()
	if err != nil {
		return cfg, nil, fmt.Errorf("configure cdc: %w", err)
	}
	sources := make([]*source, len(cfg.Sources))
	for i, s := range cfg.Sources {
		sources[i] = newSource(log.With("source", s.Name), cfg, s, m)
		if s.Debezium == nil {
			continue
		}
		if err := sources[i].becomeDropIn(); err != nil {
			return cfg, nil, fmt.Errorf("configure cdc: source %q: %w", s.Name, err)
		}
	}
	return cfg, sources, nil
}
