package cdc_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// forget is the last step of most cures.
func (r *rig) forget() {
	r.t.Helper()
	r.exec(`DELETE FROM chorus_cdc_position WHERE slot = $1`, r.slot())
}

func (r *rig) dropSlot() {
	r.t.Helper()
	eventually(r.t, "drop of the slot", func() bool {
		_, err := r.db.Exec(r.t.Context(), `SELECT pg_drop_replication_slot($1)`, r.slot())
		return err == nil
	})
}

// waitFree waits until the session that streamed has ended: what a publisher
// confirms last comes to the slot a moment after it stopped.
func (r *rig) waitFree() {
	r.t.Helper()
	eventually(r.t, "free slot", func() bool { _, pid := r.replied(); return pid == 0 })
}

// E19, and the slot that somebody moved: rows were passed over, which is seen
// though the slot looks like any other, and the cure is named.
func TestSlotThatIsNotTheOneThatWasLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm   func(*rig)
		reason string
	}{
		"made anew": {func(r *rig) {
			r.dropSlot()
			r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
		}, "ahead of"},
		"moved":   {func(r *rig) { r.exec(`SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())`, r.slot()) }, "ahead of"},
		"missing": {func(r *rig) { r.dropSlot() }, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.start()
			want := map[string][]int64{"1": r.insert(3, "1")}
			topic := r.read()
			topic.complete(want)
			p.waitState(cdc.CaughtUp)
			p.stop()
			r.waitFree()
			passed := r.insert(3, "1")
			c.harm(r)
			p = r.start()
			p.waitStalled(c.reason)
			if s, _ := p.ready(); !strings.Contains(s.Sources[0].Reason, `DELETE FROM "public"."chorus_cdc_position" WHERE slot = '`+r.slot()+"'") {
				t.Errorf("no cure in %q", s.Sources[0].Reason)
			}
			if n := p.metric(`chorus_cdc_rows_total{source="orders"}`); n != "0" {
				t.Errorf("%s rows read", n)
			}
			r.forget()
			p.waitState(cdc.CaughtUp)
			want["1"] = append(want["1"], r.insert(1, "1")...)
			if name == "missing" { // the table is read again
				want["1"] = append(want["1"][:3], append(passed, want["1"][3:]...)...)
			}
			topic.complete(want)
		})
	}
}

// The slot is told of no position before the table has it, and after a kill at
// any time neither is ahead of Kafka; an idle database becomes quiet.
func TestPositionIsKeptBesideTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.read()
	want := map[string][]int64{}
	for round := range 5 {
		p := r.spawn()
		p.waitState(cdc.CaughtUp)
		eventually(t, "positions in order", func() bool {
			want["1"] = append(want["1"], r.insert(3, "1")...)
			var kept, confirmed int64
			if err := r.db.QueryRow(t.Context(), `SELECT (p.lsn - '0/0')::bigint, (s.confirmed_flush_lsn - '0/0')::bigint
			  FROM pg_replication_slots AS s JOIN chorus_cdc_position AS p ON p.slot = s.slot_name WHERE s.slot_name = $1`, r.slot()).Scan(&kept, &confirmed); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
			return kept > 0 && len(want["1"]) > (round+1)*300
		})
		p.kill()
		var kept, confirmed int64
		if err := r.db.QueryRow(t.Context(), `SELECT (p.lsn - '0/0')::bigint, (s.confirmed_flush_lsn - '0/0')::bigint
		  FROM pg_replication_slots AS s JOIN chorus_cdc_position AS p ON p.slot = s.slot_name WHERE s.slot_name = $1`, r.slot()).Scan(&kept, &confirmed); err != nil {
			t.Fatal(err)
		}
		if confirmed > kept {
			t.Fatalf("the slot is at %X, the table at %X", confirmed, kept)
		}
	}
	p := r.start()
	topic.complete(want)
	p.waitState(cdc.CaughtUp)
	r.waitConfirmed(r.end()) // the last small step is written, too
	// A table that somebody drops is made again.
	r.exec(`DROP TABLE chorus_cdc_position`)
	want["1"] = append(want["1"], r.insert(3, "1")...)
	topic.complete(want)
	r.waitConfirmed(r.end())
}

