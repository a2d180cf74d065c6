package cdc_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/cdc"
)

// streamSoon makes the server send transactions of more than some hundred rows
// while they run.
func (r *rig) streamSoon() {
	r.t.Helper()
	r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET logical_decoding_work_mem = ''64kB''', current_database()); END $$`)
}

func (r *rig) begin(on *pgx.Conn) pgx.Tx {
	r.t.Helper()
	tx, err := on.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return tx
}

// in runs do in a savepoint of tx, and keeps or rolls back what it did.
func (r *rig) in(tx pgx.Tx, keep bool, do func(pgx.Tx)) {
	r.t.Helper()
	sub, err := tx.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	do(sub)
	if keep {
		err = sub.Commit(r.t.Context())
	} else {
		err = sub.Rollback(r.t.Context())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) commit(tx pgx.Tx) {
	r.t.Helper()
	if err := tx.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// addLarge adds rows of which two are more than a transaction keeps in memory.
func (r *rig) addLarge(tx pgx.Tx, n int, key string) (numbers []int64) {
	r.t.Helper()
	for range n {
		k := r.next.Add(1)
		large := row(k, key)
		noise := make([]byte, 900_000)
		_, _ = rand.Read(noise)
		large.Payload = append(fmt.Append(nil, k, " "), noise...)
		r.append(tx, large)
		numbers = append(numbers, k)
	}
	return numbers
}

// waitHeld waits until the publisher keeps n transactions that run, in files.
func (p *running) waitHeld(n int64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d transactions held", n), func() bool {
		s, ok := p.ready()
		if !ok {
			return false
		}
		h := s.Sources[0].Held
		return h != nil && h.Transactions == n && h.MemoryBytes+h.DiskBytes > 0
	})
}

func (r *rig) waitNothingHeld(p *running) {
	r.t.Helper()
	eventually(r.t, "no transaction held", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Held == nil
	})
}

// E5, E9: large transactions interleave, roll savepoints back (one inside
// another, one kept inside a rolled back one), and are published in commit order
// between small ones; one that is rolled back whole leaves nothing.
func TestLargeTransactionsInterleavedWithSavepoints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.streamSoon()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	const many = 1000
	a, b, c := r.begin(r.connect()), r.begin(r.connect()), r.begin(r.connect())
	first := r.add(a, many, "1")
	second := r.add(b, many, "1")
	r.add(c, many, "1")
	r.in(a, false, func(tx pgx.Tx) {
		r.add(tx, many, "1")
		r.in(tx, true, func(tx pgx.Tx) { r.add(tx, many, "1") })
		r.in(tx, false, func(tx pgx.Tx) { r.add(tx, many, "1") })
		r.add(tx, 1, "1")
	})
	r.in(a, true, func(tx pgx.Tx) {
		first = append(first, r.add(tx, many, "1")...)
		r.in(tx, false, func(tx pgx.Tx) { r.add(tx, many, "1") })
		first = append(first, r.add(tx, 5, "1")...)
	})
	second = append(second, r.add(b, many, "1")...)
	first = append(first, r.add(a, many, "1")...)
	small := r.insert(3, "1")
	p.waitHeld(3)
	if err := c.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.commit(b)
	between := r.insert(1, "1")
	r.commit(a)
	last := r.insert(1, "1")
	var want []int64
	for _, part := range [][]int64{small, second, between, first, last} {
		want = append(want, part...)
	}
	topic := r.read()
	if n := topic.complete(map[string][]int64{"1": want}); n != 0 || len(topic.all) != len(want) {
		t.Errorf("%d records, %d of them twice, want %d", len(topic.all), n, len(want))
	}
	r.waitConfirmed(r.end())
	r.waitNothingHeld(p)
	if n := p.metric(`chorus_cdc_ignored_messages_total{kind="stream_abort",source="orders"}`); n != "" {
		t.Errorf("%s aborts of transactions that nobody knew", n)
	}
}

// A crash in the middle of a transaction that runs leaves its file, which the
// next start removes; the server sends the transaction again from its beginning.
func TestKillWhileATransactionIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.streamSoon()
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	tx := r.begin(r.connect())
	want := r.add(tx, 2000, "1")
	small := r.insert(1, "1")
	p.waitHeld(1)
	r.waitConfirmed(r.end()) // beyond the rows of the transaction
	p.kill()
	abandoned := r.spillFolders()
	if len(abandoned) != 1 {
		t.Fatalf("folders %q", abandoned)
	}
	next := r.start()
	next.waitState(cdc.CaughtUp)
	want = append(want, r.add(tx, 1000, "1")...)
	next.waitHeld(1)
	if _, err := os.Stat(abandoned[0]); err == nil {
		t.Error("the folder of the dead process is still there")
	}
	r.commit(tx)
	topic := r.read()
	topic.complete(map[string][]int64{"1": append(small, want...)})
	next.stop()
	if left := r.spillFolders(); left != nil {
		t.Errorf("a clean stop leaves %q", left)
	}
}

func (r *rig) spillFolders() []string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.cfg.SpillDir, "stream-*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// Without its files the transaction is read again, and nothing is confirmed meanwhile.
func TestSpillThatFailsIsReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.streamSoon()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	tx := r.begin(r.connect())
	want := r.add(tx, 2000, "1")
	p.waitHeld(1)
	for _, f := range r.spillFolders() {
		if err := os.RemoveAll(f); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, r.addLarge(tx, 2, "1")...)
	eventually(t, "a session that failed", func() bool {
		return p.metric(`chorus_cdc_reconnects_total{source="orders"}`) != "0"
	})
	r.commit(tx)
	topic := r.read()
	if n := topic.complete(map[string][]int64{"1": want}); n != 0 {
		t.Errorf("%d rows twice: some were published before the transaction was whole", n)
	}
}

// CDC-08 in one transaction: what was sent before the change and after it is read
// by the columns of its time. PostgreSQL before 18 fails at the savepoint that is
// rolled back, unless it is asked for transactions that have ended.
func TestTableChangesInALargeTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.streamSoon()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	tx := r.begin(r.connect())
	want := map[string][]int64{"O-1": r.add(tx, 1000, "O-1")}
	p.waitHeld(1)
	change := func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), `ALTER TABLE outbox DROP COLUMN aggregateid; ALTER TABLE outbox ADD COLUMN aggregateid text`); err != nil {
			t.Fatal(err)
		}
	}
	r.in(tx, false, func(tx pgx.Tx) {
		change(tx)
		r.add(tx, 1000, "O-2")
	})
	want["O-3"] = r.add(tx, 1000, "O-3")
	change(tx)
	want["O-4"] = r.add(tx, 1000, "O-4")
	r.commit(tx)
	want["O-5"] = r.insert(1, "O-5")
	topic := r.read()
	if n := topic.complete(want); n != 0 || len(topic.all) != 3001 {
		t.Errorf("%d records, %d twice, want 3001", len(topic.all), n)
	}
}

// A logical decoding message is published in its place. When a savepoint is
// rolled back PostgreSQL does not say which messages were in it: the transaction
// is then read again when it is committed.
func TestLogicalMessagesInALargeTransaction(t *testing.T) {
	t.Parallel()
	for _, rollBack := range []bool{false, true} {
		t.Run(fmt.Sprintf("savepoint rolled back %t", rollBack), func(t *testing.T) {
			t.Parallel()
			f := newForeign(t, map[string]string{
				"transforms": "decode,outbox", "transforms.decode.type": "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
				"transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
			})
			f.streamSoon()
			p := f.start()
			p.waitState(cdc.CaughtUp)
			tx := f.begin(f.connect())
			exec := func(tx pgx.Tx, sql string) {
				t.Helper()
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			emit := func(tx pgx.Tx, n int) {
				t.Helper()
				exec(tx, fmt.Sprintf(`SELECT pg_logical_emit_message(true, 'x', '{"id":"%d","aggregatetype":"order","aggregateid":"o-1","type":"T","payload":"m%d"}')`, n, n))
			}
			rows := func(tx pgx.Tx, from, n int) {
				t.Helper()
				exec(tx, fmt.Sprintf(`INSERT INTO outbox SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'order', 'o-1', 'T', to_jsonb(n) FROM generate_series(%d, %d) AS n`, from, from+n-1))
			}
			emit(tx, 1)
			rows(tx, 1, 1000)
			f.in(tx, !rollBack, func(tx pgx.Tx) {
				emit(tx, 2)
				rows(tx, 1001, 1000)
			})
			emit(tx, 3)
			f.commit(tx)
			var want []string
			number := func(from, n int) {
				for i := range n {
					want = append(want, fmt.Sprint(from+i))
				}
			}
			want = append(want, "m1")
			number(1, 1000)
			if !rollBack {
				want = append(want, "m2")
				number(1001, 1000)
			}
			want = append(want, "m3", "9999")
			f.exec(`INSERT INTO outbox VALUES ('00000000-0000-4000-8000-999999999999', 'order', 'o-1', 'T', '9999')`)
			if diff := cmp.Diff(want, f.values(len(want))); diff != "" {
				t.Error(diff)
			}
			restarted := p.metric(`chorus_cdc_reconnects_total{source="shop"}`) != "0"
			if restarted != rollBack {
				t.Errorf("read again is %t, want %t", restarted, rollBack)
			}
		})
	}
}
