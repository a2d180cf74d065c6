package cdc

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"chorus/cdc"
	"chorus/cdc/bookmark"
)

// G2: each committed row is there exactly once, for our own outboxes and as a drop-in, with rows older than the slot, over a clean stop.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	for name, dropIn := range map[string]bool{"own": false, "drop-in": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, dropIn)
			r.insert(r.db, 100, keys...)
			p := r.spawn()
			p.waitState(cdc.CaughtUp)
			for i := range 50 {
				r.insert(r.db, 1+i%7, keys...)
			}
			p.stop()
			r.insert(r.db, 10, keys...)
			p = r.spawn()
			r.exactly()
			p.waitState(cdc.CaughtUp)
		})
	}
}

// spawnToDie starts a publisher that is killed when it comes to a step for the nth time after armed says so.
func (r *rig) spawnToDie(nth int, request string, answered bool, armed func() bool) *process {
	r.t.Helper()
	var seen atomic.Int32
	spawned := make(chan *process, 1)
	r.t.Cleanup(wire.on(r.cfg.Sources[0].Name, func(s step) action {
		if s.request != request || s.answered != answered || !armed() || seen.Add(1) != int32(nth) {
			return pass
		}
		(<-spawned).kill()
		return cut
	}))
	p := r.spawn()
	spawned <- p
	return p
}

func always() bool { return true }

// G2: whatever request to Kafka the publisher is killed before or after, at its first start with rows that are older than the slot.
func TestKilledAtEveryStepOfTheFirstStart(t *testing.T) {
	t.Parallel()
	steps := []struct {
		request string
		times   int
	}{
		{"ApiVersions", 1}, {"Metadata", 2}, {"CreateTopics", 1}, {"DescribeConfigs", 1}, {"FindCoordinator", 1}, {"InitProducerID", 1},
		{"ListOffsets", 1}, {"Fetch", 1},
		// The claim, the position that says First, the rows with their position; and again the claim, the position, the first group.
		{"Produce", 6}, {"EndTxn", 6},
	}
	for _, s := range steps {
		for nth := 1; nth <= s.times; nth++ {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d answered %t", s.request, nth, answered), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, nth%2 == 0)
					r.insert(r.db, 100, keys...)
					p := r.spawnToDie(nth, s.request, answered, always)
					eventually(t, "kill", func() bool { // rows go on coming
						r.insert(r.db, 1, keys...)
						return p.ended()
					})
					r.insert(r.db, 3, keys...)
					r.spawn()
					r.exactly()
				})
			}
		}
	}
}

// G2: the same while rows of all kinds are on their way, and with transactions that are divided over several of Kafka's.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 100, 12_000} {
		for _, request := range []string{"Produce", "EndTxn"} {
			for nth := 1; nth <= 4; nth++ {
				for _, answered := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d rows, %s %d answered %t", size, request, nth, answered), func(t *testing.T) {
						t.Parallel()
						r := newRig(t, nth%2 == 0)
						var armed atomic.Bool
						p := r.spawnToDie(nth, request, answered, armed.Load)
						p.waitState(cdc.CaughtUp)
						r.insert(r.db, 3, keys...)
						armed.Store(true)
						eventually(t, "kill", func() bool {
							r.insert(r.db, size, keys...)
							return p.ended()
						})
						r.insert(r.db, 3, keys...)
						r.spawn()
						r.exactly()
						if size > 10_000 && !slices.ContainsFunc(r.positions(), func(p bookmark.Position) bool { return p.Sequence > 0 }) {
							t.Error("no transaction was divided")
						}
					})
				}
			}
		}
	}
}

// The end of a Kafka transaction is not known to a publisher that lives on: the connection is lost before or after Kafka has the request.
func TestUnknownEndIsResolved(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"Produce", "EndTxn"} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s answered %t", request, answered), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, false)
				p := r.spawn()
				p.waitState(cdc.CaughtUp)
				var cuts atomic.Int32
				t.Cleanup(wire.on(r.cfg.Sources[0].Name, func(s step) action {
					if s.request == request && s.answered == answered && cuts.Add(1)%3 == 1 {
						return cut
					}
					return pass
				}))
				eventually(t, "20 cuts", func() bool {
					r.insert(r.db, 5, keys...)
					return cuts.Load() > 60
				})
				r.exactly()
			})
		}
	}
}

// G2, CDC-10: an owner that is frozen while its transaction ends is replaced, and can publish nothing when it wakes up.
func TestFrozenOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"Produce", "EndTxn"} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, false)
			first := r.spawn()
			first.waitState(cdc.CaughtUp)
			r.insert(r.db, 3, keys...)
			first.waitState(cdc.CaughtUp)
			var held atomic.Bool
			frozen, release := make(chan struct{}), make(chan struct{})
			off := wire.on(r.cfg.Sources[0].Name, func(s step) action {
				if s.request == request && !s.answered && held.CompareAndSwap(false, true) {
					first.signal(syscall.SIGSTOP)
					close(frozen)
					<-release // its request is on the way
				}
				return pass
			})
			t.Cleanup(off)
			r.insert(r.db, 5, keys...)
			<-frozen
			second := r.spawn()
			second.waitState(cdc.CaughtUp)
			r.insert(r.db, 5, keys...)
			close(release)
			first.signal(syscall.SIGCONT)
			first.waitState(cdc.Standby)
			r.insert(r.db, 5, keys...)
			r.exactly()
			if s, ok := second.status(); !ok || s.State == cdc.Stalled {
				t.Errorf("the new owner: %+v", s)
			}
		})
	}
}

// Kafka itself is killed under the publisher. Not parallel: all tests share it.
func TestKafkaIsKilled(t *testing.T) {
	r := newRig(t, false)
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	for range 2 {
		for range 20 {
			r.insert(r.db, 20, keys...)
		}
		if err := cluster.Kill(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			r.insert(r.db, 20, keys...)
		}
		if err := cluster.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.exactly()
	}
}