// A dump takes the table along, and no slot: on another server neither means
// anything. (The servers of these tests are copies of one, so the row is changed
// to be of another.)
func TestDatabaseRestoredFromADump(t *testing.T) {
	t.Parallel()
	for name, slot := range map[string]bool{"with a slot": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.start()
			want := map[string][]int64{"1": r.insert(3, "1")}
			topic := r.read()
			topic.complete(want)
			p.waitState(cdc.CaughtUp)
			p.stop()
			r.exec(`UPDATE chorus_cdc_position SET system_id = '77'`)
			if !slot {
				r.dropSlot()
			}
			p = r.start()
			p.waitStalled("speaks of server 77")
			r.forget()
			p.waitState(cdc.CaughtUp)
			want["1"] = append(want["1"], r.insert(1, "1")...)
			topic.complete(want)
		})
	}
}

// E26: after a promotion the slot that came along goes on; one that was made
// after it is not taken.
func TestPromotion(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"slot came along": false, "slot made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Server(t)
			r := newRigOn(t, server.DSN())
			p := r.start()
			want := map[string][]int64{"1": r.insert(3, "1")}
			topic := r.read()
			topic.complete(want)
			p.waitState(cdc.CaughtUp)
			p.stop()
			want["1"] = append(want["1"], r.insert(3, "1")...)
			promote(t, server.Dir(), func() {
				if err := server.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}, func() {
				if err := server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			r.db = r.connect()
			r.exec(`SELECT pg_promote()`)
			eventually(t, "end of recovery", func() bool {
				var in bool
				return r.db.QueryRow(t.Context(), `SELECT pg_is_in_recovery()`).Scan(&in) == nil && !in
			})
			if !anew {
				p = r.start()
				p.waitState(cdc.CaughtUp)
				want["1"] = append(want["1"], r.insert(3, "1")...)
				if n := topic.complete(want); n != 0 {
					t.Errorf("%d rows twice", n)
				}
				return
			}
			r.dropSlot()
			r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
			p = r.start()
			p.waitStalled("made after a promotion")
		})
	}
}

// promote makes the server start as a standby, of nobody.
func promote(t *testing.T, dir string, stop, start func()) {
	t.Helper()
	stop()
	signal := filepath.Join(dir, "data", "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION")); err == nil {
		owner := info.Sys().(*syscall.Stat_t)
		if err := os.Chown(signal, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	start()
}

// A role that may not make the table publishes all the same, unless the table was asked for.
func TestRoleThatMayNotKeepAPosition(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]string{"by default": "", "asked for": "public.kept"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			role := strings.TrimPrefix(r.slot(), "chorus_")
			r.exec(fmt.Sprintf(`CREATE ROLE %s LOGIN REPLICATION PASSWORD 'p'; GRANT SELECT ON outbox TO %[1]s`, role))
			r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
			t.Cleanup(func() {
				r.db.Exec(t.Context(), `DROP OWNED BY `+role)
			})
			u, err := url.Parse(r.dsn)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(role, "p")
			r.cfg.Sources[0].DSN, r.cfg.Sources[0].PositionTable = u.String(), asked
			p := r.start()
			if asked != "" {
				p.waitStalled("position table")
				return
			}
			r.read().complete(map[string][]int64{"1": r.insert(3, "1")})
		})
	}
}

// A publication that names columns would leave headers out in silence.
func TestPublicationThatLeavesColumnsOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`ALTER PUBLICATION outbox SET TABLE outbox (id, aggregatetype, aggregateid, type, payload)`)
	p := r.start()
	p.waitStalled("leaves out columns of table public.outbox: occurredat")
	r.exec(`ALTER PUBLICATION outbox SET TABLE outbox`)
	p.waitState(cdc.CaughtUp)
}

// The option is refused where the server has no such slots.
func TestFailoverSlotsNeedTheirServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var version int
	if err := r.db.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	r.cfg.Sources[0].Failover = true
	p := r.start()
	if version < 170000 {
		p.waitStalled("failover slots need PostgreSQL 17")
		return
	}
	p.waitState(cdc.CaughtUp)
	var failover bool
	if err := r.db.QueryRow(t.Context(), `SELECT failover FROM pg_replication_slots WHERE slot_name = $1`, r.slot()).Scan(&failover); err != nil || !failover {
		t.Errorf("failover is %t, %v", failover, err)
	}
}
