package cdc_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/outbox"
)

func TestRecordHasTheContractedForm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	full := outbox.Row{ID: [16]byte{0: 0xAB, 15: 1}, AggregateType: "orders", AggregateID: "8842", Type: "OrderPlaced",
		Payload: []byte{0, 0, 0, 0, 7, 0xFF, '\\'}, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC),
		CorrelationID: "8842", CausationID: "ä-1", Hop: 3, TraceParent: "00-a-b-01", TraceState: "x=y"}
	null := outbox.Row{ID: [16]byte{15: 2}, AggregateType: "orders", AggregateID: "8842", Type: "OrderShipped", OccurredAt: full.OccurredAt}
	empty := null
	empty.ID, empty.Payload = [16]byte{15: 3}, []byte{}
	before := time.Now().Add(-time.Second)
	if err := outbox.Append(t.Context(), tx, full, null, empty); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	topic := r.read()
	topic.wait(3)
	got := topic.all[0]
	var headers []string
	for _, h := range got.Headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	if diff := cmp.Diff([]string{
		"id=ab000000-0000-0000-0000-000000000001", "eventType=OrderPlaced", "aggregateType=orders",
		"occurredAt=2026-01-02T03:04:05.600000Z", "correlationId=8842", "causationId=ä-1", "hop=3",
		"traceparent=00-a-b-01", "tracestate=x=y"}, headers); diff != "" {
		t.Error(diff)
	}
	if string(got.Key) != "8842" || !bytes.Equal(got.Value, full.Payload) || got.Topic != "orders.events" {
		t.Errorf("record %s/%s %q", got.Topic, got.Key, got.Value)
	}
	if got.Timestamp.Before(before) || got.Timestamp.After(time.Now().Add(time.Second)) {
		t.Errorf("timestamp %s is not the commit's", got.Timestamp)
	}
	if n := len(topic.all[1].Headers); n != 7 {
		t.Errorf("%d headers without a trace, want 7", n)
	}
	if topic.all[1].Value != nil {
		t.Errorf("NULL became %q", topic.all[1].Value)
	}
	if v := topic.all[2].Value; v == nil || len(v) != 0 {
		t.Errorf("an empty payload became %v", v)
	}
}

