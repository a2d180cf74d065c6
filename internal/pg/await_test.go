package pg_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// signal is a log that tells when it has been written to.
type signal struct {
	slog.Handler
	lines  atomic.Int32
	onLine chan struct{}
}

func newSignal() *signal {
	return &signal{Handler: slog.DiscardHandler, onLine: make(chan struct{}, 100)}
}

func (s *signal) Enabled(context.Context, slog.Level) bool { return true }

func (s *signal) Handle(context.Context, slog.Record) error {
	s.lines.Add(1)
	s.onLine <- struct{}{}
	return nil
}

// A service starts before the deploy step made its role and database, and while
// the server is down.
func TestAwaitWaitsUntilProvisioned(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	spec := pg.DatabaseSpec{
		Name:    "orders",
		Owner:   pg.Role{Name: "orders_owner", Password: "o"},
		Service: pg.Role{Name: "orders", Password: "s"},
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	log, opened := newSignal(), make(chan error, 1)
	go func() {
		pool, err := pg.Await(t.Context(), slog.New(log), as(t, s.DSN(), spec.Name, spec.Service), pg.Options{})
		if err == nil {
			pool.Close()
		}
		opened <- err
	}()
	<-log.onLine // no server
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-log.onLine // no such role, or starting up
	if err := pg.EnsureDatabase(t.Context(), s.DSN(), spec); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	log := newSignal()
	if _, err := pg.Await(t.Context(), slog.New(log), "postgres://h:port/x", pg.Options{}); err == nil || log.lines.Load() != 0 {
		t.Errorf("a malformed URL: %v after %d warnings; want an error at once", err, log.lines.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-log.onLine; cancel() }()
	missing, err := pg.WithDatabase(pgtest.Database(t), "no_such_database", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Await(ctx, slog.New(log), missing, pg.Options{}); !errors.Is(err, context.Canceled) || pg.Code(err) != "3D000" {
		t.Errorf("a cancelled wait: %v; want that it was cancelled, and what it waited for", err)
	}
}
