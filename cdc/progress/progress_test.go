package progress

import (
	"testing"

	"pgregory.net/rapid"

	"chorus/cdc/wal"
)

// TestConfirmedAgainstModel compares the tracker with the definition: the list
// of all transactions, looked through from the beginning each time.
func TestConfirmedAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type tx struct {
			id        ID
			end       wal.LSN
			sent, ack int
		}
		var all []*tx
		var open *tx
		next := wal.LSN(rapid.Uint64Range(0, 1000).Draw(t, "start"))
		tr := New(next)
		confirmed := next
		quiet := func() bool {
			for _, x := range all {
				if x.end == 0 || x.ack < x.sent {
					return false
				}
			}
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				if open != nil {
					t.Skip("open")
				}
				open = &tx{id: tr.Begin()}
				all = append(all, open)
			},
			"send": func(t *rapid.T) {
				if open == nil {
					t.Skip("none open")
				}
				tr.Sent()
				open.sent++
			},
			"ack": func(t *rapid.T) {
				var waiting []*tx
				for _, x := range all {
					if x.ack < x.sent {
						waiting = append(waiting, x)
					}
				}
				if waiting == nil {
					t.Skip("nothing awaited")
				}
				x := rapid.SampledFrom(waiting).Draw(t, "tx")
				x.ack++
				tr.Acked(x.id, 1)
			},
			"commit": func(t *rapid.T) {
				if open == nil {
					t.Skip("none open")
				}
				next += wal.LSN(rapid.Uint64Range(1, 100).Draw(t, "size"))
				open.end = next
				tr.Commit(next)
				open = nil
			},
			"keepalive": func(t *rapid.T) {
				next += wal.LSN(rapid.Uint64Range(0, 100).Draw(t, "size"))
				if quiet() {
					confirmed = max(confirmed, next)
				}
				tr.Keepalive(next)
			},
			"": func(t *rapid.T) {
				unacked := 0
				for _, x := range all {
					unacked += x.sent - x.ack
				}
				for _, x := range all {
					if x.end == 0 || x.ack < x.sent {
						break
					}
					confirmed = max(confirmed, x.end)
				}
				if got := tr.Confirmed(); got != confirmed {
					t.Fatalf("confirmed %s, want %s", got, confirmed)
				}
				if tr.Unacked() != unacked || tr.Open() != (open != nil) {
					t.Fatalf("unacked %d, open %t, want %d, %t", tr.Unacked(), tr.Open(), unacked, open != nil)
				}
			},
		})
	})
}

func TestKeepaliveWaitsForRecordsInFlight(t *testing.T) {
	tr := New(10)
	id := tr.Begin()
	tr.Keepalive(100) // half received
	tr.Sent()
	tr.Commit(50)
	tr.Keepalive(100) // in flight
	if got := tr.Confirmed(); got != 10 {
		t.Fatalf("confirmed %s with a record in flight, want 0/A", got)
	}
	tr.Acked(id, 1)
	if got := tr.Confirmed(); got != 50 {
		t.Fatalf("confirmed %s after the acknowledgement, want the end of the commit 0/32", got)
	}
	tr.Keepalive(100)
	if got := tr.Confirmed(); got != 100 {
		t.Fatalf("confirmed %s when idle, want 0/64", got)
	}
	tr.Keepalive(90)
	if got := tr.Confirmed(); got != 100 {
		t.Fatalf("confirmed went back to %s", got)
	}
}

// While Kafka is away, transactions without rows go on; they must not pile up.
func TestEmptyTransactionsTakeNoMemory(t *testing.T) {
	tr := New(0)
	id := tr.Begin()
	tr.Sent()
	tr.Commit(1)
	for i := range 10_000 {
		tr.Begin()
		tr.Commit(wal.LSN(i + 2))
	}
	if len(tr.txs) != 1 {
		t.Fatalf("%d transactions kept, want 1", len(tr.txs))
	}
	tr.Acked(id, 1)
	if got := tr.Confirmed(); got != 10_001 {
		t.Fatalf("confirmed %d, want 10001", got)
	}
}

func TestFinishedTransactionsAreForgotten(t *testing.T) {
	tr := New(0)
	var ids []ID
	begin := func(i int) {
		ids = append(ids, tr.Begin())
		tr.Sent()
		tr.Commit(wal.LSN(i + 1))
	}
	begin(0)
	for i := 1; i < 100_000; i++ {
		begin(i)
		tr.Acked(ids[i-1], 1)
	}
	if cap(tr.txs) > 8192 {
		t.Fatalf("room for %d transactions with one in flight", cap(tr.txs))
	}
	if got := tr.Confirmed(); got != 99_999 {
		t.Fatalf("confirmed %d, want 99999", got)
	}
}

func TestStrayAcknowledgementPanics(t *testing.T) {
	for name, ack := range map[string]func(*Tracker, ID){
		"twice":       func(tr *Tracker, id ID) { tr.Acked(id, 1); tr.Acked(id, 1) },
		"unknown":     func(tr *Tracker, id ID) { tr.Acked(id+1, 1) },
		"before time": func(tr *Tracker, id ID) { tr.Acked(id-1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(0)
			id := tr.Begin()
			tr.Sent()
			defer func() {
				if recover() == nil {
					t.Fatal("took an acknowledgement for nothing")
				}
			}()
			ack(tr, id)
		})
	}
}
