package quarantine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/cdc/quarantine"
	"chorus/cdc/wal"
	"chorus/internal/pgtest"
)

// bench is a database with the table, seen by one source after another start.
type bench struct {
	t  *testing.T
	db *pgx.Conn
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db, err := pgx.Connect(t.Context(), pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	b := &bench{t, db}
	b.must(quarantine.Make(t.Context(), db))
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

const source = "orders"

// row is number n of the transaction that committed at. Its value is its place.
func row(commit wal.LSN, n uint64, key, why string) quarantine.Row {
	r := quarantine.Row{Place: quarantine.Place{Commit: commit, Sequence: n}, Reason: why, Record: quarantine.Record{
		Topic: "orders.events", Partition: -1, Value: fmt.Appendf(nil, "%d/%d", commit, n), Timestamp: time.UnixMilli(1_700_000_000_000).UTC(),
		Headers: []quarantine.Header{{Key: "id", Value: []byte{0, 255}}, {Key: "none", Value: nil}, {Key: "empty", Value: []byte{}}},
	}}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

func (b *bench) keep(rows ...quarantine.Row) {
	b.t.Helper()
	b.must(quarantine.Keep(b.t.Context(), b.db, source, rows))
}

// next are the values of the rows of a key that come next, in order.
func (b *bench) next(key string) (values []string, ids []int64) {
	b.t.Helper()
	var k []byte
	if key != "" {
		k = []byte(key)
	}
	rows, err := quarantine.Next(b.t.Context(), b.db, source, "orders.events", k, 100)
	b.must(err)
	for _, r := range rows {
		values, ids = append(values, string(r.Value)), append(ids, r.ID)
	}
	return values, ids
}

func (b *bench) wantNext(key string, want ...string) (ids []int64) {
	b.t.Helper()
	values, ids := b.next(key)
	if diff := cmp.Diff(want, values); diff != "" {
		b.t.Errorf("next of key %q (-want +got):\n%s", key, diff)
	}
	return ids
}

// wantAsked compares the keys that the publisher is asked for.
func (b *bench) wantAsked(want ...string) {
	b.t.Helper()
	asked, err := quarantine.Asked(b.t.Context(), b.db, source)
	b.must(err)
	var keys []string
	for _, a := range asked {
		keys = append(keys, string(a.Key))
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		b.t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func (b *bench) wantHeld(want map[string]int) {
	b.t.Helper()
	known, err := quarantine.Read(b.t.Context(), b.db, source, 0)
	b.must(err)
	got := map[string]int{}
	for k, n := range known.Held {
		got[k.Key] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("held (-want +got):\n%s", diff)
	}
}

func (b *bench) retry(id int64, want int64) {
	b.t.Helper()
	if n, err := quarantine.Retry(b.t.Context(), b.db, source, id); err != nil || n != want {
		b.t.Errorf("retry of %d asks for %d rows, want %d (%v)", id, n, want, err)
	}
}

func (b *bench) skip(id int64) error {
	return quarantine.Skip(b.t.Context(), b.db, source, id, "ada", "a test order")
}

// A record comes back byte for byte: nil and empty values, headers in their order, its place and its time.
func TestARecordIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := []quarantine.Row{row(1<<40, 1, "a", "too large"), row(1<<40, 2, "a", ""), row(1<<40, 3, "a", "")}
	want[1].Value, want[2].Value = nil, []byte{}
	want[1].Headers, want[2].Partition = nil, 7
	b.keep(want...)
	_, ids := b.next("a")
	got, err := quarantine.Show(t.Context(), b.db, source, ids[1])
	b.must(err)
	for i := range got {
		if got[i].State != "kept" || got[i].Kept.IsZero() {
			t.Errorf("row %d is %s since %s", i, got[i].State, got[i].Kept)
		}
		got[i].ID, got[i].State, got[i].Kept, got[i].Timestamp = 0, "", time.Time{}, got[i].Timestamp.UTC()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A row that was there before a crash is kept once, and as it was; one that comes later and lies before others of its
// key in the log is published before them.
func TestRowsComeAgainAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep(row(20, 1, "a", "too large"), row(20, 2, "a", ""))
	b.keep(row(10, 1, "a", ""), row(20, 1, "a", "another reason"), row(20, 2, "a", ""), row(30, 1, "a", ""))
	b.wantNext("a", "10/1", "20/1", "20/2", "30/1")
	list, err := quarantine.List(t.Context(), b.db, source)
	b.must(err)
	if len(list) != 1 || list[0].Rows != 4 || list[0].Reason != "too large" || list[0].Bytes != 4*int64(len("a10/1")) {
		t.Errorf("list %+v", list)
	}

	known, err := quarantine.Read(t.Context(), b.db, source, 20)
	b.must(err)
	at := func(commit wal.LSN, n uint64) quarantine.Place { return quarantine.Place{Commit: commit, Sequence: n} }
	want := quarantine.Known{Held: map[quarantine.Held]int{{Topic: "orders.events", Key: "a"}: 4},
		Places: map[quarantine.Place]struct{}{at(20, 1): {}, at(20, 2): {}, at(30, 1): {}}, Ahead: 30}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("known from 20 on (-want +got):\n%s", diff)
	}
	// What is done with is still known by its place, and holds nothing.
	b.must(quarantine.Published(t.Context(), b.db, b.wantNext("a", "10/1", "20/1", "20/2", "30/1")))
	known, err = quarantine.Read(t.Context(), b.db, source, 20)
	b.must(err)
	want.Held, want.Ahead = map[quarantine.Held]int{}, 0
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("known after all is published (-want +got):\n%s", diff)
	}
	b.keep(row(20, 1, "a", "too large"))
	b.wantNext("a")
}

// A key is asked for as a whole, by any of its rows; another key, topic or source is not touched.
func TestRetryAsksForOneKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	elsewhere := row(50, 9, "a", "unknown topic")
	elsewhere.Topic = "billing.events"
	b.keep(row(10, 1, "a", "too large"), row(10, 2, "b", "too large"), row(20, 1, "a", ""), elsewhere)
	b.must(quarantine.Keep(t.Context(), b.db, "billing", []quarantine.Row{row(10, 1, "a", "too large")}))
	b.wantAsked()
	ids := b.wantNext("a", "10/1", "20/1")
	b.retry(ids[1], 2)
	b.wantAsked("a")
	b.retry(ids[1], 0) // it is asked for already
	b.retry(ids[1]+1000, 0)

	// A row that comes behind is published with them.
	b.keep(row(30, 1, "a", ""))
	b.wantNext("a", "10/1", "20/1", "30/1")
	c, err := quarantine.Counted(t.Context(), b.db, source)
	b.must(err)
	if c != (quarantine.Count{Open: 5, Asked: 2}) {
		t.Errorf("count %+v", c)
	}
	b.retry(0, 3) // all that is kept: b, the row behind a, and the other topic's
	b.wantAsked("a", "b", "a")
	if other, err := quarantine.Asked(t.Context(), b.db, "billing"); err != nil || len(other) != 0 {
		t.Errorf("another source is asked for %+v (%v)", other, err)
	}
}

// What is refused again stays with the new reason, and so do those behind it; they are not asked for any more.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep(row(10, 1, "a", "too large"), row(10, 2, "a", ""), row(10, 3, "a", ""))
	ids := b.wantNext("a", "10/1", "10/2", "10/3")
	b.retry(ids[0], 3)
	b.must(quarantine.Send(t.Context(), b.db, ids[:1], 1))
	b.must(quarantine.Published(t.Context(), b.db, ids[:1]))
	rows, err := quarantine.Next(t.Context(), b.db, source, "orders.events", []byte("a"), 1)
	b.must(err)
	b.must(quarantine.Refuse(t.Context(), b.db, source, rows[0], "the topic is gone"))
	b.wantAsked()
	b.wantHeld(map[string]int{"a": 2})
	b.wantNext("a", "10/2", "10/3")
	list, err := quarantine.List(t.Context(), b.db, source)
	b.must(err)
	if len(list) != 1 || list[0].Reason != "the topic is gone" || list[0].Asked || list[0].First != ids[1] {
		t.Errorf("list %+v", list)
	}
}

// With the last refused record of a key skipped, those behind it go on; while another of them is refused they wait for a person.
func TestSkip(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep(row(10, 1, "a", "too large"), row(10, 2, "a", ""), row(10, 3, "a", "too large"), row(10, 4, "a", ""), row(10, 5, "b", "too large"))
	ids := b.wantNext("a", "10/1", "10/2", "10/3", "10/4")
	b.must(b.skip(ids[0]))
	b.wantAsked()
	b.must(b.skip(ids[2]))
	b.wantAsked("a")
	b.wantNext("a", "10/2", "10/4")
	for _, id := range []int64{ids[0], ids[0] + 1000} {
		if err := b.skip(id); !errors.Is(err, quarantine.ErrNotKept) {
			t.Errorf("skip of %d: %v", id, err)
		}
	}
	var by, note string
	var settled *time.Time
	b.must(b.db.QueryRow(t.Context(), `SELECT settled_by, note, settled_at FROM chorus_cdc_quarantine WHERE id = $1`, ids[0]).Scan(&by, &note, &settled))
	if by != "ada" || note != "a test order" || settled == nil {
		t.Errorf("skipped by %q for %q at %v", by, note, settled)
	}
	b.wantHeld(map[string]int{"a": 2, "b": 1})

	// The one that held the key is skipped before the publisher keeps another behind it: that one is not forgotten.
	b.must(b.skip(b.wantNext("b", "10/5")[0]))
	b.wantAsked("a")
	b.keep(row(20, 1, "b", ""))
	b.wantAsked("a", "b")
}

// What is being sent is not skipped under the publisher's hands, and what was skipped is not sent.
func TestSkipAndSendDoNotCross(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep(row(10, 1, "a", "too large"), row(10, 2, "a", ""))
	ids := b.wantNext("a", "10/1", "10/2")
	b.must(quarantine.Send(t.Context(), b.db, ids[:1], 1))
	if err := b.skip(ids[0]); !errors.Is(err, quarantine.ErrNotKept) {
		t.Errorf("skip of what is being sent: %v", err)
	}
	b.must(b.skip(ids[1]))
	if err := quarantine.Send(t.Context(), b.db, ids, 2); err == nil || !strings.Contains(err.Error(), "skipped meanwhile") {
		t.Errorf("send of what is skipped: %v", err)
	}
	var batch int64 // a failed Send leaves the rows as they were
	b.must(b.db.QueryRow(t.Context(), `SELECT batch FROM chorus_cdc_quarantine WHERE id = $1`, ids[0]).Scan(&batch))
	if batch != 1 {
		t.Errorf("the batch is %d", batch)
	}
}

// After a crash an exactly-once source knows by the number in its position which batches are in Kafka. One with at-least-once
// has no such number: all are sent again.
func TestSettleAfterACrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		batch uint64
		want  []string
	}{
		"exactly once, the first batch is in Kafka": {1, []string{"10/2", "10/3"}},
		"exactly once, both are":                    {2, []string{"10/3"}},
		"at least once":                             {0, []string{"10/1", "10/2", "10/3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.keep(row(10, 1, "a", "too large"), row(10, 2, "a", ""), row(10, 3, "a", ""))
			ids := b.wantNext("a", "10/1", "10/2", "10/3")
			b.retry(ids[0], 3)
			b.must(quarantine.Send(t.Context(), b.db, ids[:1], 1))
			b.must(quarantine.Send(t.Context(), b.db, ids[1:2], 2))
			b.must(quarantine.Settle(t.Context(), b.db, source, c.batch))
			b.wantAsked("a")
			b.wantNext("a", c.want...)
		})
	}
}

