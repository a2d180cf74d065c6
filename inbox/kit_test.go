package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
	"chorus/internal/pgtest"
)

const patience = 60 * time.Second

// base is a database with the inbox's tables and a table of effects, which accepts the same effect twice so that a test can see it.
type base struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn // for looking
}

func newBase(t *testing.T) *base { return useBase(t, pgtest.Database(t)) }

func useBase(t *testing.T, dsn string) *base {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("sslmode", "disable") // the proxy reads along
	u.RawQuery = query.Encode()
	b := &base{t: t, dsn: u.String()}
	b.conn, err = pgx.Connect(t.Context(), b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close(context.Background()) })
	for range 2 { // it may be run again
		if _, err := b.conn.Exec(t.Context(), Schema+`CREATE TABLE IF NOT EXISTS effects (n bigint GENERATED ALWAYS AS IDENTITY, consumer text, event_id uuid, key text, "offset" bigint)`); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// config is for tests that drive lanes themselves, without a broker.
func (b *base) config(consumer string) Config {
	return Config{
		Brokers: []string{"none:1"}, Group: consumer, Topics: []string{"t"}, Postgres: b.dsn,
		BatchTimeout: patience, Drain: 5 * time.Second,
	}
}

func newConsumer(t *testing.T, cfg Config, h Handler) *Consumer {
	t.Helper()
	c, err := New(slog.New(slog.NewTextHandler(t.Output(), nil)), cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var topicID = [16]byte{1, 2, 3}

func partition(end int64) broker.Partition {
	return broker.Partition{Topic: "t", TopicID: topicID, End: end}
}

func mustClaim(t *testing.T, c *Consumer, p broker.Partition) *lane {
	t.Helper()
	l, err := c.claim(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// eventID derives an id from a name.
func eventID(name string) (id [16]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	return id
}

func uuidText(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// record makes a fact named name, of an order whose number is the name's first letter.
func record(offset int64, name string, more ...Header) broker.Record {
	return broker.Record{
		Topic: "t", TopicID: topicID, Offset: offset, Timestamp: time.Now(), Key: []byte(name[:1]), Value: []byte(name),
		Headers: append([]Header{{Key: "id", Value: []byte(uuidText(eventID(name)))}, {Key: "eventType", Value: []byte("Tested")}}, more...),
	}
}

// records makes one fact a name, at offsets from first on.
func records(first int64, names ...string) []broker.Record {
	out := make([]broker.Record, len(names))
	for i, name := range names {
		out[i] = record(first+int64(i), name)
	}
	return out
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

// apply is a Handler that gives each fact one row in effects. Facts named "dead…" get a dead verdict, "poison…" a permanent error, "broken…" an
// error for no known reason, "unfit…" one of the database's, and "panic…" panic.
func apply(consumer string) Handler {
	return func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		verdicts := make([]Verdict, len(facts))
		var ids [][16]byte
		var keys []string
		var offsets []int64
		for i, f := range facts {
			switch name := string(f.Value); {
			case strings.HasPrefix(name, "dead"):
				verdicts[i] = DeadVerdict("unreadable", "cannot be read")
				continue
			case strings.HasPrefix(name, "poison"):
				return nil, Permanent(errors.New("poisonous"), "poison")
			case strings.HasPrefix(name, "broken"):
				return nil, errors.New("broken")
			case strings.HasPrefix(name, "unfit"):
				if _, err := tx.Exec(ctx, `SELECT 1 / 0`); err != nil {
					return nil, err
				}
			case strings.HasPrefix(name, "panic"):
				panic("at the disco")
			case strings.HasPrefix(name, "early"):
				verdicts[i] = Verdict{Outcome: Remembered, Why: "its cause has not come"}
			}
			ids, keys, offsets = append(ids, f.ID), append(keys, f.Key), append(offsets, f.Offset)
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects (consumer, event_id, key, "offset") SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::bigint[])`, consumer, ids, keys, offsets)
		return verdicts, err
	}
}

// checkOnce fails the test unless each of these facts took effect once, and no other did.
func (b *base) checkOnce(consumer string, want ...string) {
	b.t.Helper()
	expected := map[[16]byte]string{}
	for _, name := range want {
		expected[eventID(name)] = name
	}
	rows, _ := b.conn.Query(context.Background(), `SELECT event_id, count(*) FROM effects WHERE consumer = $1 GROUP BY event_id`, consumer)
	var id [16]byte
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		name, ok := expected[id]
		if !ok {
			b.t.Errorf("%s: effect of an unexpected fact %x", consumer, id)
		}
		if n != 1 {
			b.t.Errorf("%s: %s took effect %d times", consumer, name, n)
		}
		delete(expected, id)
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	for _, name := range expected {
		b.t.Errorf("%s: %s took no effect", consumer, name)
	}
}

// one returns the single value of a query.
func one[T any](b *base, sql string, args ...any) T {
	b.t.Helper()
	rows, _ := b.conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// many returns the rows of a query of one column.
func many[T any](b *base, sql string, args ...any) []T {
	b.t.Helper()
	rows, _ := b.conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
		<-tick.C
	}
}

// within ends the test's wait for a channel.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for: %s", patience, what)
		panic("unreachable")
	}
}
