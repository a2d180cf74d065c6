package intent

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ProviderBacklog is the work that waits for one provider.
type ProviderBacklog struct {
	Provider  string        `json:"provider"`
	Open      int           `json:"open"`      // calls that have not ended
	Due       int           `json:"due"`       // of these, those that a worker could take now
	OldestDue time.Duration `json:"oldestDue"` // how long the first of these has been due, ns
	Problems  int           `json:"problems"`  // calls that a person has to look at
	Paused    time.Duration `json:"paused"`    // for how long the provider still wants to be left alone, ns
}

// Backlog counts the calls under way, by provider. It reads only those.
func Backlog(ctx context.Context, db Querier) ([]ProviderBacklog, error) {
	rows, err := db.Query(ctx, `
		SELECT c.provider, count(*), count(*) FILTER (WHERE due_at <= now()),
		       GREATEST(0, EXTRACT(epoch FROM now() - min(due_at)))::float8,
		       count(problem),
		       GREATEST(0, COALESCE(EXTRACT(epoch FROM max(p.until) - now()), 0))::float8
		  FROM calls AS c LEFT JOIN call_pauses AS p ON p.provider = c.provider
		 WHERE ended_at IS NULL
		 GROUP BY c.provider ORDER BY c.provider`)
	if err != nil {
		return nil, fmt.Errorf("count open calls: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ProviderBacklog, err error) {
		var oldest, paused float64
		err = row.Scan(&b.Provider, &b.Open, &b.Due, &oldest, &b.Problems, &paused)
		b.OldestDue, b.Paused = seconds(oldest), seconds(paused)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("count open calls: %w", err)
	}
	return all, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sweepEvery is how often calls are looked for that no lane would ever claim.
const sweepEvery = 10 * time.Second

// sweep marks calls to providers that are not configured, so that they are seen (G10). They go on when a
// configuration names the provider.
func (w *Workers) sweep(ctx context.Context) {
	sweeps := &trouble{log: w.log, what: "looking for calls without a provider"}
	for ctx.Err() == nil {
		rows, err := w.pool.Query(ctx, `
			UPDATE calls SET problem = 'unknown provider "' || provider || '"'
			 WHERE ended_at IS NULL AND provider <> ALL($1) AND problem IS NULL
			RETURNING provider, key`, w.providers.Names())
		var provider, key string
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&provider, &key}, func() error {
				w.log.Error("a call cannot be carried out: its provider is not configured", "provider", provider, "key", key)
				return nil
			})
		}
		if err != nil {
			sweeps.rest(ctx, err)
			continue
		}
		sweeps.over()
		pause(ctx, sweepEvery)
	}
}
