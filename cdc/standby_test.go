package cdc_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"chorus/cdc"
)

// D13: a standby takes over within 5 s of a kill -9, nothing lost; it needs no
// walsender while it waits.
func TestStandbyTakesOverAfterAKill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.spawn()
	owner.waitState(cdc.CaughtUp)
	standby := r.spawn()
	standby.waitState(cdc.Standby)
	want := map[string][]int64{"1": r.insert(10, "1")}
	topic := r.read()
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice: both publish", n)
	}
	var walsenders int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = current_database()`).Scan(&walsenders); err != nil {
		t.Fatal(err)
	}
	if walsenders != 1 {
		t.Errorf("%d walsenders for an owner and a standby", walsenders)
	}
	killed := time.Now()
	owner.kill()
	want["1"] = append(want["1"], r.insert(10, "1")...)
	topic.complete(want)
	took := time.Since(killed)
	t.Logf("taken over after %s", took)
	if took > 5*time.Second {
		t.Errorf("taken over after %s, want at most 5 s", took)
	}
	standby.waitState(cdc.CaughtUp)
}

// E25: after a freeze the standby takes over when wal_sender_timeout ends the
// owner's session. The owner that wakes up publishes no more than it had in
// flight, of rows that come again in any case; each key's rows arrive for the
// first time in their order.
func TestFrozenOwnerWakesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET wal_sender_timeout = ''2s''', current_database()); END $$`)
	owner := r.spawn()
	owner.waitState(cdc.CaughtUp)
	standby := r.spawn()
	standby.waitState(cdc.Standby)
	want := map[string][]int64{}
	write := func(n int) {
		for i := range n {
			key := fmt.Sprint(i % 5)
			want[key] = append(want[key], r.insert(1+i%20, key)...)
		}
	}
	topic := r.read()
	write(20)
	topic.complete(want)
	before := len(topic.all) // of these the last ones may not be confirmed yet
	if err := owner.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Some of it reaches the buffers of the frozen process.
	write(50)
	topic.complete(want)
	standby.waitState(cdc.CaughtUp)
	if err := owner.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	owner.waitState(cdc.Standby)
	write(50)
	repeats := topic.complete(want)
	if repeats > before {
		t.Errorf("%d rows twice, of %d before the freeze: what reached the process while it stood still was published by both", repeats, before)
	}
	if s, ok := owner.ready(); !ok || !strings.Contains(s.Sources[0].Reason, "slot busy") {
		t.Errorf("the old owner says %+v", s)
	}
	// And back again.
	standby.kill()
	write(10)
	topic.complete(want)
	owner.waitState(cdc.CaughtUp)
}
