package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// TestCulpritsAmongGood sends a fact of each bad kind among good ones in one batch (CON-05, E.3 28, E.4 33): the good take effect, the bad are dead letters with
// their bytes, and the partition goes on, also when the bad one is the last.
func TestCulpritsAmongGood(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	cfg := b.config("c")
	var committed []string
	cfg.Committed = func(facts []Fact, verdicts []Verdict) {
		for i, f := range facts {
			committed = append(committed, fmt.Sprintf("%s:%s", f.Value, verdicts[i].Outcome))
		}
	}
	l := mustClaim(t, newConsumer(t, cfg, apply("c")), partition(20))
	batch := records(0, "a", "poison", "b", "broken", "unfit", "panic", "dead", "c", "poison2")
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a", "b", "c")
	type dead struct {
		Offset   int64
		Reason   string
		Attempts int
	}
	letters, err := DeadLetters(t.Context(), b.conn, LetterFilter{Consumer: "c", State: Open}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []dead
	for _, d := range letters {
		got = append(got, dead{d.Record.Offset, d.Reason, d.Attempts})
		want := batch[d.Record.Offset]
		if !bytes.Equal(d.Record.Value, want.Value) || !bytes.Equal(d.Record.Key, want.Key) || !cmp.Equal(d.Record.Headers, want.Headers) || d.Record.TopicID != topicID {
			t.Errorf("dead letter %+v differs from the record %+v", d.Record, want)
		}
		if d.EventID != eventID(string(want.Value)) || d.EventType != "Tested" || d.State != Open || d.FirstFailedAt.IsZero() {
			t.Errorf("dead letter %+v", d)
		}
	}
	slices.SortFunc(got, func(a, b dead) int { return int(a.Offset - b.Offset) })
	want := []dead{{1, "poison", 1}, {3, ReasonExhausted, 3}, {4, ReasonRefused, 1}, {5, ReasonPanic, 1}, {6, "unreadable", 1}, {8, "poison", 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	// A restart after the last record, which was bad, has nothing to do (E.2 23).
	again := mustClaim(t, newConsumer(t, cfg, apply("c")), partition(20))
	if again.Next() != 9 {
		t.Errorf("starts again at %d, want 9", again.Next())
	}
	if want := []string{"a:applied", "b:applied", "dead:dead", "c:applied"}; !slices.Equal(committed, want) {
		t.Errorf("committed %v, want %v", committed, want)
	}
}

// TestStrangersStayStrangers is CON-10, with its neighbours: no record without exactly one usable id is taken for another.
func TestStrangersStayStrangers(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	with := func(offset int64, headers ...Header) broker.Record {
		r := record(offset, "x")
		r.Headers = headers
		return r
	}
	id := func(s string) Header { return Header{Key: "id", Value: []byte(s)} }
	good := uuidText(eventID("good"))
	noKey := record(9, "no key")
	noKey.Key = nil
	tombstone := record(10, "tombstone", Header{Key: "traceparent", Value: []byte("00-zz")}, Header{Key: "nothing"})
	tombstone.Value = nil
	batch := []broker.Record{
		with(0), with(1, id("")), with(2, id("not-a-uuid")), with(3, id(good), id(uuidText(eventID("other")))), with(4, id(good), id(good)),
		with(5, id("00000000-0000-0000-0000-000000000000")), with(6, id(good+" ")), with(7, Header{Key: "id"}), with(8, Header{Key: "ID", Value: []byte(good)}),
		noKey, tombstone, with(11, id(strings.ToUpper(good))), with(12, id(good)),
	}
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(20))
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	got := many[string](b, `SELECT "offset" || ' ' || reason FROM dead_letters ORDER BY "offset"`)
	want := []string{"0 id_missing", "1 id_empty", "2 id_malformed", "3 id_repeated", "4 id_repeated", "5 id_malformed", "6 id_malformed", "7 id_empty", "8 id_missing", "9 key_missing"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	b.checkOnce("c", "good", "tombstone")
	if n := one[int](b, `SELECT sum(duplicates) FROM inbox`); n != 1 {
		t.Errorf("%d duplicates, want 1: the last record alone", n)
	}
	// Read again after a rewind, they are the same dead letters, with their first failure.
	first := many[time.Time](b, `SELECT first_failed_at FROM dead_letters ORDER BY "offset"`)
	if _, err := Rewind(t.Context(), b.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: topicID}); err != nil {
		t.Fatal(err)
	}
	l = mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(20))
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, many[time.Time](b, `SELECT first_failed_at FROM dead_letters ORDER BY "offset"`)); diff != "" {
		t.Errorf("dead letters after a rewind (-before +after):\n%s", diff)
	}
	b.checkOnce("c", "good", "tombstone")
}

