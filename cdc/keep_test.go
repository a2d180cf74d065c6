package cdc_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc"
	"chorus/cdc/quarantine"
	"chorus/outbox"
)

// newQuarantineRig has a source that puts into quarantine what Kafka refuses.
func newQuarantineRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.cfg.OnRefused = cdc.Quarantine
	return r
}

// insertRow commits a row that is not as the others.
func (r *rig) insertRow(change func(*outbox.Row), key string) int64 {
	r.t.Helper()
	n := r.next.Add(1)
	x := row(n, key)
	change(&x)
	tx, err := r.db.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := outbox.Append(r.t.Context(), tx, x); err != nil {
		r.t.Fatal(err)
	}
	if err := tx.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// large is a payload that the topic does not take before enlarge.
func large(x *outbox.Row) {
	x.Payload = append(append(x.Payload, ' '), bytes.Repeat([]byte("x"), 1<<20)...)
}

func (r *rig) setTopic(topic, key, value string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) enlarge() { r.setTopic("orders.events", "max.message.bytes", "4000000") }

// quarantined waits until so many rows are kept, and returns the keys.
func (r *rig) quarantined(rows int64) []quarantine.Entry {
	r.t.Helper()
	var all []quarantine.Entry
	eventually(r.t, fmt.Sprintf("%d rows in quarantine", rows), func() bool {
		all, _ = quarantine.List(r.t.Context(), r.db, "orders") // there is no table in the beginning
		var n int64
		for _, e := range all {
			n += e.Rows
		}
		return n == rows
	})
	return all
}

func (r *rig) retry(id int64) {
	r.t.Helper()
	if _, err := quarantine.Retry(r.t.Context(), r.db, "orders", id); err != nil {
		r.t.Fatal(err)
	}
}

// G11, E28, CDC-13: a record that is too large is kept with the later ones of its key, also over kill -9; other keys go on, the
// position passes, and after a retry the key is in order.
func TestQuarantineHoldsOneKey(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(1, "1"), "2": r.insert(1, "2")}
	want["1"] = append(want["1"], r.insertRow(large, "1"))
	want["1"] = append(want["1"], r.insert(2, "1")...)
	want["2"] = append(want["2"], r.insert(2, "2")...)
	all := r.quarantined(3)
	if len(all) != 1 || string(all[0].Key) != "1" || all[0].Topic != "orders.events" || !strings.Contains(all[0].Reason, "max.message.bytes") {
		t.Errorf("%+v", all)
	}
	topic := r.read()
	topic.complete(map[string][]int64{"1": want["1"][:1], "2": want["2"]})
	r.waitConfirmed(r.end())
	p.waitState(cdc.CaughtUp)
	if s, _ := p.ready(); s.Sources[0].Quarantined != 3 || p.metric(`chorus_cdc_quarantine_rows{source="orders"}`) != "3" {
		t.Errorf("%+v", s)
	}
	p.kill()
	want["1"] = append(want["1"], r.insert(1, "1")...)
	p = r.spawn()
	r.quarantined(4)

	r.retry(all[0].First) // nothing has changed
	eventually(t, "second refusal", func() bool { return !r.quarantined(4)[0].Asked })
	r.enlarge()
	r.retry(all[0].First)
	r.quarantined(0)
	want["1"] = append(want["1"], r.insert(2, "1")...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	p.waitState(cdc.CaughtUp)
}

// What is committed while the key is freed stays behind what was kept, again and again, with the process killed in between.
func TestRetryUnderLoadKeepsTheOrder(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	want := map[string][]int64{}
	topic := r.read()
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	for round := range 4 {
		if round > 0 {
			r.setTopic("orders.events", "max.message.bytes", "1048588")
			p.kill()
			p = r.spawn() // it asks for the limit at its start
			p.waitState(cdc.CaughtUp)
		}
		want["1"] = append(want["1"], r.insertRow(large, "1"))
		first := r.quarantined(1)[0].First
		r.enlarge()
		asked := false
		eventually(t, "freed key", func() bool {
			for range 5 {
				want["1"] = append(want["1"], r.insert(1, "1")...)
				want["2"] = append(want["2"], r.insert(1, "2")...)
			}
			if !asked {
				r.retry(first)
				asked = true
			}
			all, err := quarantine.List(t.Context(), r.db, "orders")
			return err == nil && len(all) == 0
		})
	}
	want["1"] = append(want["1"], r.insert(5, "1")...)
	t.Logf("%d rows came twice", topic.complete(want))
}

// A record that is skipped is gone, who and why is on record, and those behind it go on.
func TestSkip(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.insertRow(large, "1")
	want := map[string][]int64{"1": r.insert(2, "1")}
	first := r.quarantined(3)[0].First
	if err := quarantine.Skip(t.Context(), r.db, "orders", first, "anna", "test order"); err != nil {
		t.Fatal(err)
	}
	r.quarantined(0)
	want["1"] = append(want["1"], r.insert(1, "1")...)
	topic := r.read()
	topic.complete(want)
	if len(topic.all) != 3 {
		t.Errorf("%d records, want 3", len(topic.all))
	}
	var by, why string
	if err := r.db.QueryRow(t.Context(), `SELECT settled_by, note FROM chorus_cdc_quarantine WHERE id = $1 AND state = 'skipped'`, first).Scan(&by, &why); err != nil || by != "anna" || why != "test order" {
		t.Errorf("%q, %q, %v", by, why, err)
	}
	if err := quarantine.Skip(t.Context(), r.db, "orders", first, "anna", "again"); err == nil {
		t.Error("skipped twice")
	}
	// One without another behind it.
	r.insertRow(large, "1")
	if err := quarantine.Skip(t.Context(), r.db, "orders", r.quarantined(1)[0].First, "anna", "test order"); err != nil {
		t.Fatal(err)
	}
	want["1"] = append(want["1"], r.insert(1, "1")...)
	topic.complete(want)
}

// E29, E32: every kind of refusal that can be foreseen, and that a topic appears.
func TestQuarantineOfEachKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused func(*outbox.Row)
		prepare func(*rig)
		reason  string
		cure    func(*rig)
	}{
		"unknown topic": {func(x *outbox.Row) { x.AggregateType = "missing" }, nil, "does not exist", func(r *rig) { r.broker.CreateTopic("missing.events", 1) }},
		"invalid topic": {func(x *outbox.Row) { x.AggregateType = "Bestellung/Köln ü" }, nil, "cannot be a topic's name", nil},
		"long topic":    {func(x *outbox.Row) { x.AggregateType = strings.Repeat("x", 250) }, nil, "cannot be a topic's name", nil},
		"too large":     {large, nil, "max.message.bytes", (*rig).enlarge},
		"too old": {func(x *outbox.Row) { x.AggregateType = "old" }, func(r *rig) {
			r.broker.CreateTopic("old.events", 1)
			r.setTopic("old.events", "message.timestamp.before.max.ms", "1")
		}, "none that old", func(r *rig) { r.setTopic("old.events", "message.timestamp.before.max.ms", "9223372036854775807") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newQuarantineRig(t)
			if c.prepare != nil {
				c.prepare(r)
			}
			p := r.start()
			p.waitState(cdc.CaughtUp)
			p.stop()
			r.insertRow(c.refused, "1") // as old as a start takes: more than a millisecond
			r.start()
			all := r.quarantined(1)
			if !strings.Contains(all[0].Reason, c.reason) {
				t.Errorf("reason %q, want one that speaks of %s", all[0].Reason, c.reason)
			}
			want := map[string][]int64{"2": r.insert(3, "2")}
			r.read().complete(want)
			if c.cure == nil {
				return
			}
			c.cure(r)
			eventually(t, "publication", func() bool { // a topic that was missing is asked for again after a while
				r.retry(all[0].First)
				left, err := quarantine.List(t.Context(), r.db, "orders")
				return err == nil && len(left) == 0
			})
		})
	}
}

