package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
)

// TestFrozenOwnerHoldsNoLocks has a second owner claim while the first sits in its transaction (G4, zombie). The second goes on at once with the same
// facts; the first, when it wakes, commits nothing and learns that it is fenced.
func TestFrozenOwnerHoldsNoLocks(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	frozen, thaw := make(chan struct{}), make(chan struct{})
	first := mustClaim(t, newConsumer(t, b.config("c"), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		verdicts, err := apply("c")(ctx, tx, facts)
		close(frozen)
		<-thaw
		return verdicts, err
	}), partition(3))
	ended := make(chan error, 1)
	go func() { ended <- first.Handle(t.Context(), records(0, "a", "b", "c")) }()
	within(t, "the first owner to sit in its transaction", frozen)

	second := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(3))
	if err := second.Handle(t.Context(), records(second.Next(), "a", "b", "c")); err != nil {
		t.Fatalf("the second owner: %v", err)
	}
	b.checkOnce("c", "a", "b", "c")
	close(thaw)
	if err := within(t, "the first owner to end", ended); !errors.Is(err, ErrFenced) {
		t.Errorf("the first owner ended with %v, want ErrFenced", err)
	}
	b.checkOnce("c", "a", "b", "c")
	if n := one[int](b, `SELECT sum(duplicates) FROM inbox`); n != 0 {
		t.Errorf("%d duplicates counted: the first owner has left something behind", n)
	}
}

// TestDatabaseAway takes the database away in the middle and brings it back (E.1 1): the lane waits, says so, loses nothing; asked to drain, it gives up waiting.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	p, dsn := newProxy(t, b.dsn)
	cfg := b.config("c")
	cfg.Postgres = dsn
	l := mustClaim(t, newConsumer(t, cfg, apply("c")), partition(10))
	p.down(true)
	ended := make(chan error, 1)
	go func() { ended <- l.Handle(t.Context(), records(0, "a", "b")) }()
	eventually(t, "the lane to say that it waits", func() bool { since, err := l.Trouble(); return err != nil && !since.IsZero() })
	p.down(false)
	if err := within(t, "the batch", ended); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Trouble(); err != nil {
		t.Errorf("still in trouble: %v", err)
	}
	b.checkOnce("c", "a", "b")

	p.down(true)
	go func() { ended <- l.Handle(t.Context(), records(2, "c")) }()
	eventually(t, "the lane to say that it waits", func() bool { _, err := l.Trouble(); return err != nil })
	l.Drain()
	if err := within(t, "the lane to give up", ended); !errors.Is(err, errDraining) {
		t.Errorf("Handle: %v", err)
	}
	b.checkOnce("c", "a", "b")
}

// TestMigrationUnderWay is CON-20 and its neighbours: tables of the inbox and of the handler change, or are not there yet, while facts flow; none becomes a dead letter.
func TestMigrationUnderWay(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(100))
	var all []string
	feed := func() {
		batch := names(fmt.Sprintf("b%d-", len(all)), 3)
		if err := l.Handle(t.Context(), records(int64(len(all)), batch...)); err != nil {
			t.Fatal(err)
		}
		all = append(all, batch...)
	}
	feed()
	for _, ddl := range []string{
		`ALTER TABLE inbox ADD COLUMN note text`,
		`ALTER TABLE inbox ALTER COLUMN duplicates TYPE bigint`,
		`ALTER TABLE effects ALTER COLUMN key TYPE varchar(75)`,
		`ALTER TABLE partition_owner ALTER COLUMN owner TYPE varchar(100)`,
	} {
		if _, err := b.conn.Exec(t.Context(), ddl); err != nil {
			t.Fatal(err)
		}
		feed()
	}
	if _, err := b.conn.Exec(t.Context(), `ALTER TABLE effects RENAME TO effects_old`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); feed() }()
	eventually(t, "the lane to wait for the table", func() bool { _, err := l.Trouble(); return err != nil })
	if _, err := b.conn.Exec(t.Context(), `ALTER TABLE effects_old RENAME TO effects`); err != nil {
		t.Fatal(err)
	}
	within(t, "the batch", ended)
	b.checkOnce("c", all...)
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestHandlerAbusesTransaction checks that neither a handler that ends the transaction, nor one that leaves it in the failed state, nor one that leaves a result open, gets an
// effect without its books.
func TestHandlerAbusesTransaction(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for consumer, abuse := range map[string]func(context.Context, pgx.Tx) error{
		"commits":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"rollsBack": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"swallows":  func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, `SELECT 1/0`); return nil },
		"leaves": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 10)`)
			return err
		},
		"tooFew": nil,
	} {
		l := mustClaim(t, newConsumer(t, b.config(consumer), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
			verdicts, err := apply(consumer)(ctx, tx, facts)
			if err != nil || string(facts[0].Value) != "bad" {
				return verdicts, err
			}
			if abuse == nil {
				return verdicts[:0], nil
			}
			return verdicts, abuse(ctx, tx)
		}), partition(10))
		for i, name := range []string{"a", "bad", "b"} {
			if err := l.Handle(t.Context(), records(int64(i), name)); err != nil {
				t.Fatalf("%s: %v", consumer, err)
			}
		}
		b.checkOnce(consumer, "a", "b")
		if got := many[string](b, `SELECT reason FROM dead_letters WHERE consumer = $1`, consumer); len(got) != 1 {
			t.Errorf("%s: dead letters %v, want one", consumer, got)
		}
	}
}

// TestWaitForALockIsNobodysFault: a table that is locked for minutes, as by a migration, makes no dead letters. The wait for the lock must end before the statement does, because
// a statement that takes too long may be the fact's fault.
func TestWaitForALockIsNobodysFault(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	config, err := pgx.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(config)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var shorter bool
	if err := conn.QueryRow(t.Context(), `SELECT l.setting::int BETWEEN 1 AND s.setting::int - 1
		FROM pg_settings AS l, pg_settings AS s WHERE l.name = 'lock_timeout' AND s.name = 'statement_timeout'`).Scan(&shorter); err != nil || !shorter {
		t.Errorf("lock_timeout is not shorter than statement_timeout (%v)", err)
	}

	config.RuntimeParams["lock_timeout"] = "100ms"
	cfg := b.config("c")
	cfg.Connect = dial(config)
	l := mustClaim(t, newConsumer(t, cfg, apply("c")), partition(1))
	locker, err := b.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Exec(t.Context(), `LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Handle(t.Context(), records(0, "a")) }()
	eventually(t, "the lane to wait", func() bool { _, err := l.Trouble(); return pg.Code(err) == "55P03" })
	if err := locker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a")
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
