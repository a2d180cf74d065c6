package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceKeyed writes facts given as "key/name".
func (w *world) produceKeyed(facts ...string) {
	w.t.Helper()
	var batch []*kgo.Record
	for _, fact := range facts {
		key, name, _ := strings.Cut(fact, "/")
		r := record(0, name)
		out := &kgo.Record{Topic: "t", Key: []byte(key), Value: r.Value}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader(h))
		}
		batch = append(batch, out)
	}
	w.produceRaw(batch...)
}

// effectsOf lists the facts of a key that took effect, in the order of their effects.
func (b *base) effectsOf(key string) string {
	return fmt.Sprint(many[int](b, `SELECT "offset" FROM effects WHERE key = $1 ORDER BY n`, key))
}

// letters lists the open dead letters as "offset reason", in the order of their facts.
func (b *base) letters() string {
	return strings.Join(many[string](b, `SELECT "offset" || ' ' || reason FROM dead_letters WHERE state = 'open' ORDER BY partition, "offset"`), ", ")
}

// letterAt returns the id of the dead letter of an offset.
func (b *base) letterAt(offset int64) int64 {
	return one[int64](b, `SELECT id FROM dead_letters WHERE "offset" = $1`, offset)
}

// mendable is apply, for which poison is no poison any more once mended is true.
func mendable(mended *atomic.Bool) Handler {
	return func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		if mended.Load() {
			for i := range facts {
				facts[i].Value = []byte("mended")
			}
		}
		return apply("c")(ctx, tx, facts)
	}
}

