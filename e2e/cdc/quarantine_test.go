package cdc

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/cdc"
	"chorus/cdc/quarantine"
)

// insertLarge commits a row that the topic does not take before enlarge.
func (r *rig) insertLarge(key string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.want[key] = append(r.want[key], r.next)
	aggregateType, _, _ := strings.Cut(r.topic, ".")
	r.exec(insertRow, aggregateType, key, []byte(fmt.Sprint(r.next)+strings.Repeat(" ", 1<<20)))
}

func (r *rig) limit(bytes string) {
	r.t.Helper()
	if _, err := kadm.NewClient(client(r.t)).AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, r.topic); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) waitQuarantined(rows int64) (entries []quarantine.Entry) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d rows in quarantine", rows), func() bool {
		entries, _ = quarantine.List(r.t.Context(), r.db, r.cfg.Sources[0].Name) // there is no table in the beginning
		var n int64
		for _, e := range entries {
			n += e.Rows
		}
		return n == rows
	})
	return entries
}

// G2, G11: with exactly-once what was kept is published once and in order, whatever step of that the publisher is killed at.
func TestKilledWhileTheQuarantineIsPublished(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"Produce", "EndTxn"} {
		for nth := 1; nth <= 3; nth++ {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d answered %t", request, nth, answered), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, false)
					r.cfg.OnRefused = cdc.Quarantine
					p := r.spawn()
					p.waitState(cdc.CaughtUp)
					r.insert(r.db, 10, keys...)
					r.insertLarge("a")
					r.insert(r.db, 20, keys...)
					first := r.waitQuarantined(3)[0].First
					p.kill()
					r.limit("4000000")
					var asked atomic.Bool
					p = r.spawnToDie(nth, request, answered, asked.Load)
					p.waitState(cdc.CaughtUp)
					asked.Store(true)
					retry := func() { // again: the new limit may not be known everywhere yet
						if _, err := quarantine.Retry(t.Context(), r.db, r.cfg.Sources[0].Name, first); err != nil {
							t.Fatal(err)
						}
					}
					eventually(t, "kill", func() bool {
						retry()
						r.insert(r.db, 1, keys...)
						return p.ended()
					})
					r.spawn()
					eventually(t, "empty quarantine", func() bool {
						retry()
						left, err := quarantine.List(t.Context(), r.db, r.cfg.Sources[0].Name)
						return err == nil && len(left) == 0
					})
					r.exactly()
				})
			}
		}
	}
}
