package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// Many letters are redriven in any order, by several at once, without a fact overtaking an earlier one of its key.
func TestRedriveInOrder(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	var batch []broker.Record
	for i, key := range []string{"1", "2", "1"} {
		r := record(int64(i), fmt.Sprintf("f%d", i))
		r.Key = []byte(key)
		batch = append(batch, r)
	}
	letters := b.bury("c", batch)
	inOrder := RedriveOptions{InOrder: true}
	if _, err := Redrive(t.Context(), b.conn, letters[2].ID, inOrder, apply("c")); !errors.Is(err, ErrHeld) {
		t.Errorf("redrive of the second fact of a key: %v", err)
	}
	for _, i := range []int{1, 0, 2} {
		if _, err := Redrive(t.Context(), b.conn, letters[i].ID, inOrder, apply("c")); err != nil {
			t.Errorf("redrive of f%d: %v", i, err)
		}
	}
	b.checkOnce("c", "f1", "f0", "f2")
}

// A preview says what a redrive would come to, and leaves no trace: not an effect, not a verdict, not an attempt.
func TestPreviewChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	nobody := record(1, "x")
	nobody.Headers = nil
	letters := b.bury("c", []broker.Record{record(0, "a"), nobody})
	preview := RedriveOptions{Preview: true, Changed: func(context.Context, pgx.Tx, DeadLetter, DeadLetter) error {
		t.Error("a preview was reported as a change")
		return nil
	}}
	if v, err := Redrive(t.Context(), b.conn, letters[0].ID, preview, apply("c")); err != nil || v.Outcome != Applied {
		t.Errorf("preview of a fact that would be applied: %+v %v", v, err)
	}
	fails := func(context.Context, pgx.Tx, []Fact) ([]Verdict, error) {
		return nil, Permanent(errors.New("not yet"), "closed")
	}
	if v, err := Redrive(t.Context(), b.conn, letters[0].ID, preview, fails); err != nil || v.Outcome != Dead || v.Reason != "closed" {
		t.Errorf("preview of a fact that would stay dead: %+v %v", v, err)
	}
	if v, err := Redrive(t.Context(), b.conn, letters[1].ID, preview, apply("c")); err != nil || v.Outcome != Dead || v.Reason != ReasonNoID {
		t.Errorf("preview of a record without id: %+v %v", v, err)
	}
	b.checkOnce("c")
	for _, before := range letters {
		after, err := Letter(t.Context(), b.conn, before.ID)
		if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("letter %+v, %v, was %+v", after, err, before)
		}
	}
}

// Who changes a letter is told in the same transaction what it was and is; when the telling fails, nothing has changed.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	letters := b.bury("c", records(0, "a", "b"))
	var said []string
	say := func(_ context.Context, _ pgx.Tx, before, after DeadLetter) error {
		said = append(said, fmt.Sprintf("%d: %s %d to %s %d", before.Record.Offset, before.State, before.Attempts, after.State, after.Attempts))
		return nil
	}
	refuse := func(context.Context, pgx.Tx, DeadLetter, DeadLetter) error {
		return errors.New("no room in the record")
	}
	if _, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{Changed: refuse}, apply("c")); err == nil {
		t.Error("redriven without a record")
	}
	if err := Discard(t.Context(), b.conn, letters[1].ID, "tested", refuse); err == nil {
		t.Error("discarded without a record")
	}
	b.checkOnce("c")
	if n := one[int](b, `SELECT count(*) FROM dead_letters WHERE state = 'open'`); n != 2 {
		t.Fatalf("%d letters are open, want both", n)
	}
	_, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{Changed: say}, func(context.Context, pgx.Tx, []Fact) ([]Verdict, error) {
		return nil, Permanent(errors.New("not yet"), "closed")
	})
	if err == nil {
		t.Error("redrive of a failing fact succeeded")
	}
	if _, err := Redrive(t.Context(), b.conn, letters[0].ID, RedriveOptions{Changed: say}, apply("c")); err != nil {
		t.Error(err)
	}
	if err := Discard(t.Context(), b.conn, letters[1].ID, "tested", say); err != nil {
		t.Error(err)
	}
	want := "[0: open 1 to open 2 0: open 2 to redriven 3 1: open 1 to discarded 1]"
	if got := fmt.Sprint(said); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// Letters are listed by consumer, state, type, reason, key and time, page by page.
func TestLetterFilter(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	batch := records(0, "a", "b", "c", "d")
	for i := range batch {
		batch[i].Key = []byte(fmt.Sprint(i % 2))
		batch[i].Headers[1].Value = []byte([]string{"Placed", "Paid"}[i/2])
	}
	letters := b.bury("c", batch)
	b.bury("other", batch)
	if _, err := b.conn.Exec(t.Context(), `
		UPDATE dead_letters SET reason = 'odd' WHERE "offset" = 3;
		UPDATE dead_letters SET first_failed_at = now() - interval '1 day' WHERE "offset" = 0`); err != nil {
		t.Fatal(err)
	}
	if err := Discard(t.Context(), b.conn, letters[1].ID, "tested", nil); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		filter LetterFilter
		want   string
	}{
		{LetterFilter{}, "[0 1 2 3]"},
		{LetterFilter{State: Open}, "[0 2 3]"},
		{LetterFilter{Type: "Placed"}, "[0 1]"},
		{LetterFilter{Reason: "odd"}, "[3]"},
		{LetterFilter{Key: "1", State: Open}, "[3]"},
		{LetterFilter{Since: hour}, "[1 2 3]"},
		{LetterFilter{Before: hour}, "[0]"},
		{LetterFilter{After: letters[1].ID, Type: "Paid"}, "[2 3]"},
	} {
		c.filter.Consumer = "c"
		found, err := DeadLetters(t.Context(), b.conn, c.filter, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, l := range found {
			got = append(got, l.Record.Offset)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v chooses %v, want %s", c.filter, got, c.want)
		}
	}
}

// Dead letters that outlive the horizon are counted, with how far the oldest is beyond it; those that somebody has closed are not.
func TestOutlived(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.bury("c", records(0, "a", "b", "d", "e"))
	for offset, days := range []int{40, 33, 29, 50} {
		if _, err := b.conn.Exec(t.Context(), `UPDATE dead_letters SET occurred_at = now() - make_interval(days => $1),
			state = CASE $2::bigint WHEN 3 THEN 'discarded' ELSE 'open' END, closed_at = CASE $2::bigint WHEN 3 THEN now() END WHERE "offset" = $2`, days, offset); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	letters, beyond, err := Outlived(t.Context(), b.conn, "c", 30*day)
	if err != nil || letters != 2 || beyond < 10*day || beyond > 11*day {
		t.Errorf("%d letters, the oldest %s beyond the horizon, %v; want 2 and 10 days", letters, beyond, err)
	}
	if letters, beyond, err = Outlived(t.Context(), b.conn, "other", 30*day); err != nil || letters != 0 || beyond != 0 {
		t.Errorf("of another consumer: %d letters, %s, %v", letters, beyond, err)
	}
}
