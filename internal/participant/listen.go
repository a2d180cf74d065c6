package participant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/inbox"
	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/event"
)

// Topics lists the topics that p reads.
func Topics(p event.Participant) []string {
	var topics []string
	for _, owner := range choreography.Sources(p) {
		topics = append(topics, owner.Topic())
	}
	return topics
}

// blip is how long a partition may be in trouble before the process says that it is not ready: a conflict between two
// transactions, or a partition on its way from one replica to the next, is over sooner.
const blip = 3 * time.Second

// Ready says why a consumer cannot do its work, every reason there is, or nil.
func Ready(ctx context.Context, db *pgxpool.Pool, facts *inbox.Consumer) error {
	var reasons []error
	if err := db.Ping(ctx); err != nil {
		reasons = append(reasons, fmt.Errorf("database: %w", err))
	}
	if !facts.Joined() {
		reasons = append(reasons, errors.New("broker: not yet a member of its consumer group"))
	}
	for _, p := range facts.Status() {
		switch {
		case p.State == broker.Running || p.State == broker.Draining || time.Since(p.Since) < blip:
		case p.Err != "":
			reasons = append(reasons, fmt.Errorf("%s/%d %s: %s", p.Topic, p.Partition, p.State, p.Err))
		default:
			reasons = append(reasons, fmt.Errorf("%s/%d %s", p.Topic, p.Partition, p.State))
		}
	}
	return errors.Join(reasons...)
}

// How the inbox is pruned: soon after the start, because a process may not live for an hour, then every hour or so; some rows
// a transaction, so that no consumer waits for it (CON-15). Replicas do not meet at it, and if they do, skip each other's rows.
const (
	pruneSoon  = 5 * time.Minute
	pruneEvery = time.Hour
	pruneBatch = 500
)

// defaultHorizon is what package inbox takes for 0.
const defaultHorizon = 30 * 24 * time.Hour

// skew is how far the clocks of machines may differ before a fact is forgotten that another would still take for new.
const skew = time.Hour

// Housekeep forgets, until ctx ends, what the inbox of a consumer holds from before its horizon: facts so old are set aside unread, so
// they need not be recognised. It is the service's own role that does it. The records of calls are not touched: only the
// owner's role may delete those (intent.Prune). At the start, and each time, it warns of open dead letters from before the horizon.
// A horizon of 0 is the inbox's own, of 30 days.
func Housekeep(ctx context.Context, log *slog.Logger, db inbox.DB, consumer string, horizon time.Duration) error {
	usual(&horizon, defaultHorizon)
	wait := rand.N(pruneSoon)
	for {
		switch letters, beyond, err := inbox.Outlived(ctx, db, consumer, horizon); {
		case err != nil && ctx.Err() == nil:
			log.Warn("dead letters were not counted", "err", err)
		case letters > 0:
			log.Warn("open dead letters are older than the inbox remembers: redrive or discard them", "letters", letters, "horizon", horizon, "beyond", beyond.Round(time.Second))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		wait = pruneEvery - pruneEvery/10 + rand.N(pruneEvery/5)
		switch deleted, err := prune(ctx, db, consumer, horizon); {
		case err != nil && ctx.Err() == nil:
			log.Warn("the inbox was not pruned", "err", err)
		case deleted > 0:
			log.Info("inbox pruned", "rows", deleted)
		}
	}
}

func prune(ctx context.Context, db inbox.DB, consumer string, horizon time.Duration) (int64, error) {
	return inbox.Prune(ctx, db, consumer, horizon+skew, pruneBatch)
}