// A broker with rules of its own refuses a whole request for one record. That one is found, the others are published.
func TestQuarantineOfWhatWasNotForeseen(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	var strict atomic.Bool
	strict.Store(true)
	r.broker.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		produce := req.(*kmsg.ProduceRequest)
		if !strict.Load() || !slices.ContainsFunc(produce.Topics, func(t kmsg.ProduceRequestTopic) bool {
			return slices.ContainsFunc(t.Partitions, func(p kmsg.ProduceRequestTopicPartition) bool { return bytes.Contains(p.Records, []byte("forbidden")) })
		}) {
			return nil, nil, false
		}
		return refusal(produce, kerr.InvalidRecord.Code), nil, true
	})
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{}
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		key := strconv.Itoa(i % 5)
		if i == 13 {
			x := row(r.next.Add(1), key)
			x.Payload = append(x.Payload, " forbidden"...)
			if err := outbox.Append(t.Context(), tx, x); err != nil {
				t.Fatal(err)
			}
			want[key] = append(want[key], r.next.Load())
			continue
		}
		want[key] = append(want[key], r.add(tx, 1, key)...)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := r.quarantined(4) // and the three behind it
	if len(all) != 1 || !strings.Contains(all[0].Reason, "INVALID_RECORD") {
		t.Errorf("%+v", all)
	}
	p.waitState(cdc.CaughtUp)
	r.retry(all[0].First)
	eventually(t, "second refusal", func() bool { return !r.quarantined(4)[0].Asked })
	strict.Store(false)
	r.retry(all[0].First)
	r.quarantined(0)
	r.read().complete(want)
}

// A role that may not make or write the table is told what to do, and nothing is published that could not be kept.
func TestQuarantineNeedsRights(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	name := "q_" + strings.TrimPrefix(r.slot(), "chorus_")
	r.exec(fmt.Sprintf(`CREATE ROLE %[1]s LOGIN REPLICATION PASSWORD 'x'; GRANT SELECT, DELETE ON outbox TO %[1]s; REVOKE CREATE ON SCHEMA public FROM PUBLIC`, name))
	c, err := pgx.ParseConfig(r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Sources[0].DSN = fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=x", c.Host, c.Port, c.Database, name)
	p := r.start()
	p.waitStalled("chorus cdc quarantine schema")
	r.exec(quarantine.Schema)
	p.waitStalled("GRANT SELECT, INSERT, UPDATE ON")
	r.exec(fmt.Sprintf(`GRANT %s ON %s TO %s`, quarantine.Rights, quarantine.Table, name))
	p.waitState(cdc.CaughtUp)
	r.insertRow(large, "1")
	r.quarantined(1)
	p.stop()
	r.exec(fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, name))
}

// Keys that are held stay held when the option is taken away: their later records would overtake what is kept.
func TestKeysStayHeldWithoutTheOption(t *testing.T) {
	t.Parallel()
	r := newQuarantineRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": {r.insertRow(large, "1")}}
	first := r.quarantined(1)[0].First
	p.stop()
	r.cfg.OnRefused = ""
	p = r.start()
	want["1"] = append(want["1"], r.insert(2, "1")...)
	want["2"] = r.insert(2, "2")
	r.quarantined(3)
	r.enlarge()
	r.retry(first)
	r.quarantined(0)
	r.read().complete(want)
	p.waitState(cdc.CaughtUp)
}
