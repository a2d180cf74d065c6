package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func streamStart(xid uint32) []byte { return msg('S', xid, byte(1)) }

func streamCommit(xid uint32, end uint64) []byte {
	return msg('c', xid, byte(0), uint64(90), end, micros)
}

func streamAbort(xid, sub uint32) []byte { return msg('A', xid, sub) }

// inStream is a message as it is in a block of a streamed transaction.
func inStream(sub uint32, m []byte) []byte { return msg(m[0], sub, m[1:]) }

// replay decodes what a transaction had, and fails the test when the errors are
// of no known kind, or a row is out of turn.
func replay(t *testing.T, d *Decoder, tx Tx, kept []Part) {
	r := d.Replay(tx)
	for _, p := range kept {
		if p.XID != tx.XID {
			continue
		}
		ev, err := r.Decode(bytes.Clone(p.Data))
		switch {
		case err == nil:
		case errors.Is(err, ErrTable), errors.Is(err, ErrProtocol), errors.Is(err, ErrBinary):
			return
		default:
			t.Fatalf("error of no kind: %v", err)
		}
		if ev.Kind == Begin || ev.Kind == Commit || ev.Tx != (Tx{}) && ev.Tx != tx {
			t.Fatalf("event %d of transaction %d in the replay of %d", ev.Kind, ev.Tx.XID, tx.XID)
		}
	}
}

// keep follows a stream of two transactions at a time and replays each at its
// commit, as the package's user does.
func keep(t *testing.T, messages ...[]byte) []string {
	t.Helper()
	d := NewDecoder(outbox)
	kept := map[uint32][]Part{}
	var got []string
	note := func(ev Event) {
		if ev.Kind == Insert {
			got = append(got, fmt.Sprintf("%s/%q in %d", ev.Row.ID, ev.Row.Payload, ev.Tx.XID))
		}
	}
	for _, m := range messages {
		ev, err := d.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		x := ev.Stream.XID
		switch ev.Kind {
		case Streamed:
			p := ev.Stream
			p.Data = bytes.Clone(p.Data)
			kept[x] = append(kept[x], p)
		case StreamAbort:
			kept[x] = slices.DeleteFunc(kept[x], func(p Part) bool { return x == ev.Stream.Sub || p.Sub == ev.Stream.Sub })
		case StreamCommit:
			if ev.Tx.Start != 90 {
				t.Errorf("the commit record starts at %s, want 0/5A", ev.Tx.Start)
			}
			r := d.Replay(ev.Tx)
			for _, p := range kept[ev.Tx.XID] {
				ev, err := r.Decode(p.Data)
				if err != nil {
					t.Fatal(err)
				}
				note(ev)
			}
			got = append(got, fmt.Sprintf("commit %d to %s", ev.Tx.XID, ev.Tx.End))
		default:
			note(ev)
		}
	}
	return got
}

func TestStreamedTransactions(t *testing.T) {
	rel := func() []byte { return table(7, "public", "outbox", required...) }
	row := func(id string) []byte { return insert(7, id, "a", "b", "c", `\x41`) }
	for name, c := range map[string]struct {
		in   [][]byte
		want []string
	}{
		"two that interleave": {
			[][]byte{streamStart(5), inStream(5, rel()), inStream(5, row("1")), msg('E'), streamStart(6), inStream(6, rel()), inStream(6, row("2")), msg('E'),
				streamStart(5), inStream(5, row("3")), msg('E'), streamCommit(6, 10), streamCommit(5, 11)},
			[]string{`2/"A" in 6`, "commit 6 to 0/A", `1/"A" in 5`, `3/"A" in 5`, "commit 5 to 0/B"},
		},
		"E9: only the aborted subtransaction is dropped, with the one inside it, and its relation stays": {
			[][]byte{streamStart(5), inStream(6, rel()), inStream(6, row("1")), inStream(7, row("2")), inStream(5, row("3")), msg('E'),
				streamAbort(5, 7), streamAbort(5, 6), streamCommit(5, 10)},
			[]string{`3/"A" in 5`, "commit 5 to 0/A"},
		},
		"rolled back whole": {
			[][]byte{streamStart(5), inStream(5, rel()), inStream(5, row("1")), msg('E'), streamAbort(5, 5),
				begin(6), rel(), row("2"), commit(10)},
			[]string{`2/"A" in 6`},
		},
		"without a row": {
			[][]byte{streamStart(5), msg('E'), streamCommit(5, 10)},
			[]string{"commit 5 to 0/A"},
		},
		"a relation announced in a block holds outside of it": {
			[][]byte{streamStart(5), inStream(5, rel()), inStream(5, row("1")), msg('E'), streamCommit(5, 10), begin(6), row("2"), commit(11)},
			[]string{`1/"A" in 5`, "commit 5 to 0/A", `2/"A" in 6`},
		},
		"each transaction has the layout that it was sent with, the rest the last one": {
			[][]byte{streamStart(5), inStream(5, rel()), inStream(5, row("1")), msg('E'),
				begin(6), table(7, "public", "outbox", "payload:bytea", "id", "aggregatetype", "aggregateid", "type"), insert(7, `\x42`, "2", "a", "b", "c"), commit(9),
				streamCommit(5, 10), begin(8), insert(7, `\x43`, "3", "a", "b", "c"), commit(11)},
			[]string{`2/"B" in 6`, `1/"A" in 5`, "commit 5 to 0/A", `3/"C" in 8`},
		},
		"type and origin in a block, a kind of the future": {
			[][]byte{streamStart(5), msg('O', uint64(1), "elsewhere"), inStream(5, msg('Y', uint32(16400), "public", "mood")), msg('z'), inStream(5, rel()), inStream(5, row("1")), msg('E'), streamCommit(5, 10)},
			[]string{`1/"A" in 5`, "commit 5 to 0/A"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, keep(t, c.in...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A streamed transaction is known by what an ordinary one is known by, so that a
// replay of the log finds it whichever way it comes.
func TestStreamCommitTellsWhatBeginAndCommitTell(t *testing.T) {
	d := NewDecoder(outbox)
	var ordinary, streamed Tx
	for _, m := range [][]byte{begin(5), commit(100), streamStart(5), msg('E'), streamCommit(5, 100)} {
		ev, err := d.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case Commit:
			ordinary = ev.Tx
		case StreamCommit:
			streamed = ev.Tx
		}
	}
	if diff := cmp.Diff(ordinary, streamed); diff != "" {
		t.Error(diff)
	}
}

// E11: PostgreSQL 18 sends it for what was not streamed.
func TestStrayStreamAbortIsCounted(t *testing.T) {
	_, d, err := read(t, streamAbort(5, 6), streamAbort(5, 5))
	if err != nil || d.Counts().StreamAborts != 2 {
		t.Fatalf("%v, %d counted, want 2", err, d.Counts().StreamAborts)
	}
}
