package cdc_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// proxy passes TCP on to a server until it is frozen; then connections stay
// open and nothing goes through, as behind a firewall that drops packets.
type proxy struct {
	addr   string
	frozen atomic.Bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: ln.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex // guards conns
	var conns []net.Conn
	pass := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if p.frozen.Load() {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				_ = to.Close()
				return
			}
		}
	}
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			all.Go(func() { pass(out, in) })
			all.Go(func() { pass(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// E24: a connection over which nothing comes any more is given up.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	u, err := url.Parse(server.TCP())
	if err != nil {
		t.Fatal(err)
	}
	proxy := startProxy(t, u.Host)
	u.Host = proxy.addr
	r.cfg.Sources[0].DSN = u.String()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	proxy.frozen.Store(true)
	want := map[string][]int64{"1": r.insert(3, "1")}
	p.waitState(cdc.Stalled)
	proxy.frozen.Store(false)
	r.read().complete(want)
	p.waitState(cdc.CaughtUp)
}

// A position that Kafka acknowledged and the slot was not told of is not read
// again by the same process.
func TestNothingIsRepeatedAfterALostConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.StatusInterval = time.Hour
	p := r.start()
	eventually(t, "ready", func() bool { s, ok := p.ready(); return ok && s.Ready })
	want := map[string][]int64{"1": r.insert(10, "1")}
	topic := r.read()
	topic.complete(want)
	eventually(t, "acknowledgements", func() bool { s, ok := p.ready(); return ok && s.Sources[0].Unacknowledged == 0 })
	before := r.confirmed()
	_, pid := r.replied()
	r.exec(`SELECT pg_terminate_backend($1)`, pid)
	eventually(t, "another walsender", func() bool { _, now := r.replied(); return now != 0 && now != pid })
	if now := r.confirmed(); now != before {
		t.Logf("the slot was told of %X before its connection was lost", now)
	}
	want["1"] = append(want["1"], r.insert(10, "1")...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

// E18: a slot whose log was removed is named with its cure; what the table
// holds is then published.
func TestLostSlot(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(3, "1")}
	topic := r.read()
	topic.complete(want)
	p.stop()
	want["1"] = append(want["1"], r.insert(3, "1")...)
	r.exec(`ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'`)
	r.exec(`SELECT pg_reload_conf()`)
	r.exec(`CREATE TABLE busy (t text)`)
	eventually(t, "loss of the slot", func() bool {
		r.exec(`INSERT INTO busy (t) SELECT repeat('x', 1000) FROM generate_series(1, 20000)`)
		r.exec(`CHECKPOINT`)
		var lost bool
		if err := r.db.QueryRow(t.Context(), `SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1`, r.slot()).Scan(&lost); err != nil {
			t.Fatal(err)
		}
		return lost
	})
	p = r.start()
	p.waitStalled("pg_drop_replication_slot")
	p.waitStalled("; and DELETE FROM")
	r.forget()
	r.exec(`SELECT pg_drop_replication_slot($1)`, r.slot())
	topic.complete(want)
	p.waitState(cdc.CaughtUp)
}

// A publication for all tables: other tables are passed over, and counted.
func TestOtherTablesInThePublication(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DROP PUBLICATION outbox; CREATE PUBLICATION outbox FOR ALL TABLES; CREATE TABLE other (n int PRIMARY KEY)`)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.exec(`INSERT INTO other (n) VALUES (1); UPDATE other SET n = 2; DELETE FROM other; TRUNCATE other`)
	want := map[string][]int64{"1": r.insert(3, "1")}
	r.read().complete(want)
	if got := p.metric(`chorus_cdc_ignored_messages_total{kind="foreign",source="orders"}`); got != "3" {
		t.Errorf("%s foreign messages counted, want 3", got)
	}
	// A reader may have a record before its sender is told so.
	eventually(t, "count of records", func() bool { return p.metric(`chorus_cdc_records_total{source="orders"}`) == "3" })
	eventually(t, "count of latencies", func() bool { return p.metric(`chorus_cdc_commit_to_ack_seconds_count{source="orders"}`) == "3" })
}
