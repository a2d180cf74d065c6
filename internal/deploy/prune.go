package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/intent"
)

// KeepCalls is how long the records of ended calls are kept unless somebody says otherwise. It should not be shorter than the time within which an order may
// still be cancelled or asked about.
const KeepCalls = 90 * 24 * time.Hour

// pruneBatch is how many calls go in one transaction: some ten milliseconds.
const pruneBatch = 500

// Prune deletes, as the owner of each database, calls that ended longer ago than keep, with their attempts, which the services themselves can only add to (D7). Inboxes
// and closed dead letters are pruned by the services, hourly. It goes in bounded batches with rests between them, passes over what is locked, and may be killed at any moment.
// A database that cannot be reached does not keep the others from it.
func (s Server) Prune(ctx context.Context, log *slog.Logger, keep time.Duration) error {
	if keep <= 0 {
		return fmt.Errorf("prune calls: %s is no time to keep them", keep)
	}
	var failed error
	for _, db := range Databases() {
		if !db.Calls {
			continue
		}
		n, err := s.pruneCalls(ctx, db.Name, keep)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			log.Warn("calls are not pruned", "database", db.Name, "after", n, "err", err)
			failed = fmt.Errorf("prune calls of %s: %w", db.Name, err)
			continue
		}
		log.Info("calls are pruned", "database", db.Name, "calls", n)
	}
	return failed
}

func (s Server) pruneCalls(ctx context.Context, database string, keep time.Duration) (int, error) {
	dsn, err := s.Owner(database)
	if err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return intent.Prune(ctx, conn, keep, pruneBatch)
}

// pruneAgain is how soon a round that failed is tried again.
const pruneAgain = time.Minute

// PruneEvery prunes again and again until ctx ends, and tells how each round went. One that failed is logged, and tried again soon.
func (s Server) PruneEvery(ctx context.Context, log *slog.Logger, keep, every time.Duration, tell func(error)) {
	for {
		err := s.Prune(ctx, log, keep)
		tell(err)
		wait := every
		if err != nil {
			wait = min(every, pruneAgain)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}
