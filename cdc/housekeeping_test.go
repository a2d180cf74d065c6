package cdc_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
)

func (r *rig) prune(o cdc.PruneOptions) (cdc.Pruned, error) {
	return cdc.Prune(r.t.Context(), slog.New(slog.DiscardHandler), r.cfg, o)
}

// Only what is confirmed is deleted, also of an outbox that the publisher leaves
// alone; without a publisher it is not known what that is.
func TestPruneDeletesWhatIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.broker.CreateTopic("outbox.event.orders", 3)
	r.cfg.Sources[0].Debezium = map[string]string{}
	o := cdc.PruneOptions{After: time.Millisecond, TimeColumn: "occurredat", Pause: time.Millisecond, Wait: within}
	if _, err := r.prune(o); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("without a slot: %v", err)
	}
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.insert(5000, "1") // more than one batch
	rows := int64(0)
	eventually(t, "empty outbox", func() bool { // a transaction of another test that is open holds up what is known to have ended
		done, err := r.prune(o)
		if err != nil {
			t.Fatal(err)
		}
		rows += done.Rows
		return rows == 5000 && r.left() == 0
	})
	p.stop()
	r.insert(10, "1")
	o.Wait = time.Second
	if _, err := r.prune(o); err == nil || !strings.Contains(err.Error(), "does a publisher run") || r.left() != 10 {
		t.Errorf("without a publisher %d of 10 rows are left: %v", r.left(), err)
	}
	o.TimeColumn = ""
	if _, err := r.prune(o); err == nil || !strings.Contains(err.Error(), "--time-column") {
		t.Errorf("without a column of time: %v", err)
	}
}

func (r *rig) partition() {
	r.exec(`DROP PUBLICATION outbox; DROP TABLE outbox;
	        CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload bytea, occurredat timestamptz NOT NULL DEFAULT now(),
	          correlationid text, causationid text, hop int, traceparent text, tracestate text) PARTITION BY RANGE (occurredat);
	        CREATE TABLE outbox_2018 PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('2019-01-01');
	        CREATE TABLE outbox_2019 PARTITION OF outbox FOR VALUES FROM ('2019-01-01') TO ('2020-01-01');
	        CREATE TABLE outbox_now PARTITION OF outbox FOR VALUES FROM ('2020-01-01') TO (MAXVALUE)`)
}

func (r *rig) partitions() (names string) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid) FROM pg_inherits WHERE inhparent = 'outbox'::regclass`).Scan(&names); err != nil {
		r.t.Fatal(err)
	}
	return names
}

// A partition goes as a whole when all of it is published, however many rows it
// has, and writers go on meanwhile.
func TestPruneDropsPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.partition()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat)
	        SELECT gen_random_uuid(), 'orders', '2', 'T', n::text::bytea, CASE WHEN n % 2 = 0 THEN '2018-05-01' ELSE '2019-05-01' END::timestamptz FROM generate_series(1001, 1020) AS n`)
	young := r.insert(5, "1")

	// A reader of the outbox, a dump say, and writers: nobody waits long for the drop.
	reader, err := r.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `LOCK TABLE outbox_2019 IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	stop, writes := make(chan struct{}), atomic.Int64{}
	wrote := make(chan error, 1)
	writer := r.connect()
	go func() {
		wrote <- func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if _, err := writer.Exec(context.Background(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'orders', '3', 'T', '0')`); err != nil {
					return fmt.Errorf("write: %w", err)
				}
				writes.Add(1)
			}
		}()
	}()
	o := cdc.PruneOptions{After: 24 * time.Hour, DropPartitions: true, Pause: time.Millisecond, Wait: within}
	// A transaction of another test that is open holds up what is known to have ended.
	dropped := func(name string) func() bool {
		return func() bool {
			done, err := r.prune(o)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(done.Partitions, " ") == name
		}
	}
	eventually(t, "drop of the one that nobody reads", dropped("public.outbox_2018"))
	if done, err := r.prune(o); err != nil || len(done.Kept) != 1 || !strings.Contains(done.Kept[0], "outbox_2019 stays") {
		t.Errorf("with a reader: %+v: %v", done, err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat) VALUES (gen_random_uuid(), 'orders', '2', 'T', '1021', '2019-06-01')`)
	eventually(t, "drop of the other", dropped("public.outbox_2019"))
	close(stop)
	if err := <-wrote; err != nil || writes.Load() == 0 {
		t.Errorf("%d rows written meanwhile: %v", writes.Load(), err)
	}
	if got := r.partitions(); got != "outbox_now" {
		t.Errorf("partitions %s are left", got)
	}
	r.read().complete(map[string][]int64{"1": young, "2": {1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017, 1018, 1019, 1020, 1021}})
}

// With rows that are deleted in the transaction that writes them the table is
// always empty, and every one of them is published.
func TestInsertAndDeleteMode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{}
	for range 10 {
		if err := pgx.BeginFunc(t.Context(), r.db, func(tx pgx.Tx) error {
			want["1"] = append(want["1"], r.add(tx, 3, "1")...)
			_, err := tx.Exec(t.Context(), `DELETE FROM outbox`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if n := r.left(); n != 0 {
			t.Fatalf("%d rows are in the table", n)
		}
	}
	if n := r.read().complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}