// TestConcurrentConsumersOfTheSameIDs has several partitions' owners of one consumer handle the same ids at once, in different orders (C.3 1 and 2): nobody deadlocks, each takes effect once.
func TestConcurrentConsumersOfTheSameIDs(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	const owners, rounds, facts = 4, 10, 200
	var all []string
	for round := range rounds {
		all = append(all, names(fmt.Sprintf("r%d-", round), facts)...)
	}
	before := one[int64](b, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	var running sync.WaitGroup
	for n := range owners {
		running.Go(func() {
			p := partition(rounds * facts)
			p.Partition = int32(n)
			l, err := newConsumer(t, b.config("c"), apply("c")).claim(t.Context(), p)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			for round := range rounds {
				batch := slices.Clone(all[round*facts : (round+1)*facts])
				rand.Shuffle(facts, func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				if err := l.Handle(t.Context(), records(int64(round*facts), batch...)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	b.checkOnce("c", all...)
	if n := one[int](b, `SELECT sum(duplicates) FROM inbox`); n != (owners-1)*rounds*facts {
		t.Errorf("%d duplicates counted, want %d", n, (owners-1)*rounds*facts)
	}
	// The statistics of a session reach the view when it ends, at the latest.
	if n := one[int64](b, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != before {
		t.Errorf("%d deadlocks", n-before)
	}
}

// TestOrderInATransactionOfHundreds checks that a batch is one transaction, in offset order whatever the order of ids (G5).
func TestOrderInATransactionOfHundreds(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	calls := 0
	l := mustClaim(t, newConsumer(t, b.config("c"), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		calls++
		return apply("c")(ctx, tx, facts)
	}), partition(800))
	all := names("k", 800)
	if err := l.Handle(t.Context(), records(0, all...)); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", all...)
	offsets := many[int64](b, `SELECT "offset" FROM effects ORDER BY n`)
	if calls != 1 || !slices.IsSorted(offsets) {
		t.Errorf("%d calls; offsets in order: %v", calls, slices.IsSorted(offsets))
	}
	if n := one[int](b, `SELECT count(DISTINCT xmin::text) FROM effects`); n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// TestClaimRefuses checks that a partition whose progress does not fit the topic is not consumed (D6), and that a rewind mends it.
func TestClaimRefuses(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	c := newConsumer(t, b.config("c"), apply("c"))
	p := broker.Partition{Topic: "t", TopicID: topicID, Start: 5, End: 9}
	l := mustClaim(t, c, p)
	if l.Next() != 5 {
		t.Errorf("a partition without a row starts at %d, want the earliest, 5", l.Next())
	}
	for name, other := range map[string]broker.Partition{
		"deleted and made anew": {Topic: "t", TopicID: [16]byte{9}, Start: 5, End: 9},
		"beyond the end":        {Topic: "t", TopicID: topicID, Start: 0, End: 4},
		"below the log start":   {Topic: "t", TopicID: topicID, Start: 6, End: 9},
	} {
		_, err := c.claim(t.Context(), other)
		var refused RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Why, name) {
			t.Errorf("claim: %v, want a refusal that says %q", err, name)
		}
	}
	if epoch := one[int64](b, `SELECT epoch FROM partition_owner`); epoch != 1 {
		t.Errorf("a refused claim has raised the epoch to %d", epoch)
	}
	if err := l.Handle(t.Context(), records(5, "a")); err != nil {
		t.Errorf("the owner is disturbed by refused claims: %v", err)
	}

	request := RewindRequest{Consumer: "c", Topic: "t", TopicID: [16]byte{9}, To: 2, DryRun: true}
	if from, err := Rewind(t.Context(), b.conn, request); err != nil || from != 6 {
		t.Errorf("dry run: from %d, %v", from, err)
	}
	if err := l.Handle(t.Context(), records(6, "b")); err != nil {
		t.Errorf("a dry run has fenced the owner: %v", err)
	}
	request.DryRun = false
	if from, err := Rewind(t.Context(), b.conn, request); err != nil || from != 7 {
		t.Errorf("rewind: from %d, %v", from, err)
	}
	if err := l.Handle(t.Context(), records(7, "c")); !errors.Is(err, ErrFenced) {
		t.Errorf("the owner after a rewind: %v, want ErrFenced", err)
	}
	l = mustClaim(t, c, broker.Partition{Topic: "t", TopicID: [16]byte{9}, End: 4})
	if l.Next() != 2 {
		t.Errorf("starts at %d after the rewind, want 2", l.Next())
	}
	if from, err := Rewind(t.Context(), b.conn, RewindRequest{Consumer: "new", Topic: "t", TopicID: topicID, To: 7}); err != nil || from != -1 {
		t.Errorf("rewind of a partition that was never claimed: from %d, %v", from, err)
	}
}

// TestAgain checks that a fact whose surroundings are out of order is tried until they are in order, more often than Attempts.
func TestAgain(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tries := 0
	l := mustClaim(t, newConsumer(t, b.config("c"), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		if tries++; tries <= 6 {
			return nil, Again(errors.New("registry is away"))
		}
		return apply("c")(ctx, tx, facts)
	}), partition(10))
	if err := l.Handle(t.Context(), records(0, "a", "b")); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a", "b")
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestControlRecordsMoveTheFence checks that a partition that ends in transaction markers is handled to its end.
func TestControlRecordsMoveTheFence(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	l := mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(3))
	batch := records(0, "a", "marker", "marker")
	for i := range batch[1:] {
		batch[i+1] = broker.Record{Topic: "t", TopicID: topicID, Offset: int64(i + 1), Control: true}
	}
	for _, part := range [][]broker.Record{batch[:2], batch[2:]} {
		if err := l.Handle(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	if l.Next() != 3 {
		t.Errorf("handled up to %d, want 3", l.Next())
	}
	b.checkOnce("c", "a")
}

// TestPassedLeavesNoTrace passes facts over: they cost no row, the fence goes past them, and a redelivery gets the same answer.
func TestPassedLeavesNoTrace(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	var asked int
	c := newConsumer(t, b.config("c"), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		verdicts := make([]Verdict, len(facts))
		for i, f := range facts {
			if strings.HasPrefix(string(f.Value), "other") {
				asked++
				verdicts[i].Outcome = Passed
			}
		}
		return verdicts, nil
	})
	l := mustClaim(t, c, partition(5))
	for _, batch := range [][]broker.Record{records(0, "a", "other", "b"), records(3, "other", "a")} {
		if err := l.Handle(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if rows := many[string](b, `SELECT verdict || duplicates FROM inbox ORDER BY "offset"`); !slices.Equal(rows, []string{"applied1", "applied0"}) {
		t.Errorf("rows %v", rows)
	}
	if next := one[int](b, `SELECT next_offset FROM partition_owner`); next != 5 || asked != 2 {
		t.Errorf("next offset %d after %d questions, want 5 after 2", next, asked)
	}
}

// TestRest gives a lane's connection up in a pause: the next batch takes effect once under the same claim, and a claim made meanwhile fences it.
func TestRest(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	c := newConsumer(t, b.config("c"), apply("c"))
	l := mustClaim(t, c, partition(3))
	if err := l.Handle(t.Context(), records(0, "a")); err != nil {
		t.Fatal(err)
	}
	l.Rest()
	eventually(t, "the backend to be gone", func() bool {
		return one[int](b, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, l.self.pid) == 0
	})
	if err := l.Handle(t.Context(), records(1, "b")); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a", "b")
	if epoch := one[int](b, `SELECT epoch FROM partition_owner`); epoch != 1 {
		t.Errorf("epoch %d: the lane has claimed again", epoch)
	}
	l.Rest()
	mustClaim(t, newConsumer(t, b.config("c"), apply("c")), partition(3))
	if err := l.Handle(t.Context(), records(2, "c")); !errors.Is(err, ErrFenced) {
		t.Errorf("the lane that rested ended with %v, want ErrFenced", err)
	}
}
