package simulated

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"chorus/internal/pg"
)

//go:embed schema/*.sql
var schema embed.FS

// Config is what the process needs to run.
type Config struct {
	Listen   string `help:"Address of the HTTP API, host:port." default:"127.0.0.1:9090" env:"CHORUS_LISTEN"`
	Postgres string `help:"Connection string of the database \"providers\"." env:"CHORUS_POSTGRES"`
	// Seed of the chances in rules of misbehaviour; 0 draws one, which the log tells.
	Seed int64 `help:"Seed of the chances in rules of misbehaviour; 0 draws one." default:"0" env:"CHORUS_PROVIDERS_SEED"`
	// KeepRequests is how many calls the log keeps; older ones go. 0 is 500,000.
	KeepRequests int64 `help:"Calls that the log keeps." default:"500000" env:"CHORUS_PROVIDERS_KEEP_REQUESTS"`
}

func (c *Config) check() error {
	var faults []error
	if c.Listen == "" {
		faults = append(faults, errors.New("listen address is missing"))
	}
	if c.Postgres == "" {
		faults = append(faults, errors.New("PostgreSQL connection string is missing"))
	}
	if c.KeepRequests < 0 {
		faults = append(faults, errors.New("number of requests to keep is negative"))
	}
	return errors.Join(faults...)
}

// shutdownGrace is how long the calls in hand may take once the process is told to end.
const shutdownGrace = 10 * time.Second

// Run serves the simulated providers until ctx ends, then finishes the calls in hand. It creates its tables, but not its
// database.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("configuration of providers: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	return Serve(ctx, log, cfg, ln)
}

// Serve is [Run] on a listener that is open already, whose address stands for cfg.Listen. It closes the listener.
func Serve(ctx context.Context, log *slog.Logger, cfg Config, ln net.Listener) error {
	defer ln.Close()
	cfg.Listen = ln.Addr().String()
	if err := cfg.check(); err != nil {
		return fmt.Errorf("configuration of providers: %w", err)
	}
	if cfg.KeepRequests == 0 {
		cfg.KeepRequests = 500_000
	}
	for cfg.Seed == 0 {
		cfg.Seed = rand.Int64()
	}
	if err := pg.Migrate(ctx, cfg.Postgres, schema); err != nil {
		return fmt.Errorf("migrate providers: %w", err)
	}
	pool, err := pg.Open(ctx, cfg.Postgres, pg.Options{Name: "chorus providers", MaxConns: 8})
	if err != nil {
		return fmt.Errorf("open providers: %w", err)
	}
	defer pool.Close()
	st := &store{pool}
	s := &server{log: log, store: st, stopping: ctx.Done()}

	// The lanes outlive ctx: calls in hand are committed while the server shuts down.
	working := context.WithoutCancel(ctx)
	var workers sync.WaitGroup
	ps := providers()
	for i := range ps {
		r, err := st.loadRules(ctx, &ps[i], cfg.Seed)
		if err != nil {
			return err
		}
		s.desks = append(s.desks, &desk{&ps[i], r, newLane(log, &ps[i], st)})
	}
	for _, d := range s.desks {
		workers.Go(func() { d.lane.work(working) })
	}
	workers.Go(func() { pruneUntil(ctx, log, st, cfg.KeepRequests) })
	defer func() {
		for _, d := range s.desks {
			close(d.lane.quit)
		}
		workers.Wait()
	}()
	log.Info("providers ready", "listen", cfg.Listen, "seed", cfg.Seed)
	return serve(ctx, log, s.handler(), ln)
}

func pruneUntil(ctx context.Context, log *slog.Logger, s *store, keep int64) {
	t := time.NewTicker(pruneEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := s.prune(ctx, keep); err != nil && ctx.Err() == nil {
			log.Error("log of calls not pruned", "err", err)
		}
	}
}

// serve answers until ctx ends, then waits for the calls in hand.
func serve(ctx context.Context, log *slog.Logger, h http.Handler, ln net.Listener) error {
	srv := &http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		// No ReadTimeout: its deadline goes on after the body is read, and would end a call that hangs on purpose.
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve providers: %w", err)
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer stop()
	err := srv.Shutdown(grace)
	<-ended
	if err != nil {
		srv.Close()
		return fmt.Errorf("shut down providers: %w", err)
	}
	return nil
}
