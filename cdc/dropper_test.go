package cdc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
)

// writeMeanwhile writes rows of a key, none of which may wait long, until the returned function is called, which returns how many.
func (r *rig) writeMeanwhile(key string) (stop func() int) {
	r.t.Helper()
	db := r.connect()
	if _, err := db.Exec(r.t.Context(), `SET lock_timeout = '5s'`); err != nil {
		r.t.Fatal(err)
	} // the publisher gives up after a fiftieth of it
	ctx, cancel := context.WithCancel(r.t.Context())
	type outcome struct {
		rows int
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		for ctx.Err() == nil && o.err == nil {
			_, o.err = db.Exec(context.Background(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'orders', $1, 'T', '0')`, key)
			o.rows++
		}
		done <- o
	}()
	return func() int {
		r.t.Helper()
		cancel()
		o := <-done
		if o.err != nil {
			r.t.Errorf("write: %v", o.err)
		}
		return o.rows
	}
}

// The running publisher drops a partition when all of it is published and not
// before; rows of one that has no end are deleted.
func TestPrunerDropsPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.partition()
	r.cfg.PruneAfter, r.cfg.DropPartitions = 10*time.Second, true
	p := r.start()
	p.waitState(cdc.CaughtUp)
	old := func(from, to int, at string) []int64 {
		t.Helper()
		r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat)
		        SELECT gen_random_uuid(), 'orders', '2', 'T', n::text::bytea, $3::timestamptz FROM generate_series($1::int, $2) AS n`, from, to, at)
		var numbers []int64
		for n := from; n <= to; n++ {
			numbers = append(numbers, int64(n))
		}
		return numbers
	}
	want := map[string][]int64{"2": old(1001, 1010, "2018-05-01")}
	topic := r.read()
	topic.complete(want)
	eventually(t, "drop of what is published", func() bool { r.left(); return r.partitions() == "outbox_now" })

	resume := r.pause()
	r.exec(`BEGIN; CREATE TABLE outbox_2019 PARTITION OF outbox FOR VALUES FROM ('2019-01-01') TO ('2020-01-01')`)
	want["2"] = append(want["2"], old(1011, 1020, "2019-05-01")...)
	r.exec(`COMMIT`)
	want["2"] = append(want["2"], old(1021, 1023, "2020-05-01")...)
	want["1"] = r.insert(3, "1")
	began, _ := r.replied()
	eventually(t, "60 status intervals", func() bool {
		if n := r.left(); n != 16 || r.partitions() != "outbox_now outbox_2019" {
			t.Fatalf("%d of 16 unacknowledged rows are left, and the partitions %s", n, r.partitions())
		}
		at, _ := r.replied()
		return at.Sub(began) > 60*r.cfg.StatusInterval
	})
	// A reader of the partition, a dump say, keeps it; writers go on.
	reader, err := r.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), `LOCK TABLE outbox_2019 IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	stop := r.writeMeanwhile("3")
	resume()
	eventually(t, "deletes in the partition without an end", func() bool {
		return r.left() > 0 && r.count(`occurredat < '2021-01-01' AND occurredat > '2020-01-01'`) == 0
	})
	if got := r.partitions(); got != "outbox_now outbox_2019" {
		t.Errorf("with a reader the partitions %s are left", got)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "drop of the other", func() bool { r.left(); return r.partitions() == "outbox_now" })
	if stop() == 0 {
		t.Error("nobody wrote meanwhile")
	}
	topic.complete(want)
}

func (r *rig) count(where string) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT count(*) FROM outbox WHERE `+where).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// A role that does not own the table says so once, and deletes rows.
func TestPrunerThatMayNotDropDeletes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.partition()
	r.cfg.PruneAfter, r.cfg.DropPartitions = 10*time.Second, true
	role := r.role("LOGIN REPLICATION")
	r.exec(`CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true); GRANT SELECT, DELETE ON outbox, outbox_2018, outbox_2019, outbox_now TO ` + role)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	if _, err := r.db.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat) VALUES (gen_random_uuid(), 'orders', '2', 'T', '1', '2018-05-01')`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deletes", func() bool { return r.left() == 0 })
	if got := r.partitions(); !strings.Contains(got, "outbox_2018") {
		t.Errorf("partitions %s are left", got)
	}
	p.stop()
}
