package cdc_test

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc"
)

// value is a series as a number; -1 while it is missing.
func (p *running) value(series string) float64 {
	p.t.Helper()
	text := p.metric("chorus_cdc_" + series)
	if text == "" {
		return -1
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *running) waitValue(series string, want float64) {
	p.t.Helper()
	got := 0.0
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s is %g, want %g", series, got, want)
		}
	}()
	eventually(p.t, "value of "+series, func() bool {
		got = p.value(series)
		return got == want
	})
}

// wireBytes is the length of a record in a batch, as the client's own encoder has it.
func wireBytes(r *kgo.Record) int {
	rec := kmsg.Record{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	length := int32(len(rec.AppendTo(nil)) - 1) // of a length of zero, which takes one byte
	rec.Length = length
	return len(rec.AppendTo(nil))
}

// Each metric by value: what was published, what is in flight, how the slot is.
func TestMetricsTellWhatIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	const long = "a longer key, so that lengths differ"
	want := map[string][]int64{"1": r.insert(30, "1"), long: r.insert(12, long)}
	topic := r.read()
	topic.complete(want)
	bytes := 0
	for _, rec := range topic.all {
		bytes += wireBytes(rec)
	}
	const of = `{source="orders"}`
	p.waitValue("rows_total"+of, 42)
	p.waitValue("records_total"+of, 42)
	p.waitValue("record_bytes_total"+of, float64(bytes))
	p.waitValue("commit_to_ack_seconds_count"+of, 42)
	p.waitValue("reconnects_total"+of, 0)
	p.waitValue("pruned_rows_total"+of, 0)
	p.waitValue("ready"+of, 1)
	p.waitValue("transactions_in_flight"+of, 0)
	p.waitValue("unacknowledged_records"+of, 0)
	p.waitState(cdc.CaughtUp)
	p.waitValue(`state{source="orders",state="caught up"}`, 1)
	p.waitValue(`state{source="orders",state="stalled"}`, 0)

	resume := r.pause()
	for range 3 {
		r.insert(5, "3")
	}
	p.waitValue("unacknowledged_records"+of, 15)
	p.waitValue("transactions_in_flight"+of, 3)
	if p.value("slot_lag_bytes"+of) <= 0 {
		eventually(t, "lag", func() bool { return p.value("slot_lag_bytes"+of) > 0 })
	}
	resume()
	p.waitValue("transactions_in_flight"+of, 0)
	r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1`, r.slot())
	p.waitValue("reconnects_total"+of, 1)
}

// What the server says of the slot is what is shown, and the time to its loss
// follows from how fast the log grows.
func TestMetricsOfTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.exec(`CREATE TABLE filler (x text)`)
	resume := r.pause()
	defer resume()
	r.insert(1, "1")
	const of = `{source="orders"}`
	// Other tests write to the log at the same time: what is shown lies between
	// two readings of ours.
	type reading struct{ lag, retained, safe float64 }
	read := func() (v reading) {
		if err := r.db.QueryRow(t.Context(), `SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::float8, (pg_current_wal_lsn() - restart_lsn)::float8, safe_wal_size::float8
		  FROM pg_replication_slots WHERE slot_name = $1`, r.slot()).Scan(&v.lag, &v.retained, &v.safe); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := read()
	r.exec(`INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 2000)`)
	for name, of := range map[string]func(reading) float64{
		"slot_lag_bytes" + of:     func(v reading) float64 { return v.lag },
		"retained_wal_bytes" + of: func(v reading) float64 { return v.retained },
	} {
		eventually(t, name, func() bool {
			low := of(before)
			got := p.value(name)
			return got > low && got <= of(read())
		})
	}
	eventually(t, "safe_wal_bytes", func() bool {
		high := before.safe
		got := p.value("safe_wal_bytes" + of)
		return got > 0 && got <= high && got >= read().safe
	})
	eventually(t, "slot_loss_seconds", func() bool { return p.value("slot_loss_seconds"+of) > 0 })
}
