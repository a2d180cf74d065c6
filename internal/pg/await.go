package pg

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Await is Open for a process that may start before its database: it tries until
// the database answers or ctx ends. It also waits for a database, role or right
// to connect that is not there yet, because a deploy step makes them; PostgreSQL
// does not tell a missing role from a wrong password, so that is waited for,
// too. Each new kind of obstacle is logged once. Any other error is returned.
func Await(ctx context.Context, log *slog.Logger, dsn string, opts Options) (*pgxpool.Pool, error) {
	told := "nothing"
	for {
		pool, err := Open(ctx, dsn, opts)
		if err == nil {
			return pool, nil
		}
		if !Transient(err) && !unprovisioned(err) {
			return nil, err
		}
		if code := Code(err); code != told {
			log.Warn("waiting for the database", "err", err)
			told = code
		}
		timer := time.NewTimer(250 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for the database: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// unprovisioned reports that the database, the role, its password or its right
// to connect is missing.
func unprovisioned(err error) bool {
	switch Code(err) {
	case "3D000", "28000", "28P01", "42501":
		return true
	}
	return false
}
