package cdc_test

import (
	"testing"

	"chorus/cdc"
	"chorus/outbox"
)

// The slot comes after the acknowledgements of the rows that are older than it:
// killed in between, the publisher reads the table again.
func TestKillWhileTheOlderRowsAreInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	resume := r.pause()
	want := map[string][]int64{"1": r.insert(50, "1")}
	p := r.spawn()
	p.waitStalled("older than the slot")
	polls := 0
	eventually(t, "50 looks", func() bool {
		if r.confirmed() != 0 {
			t.Fatal("the slot was made before the acknowledgements")
		}
		polls++
		return polls == 50
	})
	p.kill()
	resume()
	r.start()
	topic := r.read()
	topic.complete(want)
	want["1"] = append(want["1"], r.insert(5, "1")...)
	topic.complete(want)
}

// A table with the five columns that Debezium documents, and jsonb.
func TestDebeziumsOwnTable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DROP PUBLICATION outbox; DROP TABLE outbox;
	        CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)`)
	insert := `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'orders', '1', 'T', $1)`
	r.exec(insert, `{"b": 1}`)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.exec(insert, `{"b": 2}`)
	topic := r.read()
	topic.wait(2)
	for i, want := range []string{`{"b": 1}`, `{"b": 2}`} {
		if got := topic.all[i]; string(got.Value) != want || len(got.Headers) != 3 {
			t.Errorf("value %s with %d headers, want %s with 3", got.Value, len(got.Headers), want)
		}
	}
}

// Two sources in one process; one that stands still does not hold the other up.
func TestSourcesAreApart(t *testing.T) {
	t.Parallel()
	a, b := newRig(t), newRig(t)
	a.cfg.Sources = append(a.cfg.Sources, b.cfg.Sources[0])
	a.cfg.Sources[1].Name = "inventory"
	b.exec(`ALTER TABLE outbox RENAME TO elsewhere`)
	p := a.start()
	p.waitState(cdc.CaughtUp)
	topic := a.read()
	want := map[string][]int64{"1": a.insert(3, "1")}
	topic.complete(want)
	eventually(t, "not ready", func() bool {
		r, ok := p.ready()
		return ok && !r.Ready && r.Sources[0].State == cdc.CaughtUp && r.Sources[1].State == cdc.Stalled
	})
	b.exec(`ALTER TABLE elsewhere RENAME TO outbox`)
	b.exec(outbox.Schema)
	eventually(t, "ready", func() bool { r, ok := p.ready(); return ok && r.Ready })
}
