package pg_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func TestInTxCommitsOrRollsBack(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	exec(t, dsn, "CREATE TABLE n (v int PRIMARY KEY)")
	pool := open(t, dsn, pg.Options{MaxConns: 1})
	insert := func(v int, then func() error) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO n (v) VALUES ($1)", v); err != nil {
				return err
			}
			return then()
		}
	}
	if err := pg.InTx(t.Context(), pool, "insert one", insert(1, func() error { return nil })); err != nil {
		t.Fatal(err)
	}
	sentinel := errors.New("no")
	err := pg.InTx(t.Context(), pool, "insert two", insert(2, func() error { return sentinel }))
	if !errors.Is(err, sentinel) || !strings.HasPrefix(err.Error(), "insert two: ") {
		t.Errorf("the error is %v, want %q under the name of the work", err, sentinel)
	}
	err = pg.InTx(t.Context(), pool, "insert one again", insert(1, func() error { return nil }))
	if pg.Code(err) != "23505" {
		t.Errorf("a double key gave %v, want SQLSTATE 23505", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = pg.InTx(ctx, pool, "insert three", insert(3, func() error { cancel(); return ctx.Err() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context gave %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass through")
			}
		}()
		_ = pg.InTx(t.Context(), pool, "insert four", insert(4, func() error { panic("bug") }))
	}()
	// The pool has one connection: a transaction left open would block this.
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []int
	if err := pool.QueryRow(ctx, "SELECT array_agg(v) FROM n").Scan(&all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0] != 1 {
		t.Errorf("the table holds %v, want only the committed 1", all)
	}
}

// Two transactions lock two rows in opposite order: one is the victim of the
// deadlock and must come through in a second run.
func TestInTxRunsAgainAfterDeadlock(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	exec(t, dsn, "CREATE TABLE n (k int PRIMARY KEY, v int NOT NULL)", "INSERT INTO n VALUES (1, 0), (2, 0)")
	pool := open(t, dsn, pg.Options{})
	var both, done sync.WaitGroup
	both.Add(2)
	errs := make([]error, 2)
	runs := make([]int, 2)
	for i, order := range [][]int{{1, 2}, {2, 1}} {
		done.Go(func() {
			errs[i] = pg.InTx(t.Context(), pool, "lock both rows", func(tx pgx.Tx) error {
				runs[i]++
				for step, key := range order {
					if _, err := tx.Exec(t.Context(), "UPDATE n SET v = v + 1 WHERE k = $1", key); err != nil {
						return err
					}
					if step == 0 && runs[i] == 1 {
						both.Done()
						both.Wait()
					}
				}
				return nil
			})
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if runs[0]+runs[1] < 3 {
		t.Errorf("the transactions ran %v times: there was no deadlock", runs)
	}
	if sum := value[int](t, dsn, "SELECT sum(v)::int FROM n"); sum != 4 {
		t.Errorf("the rows sum to %d, want 4: each transaction once in effect", sum)
	}
}

func TestInTxGivesUp(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	pool := open(t, dsn, pg.Options{})
	runs := 0
	err := pg.InTx(t.Context(), pool, "conflict", func(tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(t.Context(), "DO $$ BEGIN RAISE 'always' USING ERRCODE = '40001'; END $$")
		return err
	})
	if pg.Code(err) != "40001" || runs != 8 {
		t.Errorf("after %d runs: %v; want SQLSTATE 40001 after 8", runs, err)
	}
}

// A migration under a running service changes what a prepared statement returns.
func TestInTxSurvivesStalePlan(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	exec(t, dsn, "CREATE TABLE n (v int NOT NULL)", "INSERT INTO n VALUES (7)")
	pool := open(t, dsn, pg.Options{MaxConns: 1})
	runs := 0
	read := func() (v int64, err error) {
		err = pg.InTx(t.Context(), pool, "read", func(tx pgx.Tx) error {
			runs++
			return tx.QueryRow(t.Context(), "SELECT v FROM n WHERE v > $1", 0).Scan(&v)
		})
		return v, err
	}
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	exec(t, dsn, "ALTER TABLE n ALTER COLUMN v TYPE bigint")
	if v, err := read(); err != nil || v != 7 {
		t.Errorf("after the migration: %d, %v; want 7", v, err)
	}
	if runs != 3 {
		t.Errorf("%d runs, want 3: the statement did not become stale, so nothing was tested", runs)
	}
}
