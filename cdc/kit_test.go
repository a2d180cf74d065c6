package cdc_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/internal/brokertest"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

// within bounds each wait of a test; the machine may be busy.
const within = 60 * time.Second

// rig is a database with an outbox and a broker with a topic for it.
type rig struct {
	t      *testing.T
	dsn    string
	db     *pgx.Conn
	broker *brokertest.Broker
	cfg    cdc.Config
	next   atomic.Int64 // number of the last row
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, pgtest.Database(t))
}

func newRigOn(t *testing.T, dsn string) *rig {
	t.Helper()
	r := &rig{t: t, dsn: dsn, broker: brokertest.Start(t, map[string]int32{"orders.events": 3, "inventory.events": 3})}
	r.db = r.connect()
	r.exec(outbox.Schema)
	var name string
	if err := r.db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	r.cfg = cdc.Config{
		Sources:        []cdc.Source{{Name: "orders", DSN: dsn, Slot: "chorus_" + name}},
		Brokers:        []string{r.broker.Addr()},
		PruneAfter:     -1,
		StatusInterval: 50 * time.Millisecond,
		SpillDir:       t.TempDir(),
	}
	return r
}

func (r *rig) slot() string { return r.cfg.Sources[0].Slot }

func (r *rig) connect() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	mode := []any{pgx.QueryExecModeSimpleProtocol}
	if len(args) > 0 {
		mode = nil
	}
	if _, err := r.db.Exec(r.t.Context(), sql, append(mode, args...)...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// row is the outbox row number n; its payload is the number.
func row(n int64, key string) outbox.Row {
	id := [16]byte{15: 1}
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return outbox.Row{ID: id, AggregateType: "orders", AggregateID: key, Type: "OrderPlaced", Payload: []byte(strconv.FormatInt(n, 10))}
}

// insert commits n rows of a key in one transaction and returns their numbers.
func (r *rig) insert(n int, key string) []int64 {
	r.t.Helper()
	return r.insertBy(r.db, n, key)
}

func (r *rig) insertBy(db *pgx.Conn, n int, key string) []int64 {
	r.t.Helper()
	tx, err := db.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	numbers := r.add(tx, n, key)
	if err := tx.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return numbers
}

func (r *rig) add(tx pgx.Tx, n int, key string) []int64 {
	r.t.Helper()
	var numbers []int64
	var rows []outbox.Row
	for range n {
		k := r.next.Add(1)
		numbers = append(numbers, k)
		rows = append(rows, row(k, key))
	}
	r.append(tx, rows...)
	return numbers
}

func (r *rig) append(tx pgx.Tx, rows ...outbox.Row) {
	r.t.Helper()
	if err := outbox.Append(r.t.Context(), tx, rows...); err != nil {
		r.t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come about within %s", what, within)
		}
	}
}

// topic reads everything from the beginning of the orders' topic.
type topic struct {
	t      *testing.T
	client *kgo.Client
	all    []*kgo.Record
}

func (r *rig) read() *topic {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ConsumeTopics("orders.events", "inventory.events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return &topic{t: r.t, client: client}
}

// until reads on until the condition holds.
func (c *topic) until(what string, done func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	for !done() {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%s did not come about within %s; %d records read", what, within, len(c.all))
		}
		fetches.EachRecord(func(r *kgo.Record) { c.all = append(c.all, r) })
	}
}

func (c *topic) wait(n int) {
	c.t.Helper()
	c.until(fmt.Sprintf("%d records", n), func() bool { return len(c.all) >= n })
}

// number is the row's number, which is its payload up to a blank.
func number(r *kgo.Record) int64 {
	text, _, _ := strings.Cut(string(r.Value), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// complete waits for all the rows, and checks that each key's rows arrived for
// the first time in the order of want. It returns how many came again.
func (c *topic) complete(want map[string][]int64) (repeats int) {
	c.t.Helper()
	total := 0
	for _, numbers := range want {
		total += len(numbers)
	}
	seen := map[int64]bool{}
	read := 0
	c.until(fmt.Sprintf("%d different records", total), func() bool {
		for ; read < len(c.all); read++ {
			seen[number(c.all[read])] = true
		}
		return len(seen) >= total
	})
	got := map[string][]int64{}
	first := map[int64]bool{}
	for _, r := range c.all {
		if n := number(r); first[n] {
			repeats++
		} else {
			first[n] = true
			got[string(r.Key)] = append(got[string(r.Key)], n)
		}
	}
	for key, numbers := range want {
		for i, n := range numbers {
			if got[key][i] != n {
				c.t.Fatalf("key %s: record %d is row %d, want %d", key, i, got[key][i], n)
			}
		}
	}
	return repeats
}

// confirmed is the slot's position, or 0 while there is no slot.
func (r *rig) confirmed() (lsn int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT coalesce(max(confirmed_flush_lsn - '0/0'), 0)::bigint FROM pg_replication_slots WHERE slot_name = $1`,
		r.slot()).Scan(&lsn); err != nil {
		r.t.Fatal(err)
	}
	return lsn
}

// end is the end of the log.
func (r *rig) end() (lsn int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&lsn); err != nil {
		r.t.Fatal(err)
	}
	return lsn
}

// waitConfirmed waits until the slot has reached a position.
func (r *rig) waitConfirmed(lsn int64) {
	r.t.Helper()
	eventually(r.t, "confirmation", func() bool { return r.confirmed() >= lsn })
}
