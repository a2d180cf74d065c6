package cdc_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
)

// left counts the rows of the outbox. It commits something, as others would do
// all the time: on an idle server the pruner waits for its log to be written.
func (r *rig) left() (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT (SELECT count(*) FROM outbox), pg_current_xact_id()::text`).Scan(&n, nil); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Published rows go when they are old enough; those that Kafka has not
// acknowledged stay, however old they are.
func TestPrunerKeepsWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = time.Millisecond
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(5000, "1")} // more than one batch
	eventually(t, "empty outbox", func() bool { return r.left() == 0 })
	topic := r.read()
	topic.complete(want)
	resume := r.pause()
	want["1"] = append(want["1"], r.insert(100, "1")...)
	r.exec(`UPDATE outbox SET occurredat = now() - interval '1 year'`)
	began, _ := r.replied()
	eventually(t, "20 status intervals", func() bool {
		if n := r.left(); n != 100 {
			t.Fatalf("%d of 100 unacknowledged rows are left", n)
		}
		at, _ := r.replied()
		return at.Sub(began) > 20*r.cfg.StatusInterval
	})
	resume()
	eventually(t, "empty outbox", func() bool { return r.left() == 0 })
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

// CDC-15: a transaction that took its id and time early and commits late, in a
// savepoint too, is no older than its commit.
func TestPrunerKeepsWhatCommitsLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = time.Millisecond
	p := r.start()
	p.waitState(cdc.CaughtUp)
	other := r.connect()
	slow, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := r.add(slow, 1, "O-1")
	sub, err := slow.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late = append(late, r.add(sub, 1, "O-1")...)
	if err := sub.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	early := r.insert(1, "O-2")
	topic := r.read()
	topic.complete(map[string][]int64{"O-2": early})
	r.waitConfirmed(r.end())
	resume := r.pause()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	began, _ := r.replied()
	eventually(t, "20 status intervals", func() bool {
		var n int
		if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE aggregateid = 'O-1'`).Scan(&n); err != nil || n != 2 {
			t.Fatalf("%d of 2 unpublished rows are left (%v)", n, err)
		}
		at, _ := r.replied()
		return at.Sub(began) > 20*r.cfg.StatusInterval
	})
	resume()
	topic.complete(map[string][]int64{"O-2": early, "O-1": late})
	eventually(t, "empty outbox", func() bool { return r.left() == 0 })
}

// A row that somebody holds makes the pruner wait for it, not fail for good.
func TestPrunerComesBackForRowsThatAreHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = time.Millisecond
	p := r.start()
	p.waitState(cdc.CaughtUp)
	topic := r.read()
	first := r.insert(1, "0")
	topic.complete(map[string][]int64{"0": first})
	resume := r.pause()
	want := r.insert(10, "1")
	holder := r.connect()
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT id FROM outbox WHERE id = $1 FOR UPDATE`, row(want[4], "1").ID); err != nil {
		t.Fatal(err)
	}
	resume()
	want = append(want, r.insert(1, "1")...) // a writer does not wait
	topic.complete(map[string][]int64{"0": first, "1": want})
	eventually(t, "a pruner that waits", func() bool {
		var waits bool
		if err := r.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM%')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "empty outbox", func() bool { return r.left() == 0 })
}

// The role needs REPLICATION, and SELECT and DELETE on the table; with the
// publication there, neither ownership nor more.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = time.Millisecond
	r.exec(`GRANT SELECT, DELETE ON outbox TO ` + r.role("LOGIN REPLICATION"))
	want := map[string][]int64{"1": r.insert(3, "1")}
	p := r.start()
	topic := r.read()
	topic.complete(want)
	want["1"] = append(want["1"], r.insert(3, "1")...)
	topic.complete(want)
	eventually(t, "empty outbox", func() bool { return r.left() == 0 })
	p.stop()
}

// role makes a role for this test and has the publisher use it.
func (r *rig) role(options string) string {
	r.t.Helper()
	u, err := url.Parse(r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	role := "cdc_" + strings.TrimPrefix(u.Path, "/")
	r.exec(fmt.Sprintf(`CREATE ROLE %s %s PASSWORD 'secret'`, role, options))
	r.t.Cleanup(func() {
		if _, err := r.db.Exec(context.Background(), fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role), pgx.QueryExecModeSimpleProtocol); err != nil {
			r.t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "secret")
	r.cfg.Sources[0].DSN = u.String()
	return role
}

// Rows of two partitions may have the same ctid.
func TestPrunerOfAPartitionedOutbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = 20 * time.Second
	r.exec(`DROP PUBLICATION outbox; DROP TABLE outbox;
	        CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload bytea, occurredat timestamptz DEFAULT now(),
	          correlationid text, causationid text, hop int, traceparent text, tracestate text) PARTITION BY RANGE (occurredat);
	        CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
	        CREATE TABLE outbox_now PARTITION OF outbox DEFAULT`)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(3, "1")}
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat)
	        SELECT gen_random_uuid(), 'orders', '2', 'T', n::text::bytea, '2019-01-01' FROM generate_series(1001, 1003) AS n`)
	want["2"] = []int64{1001, 1002, 1003}
	topic := r.read()
	topic.complete(want)
	eventually(t, "old rows pruned", func() bool { return r.left() == 3 })
	var now int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM outbox_now`).Scan(&now); err != nil || now != 3 {
		t.Errorf("%d of 3 young rows are left (%v)", now, err)
	}
}