// TestHeldKeys is E.4 32: what comes after a dead letter of its key, in the same batch or later, waits until that one is redriven or discarded, and then takes effect in order; other keys go on.
func TestHeldKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	cfg := w.config()
	cfg.HoldKeys = true
	var mended atomic.Bool
	var mu sync.Mutex
	var told []int64 // guarded by mu
	cfg.Committed = func(facts []Fact, verdicts []Verdict) {
		mu.Lock()
		defer mu.Unlock()
		for i, f := range facts {
			if verdicts[i].Outcome != Dead {
				told = append(told, f.Offset)
			}
		}
	}
	_, stop := w.consume(cfg, mendable(&mended))

	w.produceKeyed("x/x0", "x/poison1", "y/y2", "x/x3", "z/dead4", "z/z5", "y/y6", "x/early7", "v/dead8", "v/dead9", "v/v10")
	eventually(t, "the batch", func() bool {
		return one[int64](w.base, `SELECT coalesce(max(next_offset), 0) FROM partition_owner`) == 11
	})
	want := "1 poison, 3 held, 4 unreadable, 5 held, 7 held, 8 unreadable, 9 held, 10 held"
	if got := w.letters(); got != want {
		t.Fatalf("dead letters %s, want %s", got, want)
	}
	if x, y := w.effectsOf("x"), w.effectsOf("y"); x != "[0]" || y != "[2 6]" {
		t.Errorf("effects of x %s and of y %s", x, y)
	}
	if _, err := Redrive(t.Context(), w.conn, w.letterAt(3), RedriveOptions{Force: true}, apply("c")); !errors.Is(err, ErrHeld) {
		t.Errorf("redrive of a held fact: %v, want ErrHeld", err)
	}

	// Discarding lets the rest go. What fails then is a dead letter that holds what is behind it.
	for _, offset := range []int64{4, 8} {
		if err := Discard(t.Context(), w.conn, w.letterAt(offset), "tested", nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the discarded letters' followers", func() bool { return w.letters() == "1 poison, 3 held, 7 held, 9 unreadable, 10 held" })
	if z, v := w.effectsOf("z"), w.effectsOf("v"); z != "[5]" || v != "[]" {
		t.Errorf("effects of z %s and of v %s", z, v)
	}
	stop()

	// A fact that comes now is behind the others, and so it stays over a restart.
	_, stop = w.consume(cfg, mendable(&mended))
	w.produceKeyed("x/x11", "v/v12")
	eventually(t, "the later facts", func() bool {
		return w.letters() == "1 poison, 3 held, 7 held, 9 unreadable, 10 held, 11 held, 12 held"
	})
	mended.Store(true)
	for _, offset := range []int64{1, 9} {
		if _, err := Redrive(t.Context(), w.conn, w.letterAt(offset), RedriveOptions{}, mendable(&mended)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all that was held", func() bool { return w.letters() == "" })
	w.produceKeyed("x/x13")
	eventually(t, "a fact of a key that is free again", func() bool { return w.effectsOf("x") == "[0 1 3 7 11 13]" })
	if got := w.effectsOf("v"); got != "[9 10 12]" {
		t.Errorf("effects of v %s", got)
	}
	stop()
	if n := one[int](w.base, `SELECT count(*) FROM effects GROUP BY event_id ORDER BY 1 DESC LIMIT 1`); n != 1 {
		t.Errorf("a fact took effect %d times", n)
	}
	slices.Sort(told)
	if want := []int64{0, 2, 3, 5, 6, 7, 10, 11, 12, 13}; !slices.Equal(told, want) {
		t.Errorf("facts reported as committed by the consumer: %v, want %v", told, want)
	}
}

// TestHeldByWhatHasNoID: a record that cannot be told from others holds its key too, and a redelivery changes nothing.
func TestHeldByWhatHasNoID(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	cfg := b.config("c")
	cfg.HoldKeys = true
	batch := records(0, "a0", "a1", "a2", "b3")
	batch[1].Headers = nil
	long := record(4, "long")
	long.Key = []byte(strings.Repeat("k", 5000)) // longer than an index takes
	long.Headers[0].Value = nil
	batch = append(batch, long)
	c := newConsumer(t, cfg, apply("c"))
	l := mustClaim(t, c, partition(20))
	for range 2 {
		if err := l.Handle(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		b.checkOnce("c", "a0", "b3")
		if got, want := b.letters(), "1 id_missing, 2 held, 4 id_empty"; got != want {
			t.Errorf("dead letters %s, want %s", got, want)
		}
		if _, err := Rewind(t.Context(), b.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: topicID}); err != nil {
			t.Fatal(err)
		}
		l = mustClaim(t, c, partition(20))
	}
	if err := Discard(t.Context(), b.conn, b.letterAt(1), "tested", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.releaseAll(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a0", "a2", "b3")
}

// TestReleaseAgainstAll releases in two replicas, while a person redrives and more facts of the same keys come: each takes effect once, in order (G4, G5).
func TestReleaseAgainstAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	cfg := w.config()
	cfg.HoldKeys = true
	var mended atomic.Bool
	const keys, rounds = 12, 6
	total := 0
	feed := func(round int) {
		var facts []string
		for n := range 5 {
			for k := range keys {
				name := fmt.Sprintf("f%d-%d-%d", k, round, n)
				if round == 1 && n == k%5 && k%3 > 0 {
					name = "poison" + name
				}
				facts = append(facts, fmt.Sprintf("%d/%s", k, name))
				total++
			}
		}
		w.produceKeyed(facts...)
	}
	w.consume(cfg, mendable(&mended))
	w.consume(cfg, mendable(&mended))
	feed(0)
	feed(1)
	eventually(t, "all to be read", func() bool { return one[int](w.base, `SELECT count(*) FROM inbox`) == total })
	mended.Store(true)
	for round := 2; round < rounds; round++ {
		feed(round)
		for _, id := range many[int64](w.base, `SELECT id FROM dead_letters WHERE state = 'open' AND reason = 'poison' ORDER BY id LIMIT 3`) {
			if _, err := Redrive(t.Context(), w.conn, id, RedriveOptions{}, mendable(&mended)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all effects", func() bool { return w.effects() == total && w.letters() == "" })
	if n := one[int](w.base, `SELECT count(*) FROM effects`); n != total {
		t.Errorf("%d effects of %d facts", n, total)
	}
	for k := range keys {
		key := fmt.Sprint(k)
		sorted := fmt.Sprint(many[int](w.base, `SELECT "offset" FROM effects WHERE key = $1 ORDER BY "offset"`, key))
		if diff := cmp.Diff(sorted, w.effectsOf(key)); diff != "" {
			t.Errorf("effects of key %s out of order (-want +got):\n%s", key, diff)
		}
	}
}

// TestReleaseWaitsForItsSurroundings: a held fact whose turn has come, and whose surroundings are out of order, stays held, and other keys are released.
func TestReleaseWaitsForItsSurroundings(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	cfg := b.config("c")
	cfg.HoldKeys = true
	away := true
	tries := 0
	c := newConsumer(t, cfg, func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		if string(facts[0].Value) == "a1" && away {
			return nil, Again(errors.New("registry is away"))
		}
		if string(facts[0].Value) == "b3" && away {
			tries++
			return nil, errors.New("broken")
		}
		return apply("c")(ctx, tx, facts)
	})
	l := mustClaim(t, c, partition(20))
	batch := records(0, "a0", "a1", "b2", "b3", "c4", "c5")
	for _, i := range []int{0, 2, 4} {
		batch[i].Value = []byte("dead")
	}
	if err := l.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 2, 4} {
		if err := Discard(t.Context(), b.conn, b.letterAt(offset), "tested", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.releaseAll(t.Context(), b.conn); err == nil {
		t.Error("nothing said of the fact that has to wait")
	}
	if got, want := b.letters(), "1 held, 3 attempts_exhausted"; got != want || tries != 3 {
		t.Errorf("dead letters %s after %d tries, want %s after 3", got, tries, want)
	}
	b.checkOnce("c", "c5")
	away = false
	if err := c.releaseAll(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	b.checkOnce("c", "a1", "c5")
}
