package cdc_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/outbox"
)

// CDC-10: while another session has the slot the publisher waits, says so, and
// takes over; the slot is neither dropped nor made anew.
func TestSlotBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.spawn()
	first.waitState(cdc.CaughtUp)
	second := r.start()
	second.waitStalled("slot busy")
	second.waitState(cdc.Standby)
	want := map[string][]int64{"1": r.insert(10, "1")}
	topic := r.read()
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice: both publish", n)
	}
	first.kill()
	want["1"] = append(want["1"], r.insert(10, "1")...)
	second.waitState(cdc.CaughtUp)
	topic.complete(want)
	third := r.spawn() // within moments of a kill, with the slot taken by the second
	third.waitStalled("slot busy")
	second.stop()
	third.waitState(cdc.CaughtUp)
	want["1"] = append(want["1"], r.insert(10, "1")...)
	topic.complete(want)
}

// CDC-07: the state cannot be repaired by making the publication, so the cure
// is named; with it everything that the table holds is published.
func TestSlotOlderThanThePublication(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"publication made late": true, "no publication": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.exec(`DROP PUBLICATION outbox`)
			r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
			want := map[string][]int64{"1": r.insert(1, "1")}
			if late {
				r.exec(outbox.Schema)
			}
			p := r.start()
			p.waitStalled("pg_drop_replication_slot")
			r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active`, r.slot())
			eventually(t, "drop", func() bool {
				_, err := r.db.Exec(t.Context(), `SELECT pg_drop_replication_slot($1)`, r.slot())
				return err == nil
			})
			if _, err := r.db.Exec(t.Context(), `DELETE FROM chorus_cdc_position WHERE slot = $1`, r.slot()); err != nil {
				t.Log(err) // the table is made when the stream is seen to work, if it is
			}
			topic := r.read()
			want["1"] = append(want["1"], r.insert(1, "1")...)
			topic.complete(want)
			p.waitState(cdc.CaughtUp)
		})
	}
}

func TestUnusableDatabaseIsNamedAndRecovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ broken, reason, cure string }{
		"no table":           {`ALTER TABLE outbox RENAME TO elsewhere`, "table public.outbox does not exist", `ALTER TABLE elsewhere RENAME TO outbox`},
		"no inserts":         {`ALTER PUBLICATION outbox SET (publish = 'delete')`, "publish = 'insert'", `ALTER PUBLICATION outbox SET (publish = 'insert')`},
		"table not included": {`ALTER PUBLICATION outbox DROP TABLE outbox`, "ADD TABLE", `ALTER PUBLICATION outbox ADD TABLE outbox`},
		"CDC-09: partitions under their own names": {
			`DROP TABLE outbox;
			 CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload bytea, occurredat timestamptz DEFAULT now(),
			   correlationid text, causationid text, hop int, traceparent text, tracestate text) PARTITION BY RANGE (occurredat);
			 CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
			 CREATE TABLE outbox_now PARTITION OF outbox DEFAULT;
			 ALTER PUBLICATION outbox ADD TABLE outbox`,
			"publish_via_partition_root", `ALTER PUBLICATION outbox SET (publish_via_partition_root = true)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.exec(c.broken)
			p := r.start()
			p.waitStalled(c.reason)
			r.exec(c.cure)
			p.waitState(cdc.CaughtUp)
			want := map[string][]int64{"1": r.insert(3, "1")}
			r.read().complete(want)
		})
	}
}

func TestPublicationIsMadeWithTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DROP PUBLICATION outbox`)
	want := map[string][]int64{"1": r.insert(3, "1")}
	r.start()
	topic := r.read()
	topic.complete(want)
	want["1"] = append(want["1"], r.insert(3, "1")...)
	topic.complete(want)
	var inserts, deletes bool
	if err := r.db.QueryRow(t.Context(), `SELECT pubinsert, pubdelete FROM pg_publication`).Scan(&inserts, &deletes); err != nil || !inserts || deletes {
		t.Errorf("publishes inserts: %t, deletes: %t (%v)", inserts, deletes, err)
	}
}

// CDC-13: nothing overtakes the row that Kafka would refuse, it is not skipped,
// and when the topic takes it all goes on without repeats.
func TestRecordTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	before := r.insert(1, "O-1")
	topic := r.read()
	topic.complete(map[string][]int64{"O-1": before})
	k := r.next.Add(1)
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ($1, 'orders', 'O-1', 'A', convert_to($2 || repeat(' ', 2000000), 'UTF8'))`,
		fmt.Sprintf("00000000-0000-0000-0000-%012d", k), strconv.FormatInt(k, 10))
	stuck := r.end()
	small := r.insert(1, "O-1")
	other := r.insert(1, "O-2")
	p.waitStalled("max.message.bytes")
	if at := r.confirmed(); at >= stuck {
		t.Errorf("confirmed %X, beyond the refused row", at)
	}
	if len(topic.all) != 1 {
		t.Errorf("%d records, want the one before the refused row", len(topic.all))
	}
	r.configure("orders.events", "max.message.bytes", "3000000")
	if n := topic.complete(map[string][]int64{"O-1": {before[0], k, small[0]}, "O-2": other}); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	p.waitState(cdc.CaughtUp)
}

func (r *rig) configure(topic, key, value string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	done, err := kadm.NewClient(client).AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err != nil || done[0].Err != nil {
		r.t.Fatalf("configure %s: %v, %v", topic, err, done)
	}
}

// A topic that is not there holds its source, and only that.
func TestUnknownTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	first := r.insert(1, "1")
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-0000-0000-00000000abcd', 'billing', '1', 'T', '7000')`)
	last := r.insert(1, "1")
	p.waitStalled("topic billing.events does not exist")
	topic := r.read()
	topic.complete(map[string][]int64{"1": first})
	if len(topic.all) != 1 {
		t.Errorf("%d records, want the one before the refused row", len(topic.all))
	}
	r.broker.CreateTopic("billing.events", 1)
	if n := topic.complete(map[string][]int64{"1": append(first, last...)}); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	p.waitState(cdc.CaughtUp)
}

// E29: no topic can have this name; the row stays where an operator sees it.
func TestImpossibleTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES ('00000000-0000-0000-0000-00000000abcd', 'Bestellung/Köln ü', '1', 'T')`)
	p.waitStalled("cannot be a topic's name")
}

// D8: the embedded broker forgets open transactions when it is killed.
func TestExactlyOnceIsRefusedOnTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Delivery = cdc.ExactlyOnce
	p := r.start()
	p.waitStalled("embedded broker")
	if r.confirmed() != 0 {
		t.Error("a slot was made")
	}
}
