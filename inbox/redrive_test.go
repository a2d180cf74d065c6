package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// bury has a consumer set these facts aside and returns their letters.
func (b *base) bury(consumer string, batch []broker.Record) []DeadLetter {
	b.t.Helper()
	l, err := newConsumer(b.t, b.config(consumer), func(context.Context, pgx.Tx, []Fact) ([]Verdict, error) {
		return nil, Permanent(errors.New("not today"), "closed")
	}).claim(b.t.Context(), partition(100))
	if err != nil {
		b.t.Fatal(err)
	}
	defer l.Close()
	if err := l.Handle(b.t.Context(), batch); err != nil {
		b.t.Fatal(err)
	}
	letters, err := DeadLetters(b.t.Context(), b.conn, LetterFilter{Consumer: consumer, State: Open}, 1000)
	if err != nil || len(letters) != len(batch) {
		b.t.Fatalf("%d dead letters, want %d: %v", len(letters), len(batch), err)
	}
	return letters
}

// connect opens another connection.
func (b *base) connect() *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TestRedriveOnce redrives one letter from several sides at once, and again, and has the record delivered again: one effect, the rest are told or counted.
func TestRedriveOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	batch := records(0, "a")
	letter := b.bury("c", batch)[0]
	var running sync.WaitGroup
	var done, closed atomic.Int32
	for range 4 {
		conn := b.connect()
		running.Go(func() {
			switch v, err := Redrive(t.Context(), conn, letter.ID, RedriveOptions{}, apply("c")); {
			case err == nil && v.Outcome == Applied:
				done.Add(1)
			case errors.Is(err, ErrClosed), errors.Is(err, ErrHandled):
				closed.Add(1)
			default:
				t.Errorf("redrive: %+v, %v", v, err)
			}
		})
	}
	running.Wait()
	if done.Load() != 1 || closed.Load() != 3 {
		t.Errorf("%d redrives done and %d refused, want 1 and 3", done.Load(), closed.Load())
	}
	if _, err := Redrive(t.Context(), b.conn, letter.ID, RedriveOptions{}, apply("c")); !errors.Is(err, ErrClosed) {
		t.Errorf("redrive again: %v", err)
	}
	if _, err := Rewind(t.Context(), b.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: topicID}); err != nil {
		t.Fatal(err)
	}
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(100))
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a")
	if got := one[string](b, `SELECT verdict || ' ' || duplicates FROM inbox`); got != "applied 1" {
		t.Errorf("inbox has %q, want it applied, with one duplicate", got)
	}
	after, err := Letter(t.Context(), b.conn, letter.ID)
	if err != nil || after.State != Redriven || after.ClosedAt.IsZero() || !after.FirstFailedAt.Equal(letter.FirstFailedAt) {
		t.Errorf("letter %+v, %v", after, err)
	}
}

// TestRedriveFailsAgain is CON-07: twenty failed redrives with a huge error leave one letter of the same size, with its first failure's time; then it can still be redriven.
func TestRedriveFailsAgain(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	letter := b.bury("c", records(0, "a"))[0]
	huge := strings.Repeat("é\x00", 50_000)
	for range 20 {
		_, err := Redrive(t.Context(), b.conn, letter.ID, RedriveOptions{}, func(context.Context, pgx.Tx, []Fact) ([]Verdict, error) {
			return nil, Permanent(errors.New(huge), "huge")
		})
		if err == nil {
			t.Fatal("redrive of a failing fact succeeded")
		}
	}
	after, err := Letter(t.Context(), b.conn, letter.ID)
	if err != nil {
		t.Fatal(err)
	}
	if after.Attempts != letter.Attempts+20 || after.Reason != "huge" || len(after.Detail) > 4000 || len(after.Record.Headers) != 2 ||
		!after.FirstFailedAt.Equal(letter.FirstFailedAt) || !after.LastFailedAt.After(letter.LastFailedAt) || after.State != Open {
		t.Errorf("after 20 redrives: %d attempts, reason %s, %d bytes of detail, %d headers, failed %s to %s, %s", after.Attempts, after.Reason, len(after.Detail), len(after.Record.Headers), after.FirstFailedAt, after.LastFailedAt, after.State)
	}
	b.checkOnce("c")
	if v, err := Redrive(t.Context(), b.conn, letter.ID, RedriveOptions{}, apply("c")); err != nil || v.Outcome != Applied {
		t.Errorf("redrive: %+v, %v", v, err)
	}
	b.checkOnce("c", "a")
}

