package cdc_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// E17: traffic in another database of the server holds no log back for an idle
// outbox, without a table to write heartbeats to.
func TestIdleSlotFollowsOtherDatabases(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.exec(`CREATE DATABASE other`)
	config, err := pgx.ParseConfig(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	config.Database = "other"
	other, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.Exec(t.Context(), `CREATE TABLE busy AS SELECT repeat('x', 1000) AS x FROM generate_series(1, 100000)`); err != nil {
		t.Fatal(err)
	}
	r.waitConfirmed(r.end())
	r.exec(`CHECKPOINT`)
	eventually(t, "retained log within two segments", func() bool {
		v := p.value(`retained_wal_bytes{source="orders"}`)
		return v >= 0 && v <= 32<<20
	})
	p.waitState(cdc.CaughtUp)
}

// E40: a poller that remembers the highest number passes a row by that commits
// later with a lower one. The log has no such gap.
func TestPollerMissesWhatThePublisherDoesNot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`ALTER TABLE outbox ADD n bigserial`)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	polled, last := map[int64]bool{}, int64(0)
	poll := func() {
		rows, err := r.db.Query(t.Context(), `SELECT n FROM outbox WHERE n > $1 ORDER BY n`, last)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.ForEachRow(rows, []any{&last}, func() error { polled[last] = true; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	slow, err := r.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"1": r.add(slow, 1, "1")}
	want["2"] = r.insert(1, "2")
	poll()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll()
	if len(polled) != 1 {
		t.Errorf("the poller has seen %d of 2 rows; this test must show that it misses one", len(polled))
	}
	r.read().complete(want)
}

// E1: the rows of one statement may share a position. Killed when a part of them
// is in Kafka, the publisher has all of them sent again, not "what is behind".
func TestKillInTheMiddleOfOneStatement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	held := make(chan struct{})
	resume := sync.OnceFunc(func() { close(held) })
	t.Cleanup(resume)
	var passed atomic.Int32
	r.broker.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		if passed.Add(1) > 2 {
			<-held
		}
		return nil, nil, false
	})
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, causationid, hop)
	        SELECT gen_random_uuid(), 'orders', (n % 7)::text, 'T', n::text::bytea, now(), '', '', 0 FROM generate_series(1, 10000) AS n`)
	end := r.end()
	want := map[string][]int64{}
	for n := int64(1); n <= 10000; n++ {
		key := strconv.FormatInt(n%7, 10)
		want[key] = append(want[key], n)
	}
	eventually(t, "a part that is acknowledged", func() bool {
		s, ok := p.ready()
		return ok && p.value(`records_total{source="orders"}`) > 0 && s.Sources[0].Unacknowledged > 0
	})
	p.kill()
	if at := r.confirmed(); at >= end {
		t.Errorf("confirmed up to %X, and the transaction that ends before %X is in Kafka in part", at, end)
	}
	resume()
	r.start()
	if n := r.read().complete(want); n == 0 {
		t.Error("nothing came twice: the kill was not in the middle")
	}
}
