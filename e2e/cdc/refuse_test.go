package cdc

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/cdc"
)

// A slot that is ahead of the position, or gone, is not gone on with; a copy under a new name is.
func TestSlotThatIsNotThePositions(t *testing.T) {
	t.Parallel()
	const drop = `SELECT pg_drop_replication_slot($1)`
	for name, c := range map[string]struct {
		changes []string
		reason  string
	}{
		"moved":     {[]string{`SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())`}, "ahead of position"},
		"made anew": {[]string{drop, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`}, "ahead of position"},
		"gone":      {[]string{drop}, "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, false)
			p := r.spawn()
			p.waitState(cdc.CaughtUp)
			r.insert(r.db, 3, keys...)
			r.positions() // they are there
			p.stop()
			r.exec(`CREATE TABLE noise AS SELECT 1 AS n`)
			slot := r.cfg.Sources[0].Slot
			eventually(t, "free slot", func() (free bool) {
				err := r.db.QueryRow(t.Context(), `SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&free)
				return err == nil && free
			})
			for _, sql := range c.changes {
				r.exec(sql, slot)
			}
			p = r.spawn()
			p.waitStalled(c.reason)
			p.stop()
			if name == "gone" {
				return
			}
			r.exec(`SELECT pg_copy_logical_replication_slot($1, $2)`, slot, slot+"_2")
			r.cfg.Sources[0].Slot += "_2"
			r.spawn()
			r.exactly()
		})
	}
}

// A topic that forgets positions by their age is refused.
func TestForgetfulPositionTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	policy := "delete"
	if _, err := kadm.NewClient(client(t)).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, r.cfg.PositionTopic); err != nil {
		t.Fatal(err)
	}
	p := r.spawn()
	p.waitStalled("cleanup.policy delete")
	policy = "compact"
	if _, err := kadm.NewClient(client(t)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, r.cfg.PositionTopic); err != nil {
		t.Fatal(err)
	}
	r.exactly()
}