// TestRedriveOfTheOldAndTheUnidentified: what the inbox may have forgotten needs force (E.2 17); what has no id cannot be handled, and can be discarded.
func TestRedriveOfTheOldAndTheUnidentified(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	nobody := record(1, "x")
	nobody.Headers = nil
	letters := b.bury("c", []broker.Record{record(0, "old", Header{Key: "occurredAt", Value: []byte("2001-01-01T00:00:00Z")}), nobody})
	if letters[0].Reason != ReasonTooOld {
		letters[0], letters[1] = letters[1], letters[0]
	}
	if _, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{}, apply("c")); !errors.Is(err, ErrTooOld) {
		t.Errorf("redrive of an old fact: %v", err)
	}
	if _, err := Redrive(t.Context(), b.conn, letters[1].ID, RedriveOptions{Force: true}, apply("c")); err == nil {
		t.Error("redrive of a record without id succeeded")
	}
	b.checkOnce("c")
	if v, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{Force: true}, apply("c")); err != nil || v.Outcome != Applied {
		t.Errorf("forced redrive: %+v, %v", v, err)
	}
	b.checkOnce("c", "old")
	if err := Discard(t.Context(), b.conn, letters[1].ID, "", nil); err == nil {
		t.Error("discarded without a reason")
	}
	if err := Discard(t.Context(), b.conn, letters[1].ID, "test data, says Kim", nil); err != nil {
		t.Error(err)
	}
	if err := Discard(t.Context(), b.conn, letters[1].ID, "again", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("discard twice: %v", err)
	}
	if _, err := Letter(t.Context(), b.conn, 1<<40); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("letter that is not there: %v", err)
	}
}

// TestPrune is CON-15: expired rows go in bounded batches while facts flow and another pruner runs; what a redelivery or a redrive still needs stays.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	letters := b.bury("c", records(0, "kept", "discarded"))
	if err := Discard(t.Context(), b.conn, letters[1].ID, "test", nil); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE inbox SET handled_at = now() - interval '40 days', occurred_at = now() - interval '40 days'`,
		`UPDATE dead_letters SET closed_at = now() - interval '40 days' WHERE state = 'discarded'`,
		`INSERT INTO inbox (consumer, event_id, occurred_at, handled_at) SELECT 'c', gen_random_uuid(), now() - interval '40 days', now() - interval '40 days' FROM generate_series(1, 20000)`,
		`INSERT INTO inbox (consumer, event_id, occurred_at, handled_at) VALUES ('c', gen_random_uuid(), now() + interval '1 day', now() - interval '40 days'), ('other', gen_random_uuid(), now() - interval '40 days', now() - interval '40 days')`,
	} {
		if _, err := b.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var flowing, pruning sync.WaitGroup
	var handled []string
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(1<<40))
	flowing.Go(func() {
		for n := 2; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("f%d", n)
			if err := l.Handle(t.Context(), records(int64(n), name)); err != nil {
				t.Error(err)
				return
			}
			handled = append(handled, name)
		}
	})
	var deleted atomic.Int64
	for range 2 {
		conn := b.connect()
		pruning.Go(func() {
			n, err := Prune(t.Context(), conn, "c", 30*24*time.Hour, 500)
			if err != nil {
				t.Error(err)
			}
			deleted.Add(n)
		})
	}
	pruning.Wait()
	close(stop)
	flowing.Wait()
	if deleted.Load() != 20_000+1+1 { // the expired, the discarded fact's row, and its letter
		t.Errorf("%d rows deleted", deleted.Load())
	}
	if len(handled) == 0 {
		t.Error("no fact was handled while rows were deleted")
	}
	b.checkOnce("c", handled...)
	if n := one[int](b, `SELECT count(*) FROM inbox WHERE handled_at < now() - interval '30 days'`); n != 3 {
		t.Errorf("%d old rows left, want those of the open letter, of the clock that is ahead and of the other consumer", n)
	}
	if v, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{}, apply("c")); err != nil || v.Outcome != Applied {
		t.Errorf("redrive after pruning: %+v, %v", v, err)
	}
}

// TestInsertForOtherInputs uses the door's first step for a request: seen twice, new once.
func TestInsertForOtherInputs(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	e := Entry{ID: eventID("request"), OccurredAt: time.Now()}
	for i, want := range [][]bool{{true, false}, {false, false}} {
		err := pgx.BeginFunc(t.Context(), b.conn, func(tx pgx.Tx) error {
			fresh, err := Insert(t.Context(), tx, "c", e, e)
			if err != nil {
				return err
			}
			if fmt.Sprint(fresh) != fmt.Sprint(want) {
				t.Errorf("call %d: fresh %v, want %v", i, fresh, want)
			}
			if fresh[0] {
				return SetVerdicts(t.Context(), tx, "c", [][16]byte{e.ID}, []Verdict{{Outcome: Ignored, Why: "because"}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := one[string](b, `SELECT verdict || ' ' || why || ' ' || duplicates || ' ' || (topic IS NULL) FROM inbox`); got != "ignored because 3 true" {
		t.Errorf("inbox has %q", got)
	}
	err := pgx.BeginFunc(t.Context(), b.conn, func(tx pgx.Tx) error {
		_, err := Insert(t.Context(), tx, "c", Entry{})
		return err
	})
	if err == nil {
		t.Error("an input without id was let in")
	}
}