// Records without a key hold nobody, and only those that are asked for are published.
func TestRecordsWithoutAKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep(row(10, 1, "", "too large"), row(10, 2, "", "too large"), row(10, 3, "", "too large"))
	b.wantHeld(map[string]int{})
	b.wantNext("")
	list, err := quarantine.List(t.Context(), b.db, source)
	b.must(err)
	if len(list) != 1 || list[0].Key != nil || list[0].Rows != 3 {
		t.Errorf("list %+v", list)
	}
	b.retry(list[0].First+1, 1)
	b.wantNext("", "10/2")
	rows, err := quarantine.Next(t.Context(), b.db, source, "orders.events", nil, 10)
	b.must(err)
	b.must(quarantine.Refuse(t.Context(), b.db, source, rows[0], "still too large"))
	b.wantAsked()
	b.must(b.skip(list[0].First))
	b.wantAsked()
	if shown, err := quarantine.Show(t.Context(), b.db, source, list[0].First+1); err != nil || len(shown) != 1 || shown[0].Reason != "still too large" {
		t.Errorf("shown %+v (%v)", shown, err)
	}
}

// Without the table each call says so.
func TestNoTable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if there, mayWrite, err := quarantine.Found(t.Context(), b.db); !there || !mayWrite || err != nil {
		t.Errorf("found %t, may write %t (%v)", there, mayWrite, err)
	}
	b.must(quarantine.Make(t.Context(), b.db)) // again
	_, err := b.db.Exec(t.Context(), `DROP TABLE chorus_cdc_quarantine`)
	b.must(err)
	if there, _, err := quarantine.Found(t.Context(), b.db); there || err != nil {
		t.Errorf("found %t (%v)", there, err)
	}
	for name, call := range map[string]func() error{
		"read":    func() error { _, err := quarantine.Read(t.Context(), b.db, source, 0); return err },
		"counted": func() error { _, err := quarantine.Counted(t.Context(), b.db, source); return err },
		"list":    func() error { _, err := quarantine.List(t.Context(), b.db, source); return err },
		"show":    func() error { _, err := quarantine.Show(t.Context(), b.db, source, 1); return err },
		"retry":   func() error { _, err := quarantine.Retry(t.Context(), b.db, source, 1); return err },
		"skip":    func() error { return b.skip(1) },
		"settle":  func() error { return quarantine.Settle(t.Context(), b.db, source, 1) },
	} {
		if err := call(); !errors.Is(err, quarantine.ErrNoTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