// CDC-17: partitions are those of the Java client.
func TestPartitionIsThatOfTheJavaClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cases := []struct {
		owner, key string
		of, want   int32
	}{
		{"a", "TT0124", 15, 10},
		{"b", "wu", 10, 0},
		{"b", "354afe16-939a-4ea8-8e17-8bb0840b6886", 10, 4},
		{"b", "f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5},
		{"c", "fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26},
	}
	made := map[string]bool{}
	for i, c := range cases {
		if !made[c.owner] {
			made[c.owner] = true
			r.broker.CreateTopic(c.owner+".events", c.of)
		}
		r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES ($1, $2, $3, 'T')`,
			fmt.Sprintf("00000000-0000-0000-0000-%012d", i+1), c.owner, c.key)
	}
	r.start()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ConsumeTopics("a.events", "b.events", "c.events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := &topic{t: t, client: client}
	topic.wait(len(cases))
	for _, c := range cases {
		for _, got := range topic.all {
			if string(got.Key) == c.key && got.Partition != c.want {
				t.Errorf("key %s is in partition %d of %d, want %d", c.key, got.Partition, c.of, c.want)
			}
		}
	}
}

func TestRowsOlderThanTheSlotArePublished(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := map[string][]int64{"1": r.insert(10, "1")}
	p := r.start()
	topic := r.read()
	topic.complete(want)
	want["1"] = append(want["1"], r.insert(3, "1")...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	p.stop()
	r.start().waitState("caught up")
	want["1"] = append(want["1"], r.insert(1, "1")...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice after the restart: the table was read again", n)
	}
}

// G3, E16: a clean stop confirms what was acknowledged, so nothing comes twice.
func TestCleanStopsRepeatNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.read()
	want := map[string][]int64{}
	for round := range 5 {
		p := r.start()
		for i := range 20 {
			key := fmt.Sprint(i % 4)
			want[key] = append(want[key], r.insert(1+i%3, key)...)
		}
		if round%2 == 0 {
			p.waitState("caught up")
		}
		p.stop()
	}
	r.start()
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

// Interleaved transactions (E5, CDC-15) and savepoints: commit order counts,
// and what was rolled back does not exist.
func TestCommitOrderAndSavepoints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState("caught up")
	other := r.connect()
	slow, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := r.add(slow, 1, "7") // takes its id first, commits last
	early := r.insert(1, "7")
	topic := r.read()
	topic.wait(1)
	sub, err := slow.Begin(t.Context()) // savepoint
	if err != nil {
		t.Fatal(err)
	}
	r.add(sub, 100, "7")
	if err := sub.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept, err := slow.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late = append(late, r.add(kept, 2, "7")...)
	if err := kept.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := topic.complete(map[string][]int64{"7": append(early, late...)}); n != 0 || len(topic.all) != 4 {
		t.Errorf("%d records, %d of them twice, want 4", len(topic.all), n)
	}
}

// CDC-04: none of these ends the publisher, and the slot passes them.
func TestTruncateTypeAndOriginAreSurvived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`ALTER PUBLICATION outbox SET (publish = 'insert, update, delete, truncate')`)
	p := r.start()
	p.waitState("caught up")
	r.exec(`CREATE TYPE mood AS ENUM ('good'); ALTER TABLE outbox ADD COLUMN mood mood`)
	want := map[string][]int64{"1": r.insert(1, "1")}
	r.exec(`TRUNCATE outbox`)
	r.exec(`SELECT pg_replication_origin_create('origin_' || current_database());
	        SELECT pg_replication_origin_session_setup('origin_' || current_database())`)
	want["1"] = append(want["1"], r.insert(1, "1")...)
	r.exec(`SELECT pg_replication_origin_session_reset(); SELECT pg_replication_origin_drop('origin_' || current_database())`)
	topic := r.read()
	topic.complete(want)
	r.waitConfirmed(r.end())
	p.stop()
	r.start().waitState("caught up")
	want["1"] = append(want["1"], r.insert(1, "1")...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

// CDC-18, CDC-22: each inserted row once, with its first value; no tombstone.
func TestInsertAndDeleteInOneTransactionAndUpdate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`ALTER PUBLICATION outbox SET (publish = 'insert, update, delete, truncate')`)
	r.exec(`ALTER TABLE outbox ALTER COLUMN payload SET STORAGE EXTERNAL, ADD COLUMN published timestamptz`)
	r.start().waitState("caught up")
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := r.add(tx, 1, "1")
	if _, err := tx.Exec(t.Context(), `DELETE FROM outbox`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = append(want, r.insert(1, "1")...)
	r.exec(`UPDATE outbox SET payload = convert_to(repeat('x', 4096), 'UTF8')`)
	r.exec(`UPDATE outbox SET published = now()`) // leaves the large value out
	r.exec(`DELETE FROM outbox`)
	want = append(want, r.insert(1, "1")...)
	topic := r.read()
	if n := topic.complete(map[string][]int64{"1": want}); n != 0 || len(topic.all) != 3 {
		t.Errorf("%d records, want 3", len(topic.all))
	}
}

// CDC-08: once with the publisher up, once with a backlog that spans the change.
func TestColumnDroppedAndAddedAgain(t *testing.T) {
	t.Parallel()
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprintf("up=%t", up), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.start()
			p.waitState("caught up")
			if !up {
				p.stop()
			}
			first := r.insert(1, "O-1")
			r.exec(`ALTER TABLE outbox DROP COLUMN aggregateid; ALTER TABLE outbox ADD COLUMN aggregateid text`)
			second := r.insert(1, "O-2")
			if !up {
				r.start()
			}
			topic := r.read()
			if topic.complete(map[string][]int64{"O-1": first, "O-2": second}); len(topic.all) != 2 {
				t.Errorf("%d records, want 2", len(topic.all))
			}
		})
	}
}
