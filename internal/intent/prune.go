package intent

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
)

// Prune deletes calls that were planned and have ended longer ago than age, by the database's clock, with their bodies and attempts, batch
// calls a transaction, and returns how many. Stuck ones are kept: somebody still has to look at them. Only the owner's role may.
//
// It disturbs nobody: what others have locked it passes over, and after each batch it rests for as long as that took.
func Prune(ctx context.Context, db pg.Beginner, age time.Duration, batch int) (total int, err error) {
	for {
		var n int64
		began := time.Now()
		err := pg.InTx(ctx, db, "prune calls", func(tx pgx.Tx) error {
			// A statement for all tables would not let the planner use their keys.
			rows, err := tx.Query(ctx, `
				DELETE FROM calls
				 WHERE id IN (SELECT id FROM calls
				               WHERE created_at < now() - $1::interval AND ended_at < now() - $1::interval AND outcome IS DISTINCT FROM 'STUCK'
				               LIMIT $2 FOR UPDATE SKIP LOCKED)
				RETURNING id`, age, batch)
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				return err
			}
			n = int64(len(ids))
			for _, sql := range []string{
				"DELETE FROM call_bodies WHERE call_id = ANY($1)",
				"DELETE FROM call_sent WHERE call_id = ANY($1)",
				"DELETE FROM call_attempts WHERE call_id = ANY($1)",
			} {
				if _, err := tx.Exec(ctx, sql, ids); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("after %d calls: %w", total, err)
		}
		total += int(n)
		if n < int64(batch) {
			return total, nil
		}
		if pause(ctx, time.Since(began)); ctx.Err() != nil {
			return total, fmt.Errorf("after %d calls: %w", total, context.Cause(ctx))
		}
	}
}
