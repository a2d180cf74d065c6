package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Run is the server as a process of its own: it starts PostgreSQL and blocks
// until ctx ends, then stops it and returns nil, or until PostgreSQL dies, then
// it returns how. log replaces cfg.Logger. A supervisor runs it as a child and starts it again.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	began := time.Now()
	cfg.Logger = log
	s, err := Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	log.Info("postgres ready", "pid", s.PID(), "port", s.cfg.Port, "dir", s.cfg.Dir, "bin", s.bin, "took", time.Since(began).Round(time.Millisecond))
	select {
	case <-s.Done():
		err := errors.Join(s.Err(), s.Kill()) // Kill gives the folder free
		if err == nil {
			err = errors.New("somebody stopped it")
		}
		return fmt.Errorf("PostgreSQL in %s ended: %w", s.cfg.Dir, err)
	case <-ctx.Done():
		if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		log.Info("postgres stopped", "dir", s.cfg.Dir)
		return nil
	}
}
