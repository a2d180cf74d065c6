package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// Beginner is a pool or a connection. A [pgx.Tx] fits too but must not be given:
// its savepoint cannot be run again after a serialization failure.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// attempts bounds the runs of one transaction. Conflicts on a few rows resolve
// in two or three; the rest is for connections that each hold a stale plan.
const attempts = 8

// InTx runs fn in a transaction and commits it. what names the work in errors,
// as in "reserve stock for order 8842".
//
// After a serialization failure, a deadlock or a plan made stale by a migration
// the transaction is run again, up to 8 times with a growing random pause; fn
// must therefore keep its effects inside tx, or set them anew in every run. A lost
// connection is not retried: the commit may have happened, and only the caller
// knows how to find out. When fn returns an error or panics, the transaction is
// rolled back.
func InTx(ctx context.Context, db Beginner, what string, fn func(tx pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := once(ctx, db, fn)
		if err == nil {
			return nil
		}
		if !rerun(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if attempt == attempts {
			return fmt.Errorf("%s, after %d attempts: %w", what, attempts, err)
		}
		if stop := pause(ctx, attempt); stop != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(stop, err))
		}
	}
}

func once(ctx context.Context, db Beginner, fn func(tx pgx.Tx) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committing := false
	// Also runs when fn panics or a test ends its goroutine in it.
	defer func() {
		if committing {
			return
		}
		// The caller's context may be what ended the work.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		// A failure closes the connection, which rolls back too.
		_ = tx.Rollback(ctx)
	}()
	if err := fn(tx); err != nil {
		return err
	}
	committing = true
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// pause waits 5 ms, doubled for every attempt up to 320 ms, of which a random part.
func pause(ctx context.Context, attempt int) error {
	limit := 5 * time.Millisecond << min(attempt-1, 6)
	timer := time.NewTimer(rand.N(limit) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
