package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var gone = []byte("gone")

// follow decodes all messages by a feed and writes them down.
func follow(messages ...[]byte) ([]string, error) {
	d := NewFeed(gone)
	var got []string
	text := func(values [][]byte) string {
		parts := make([]string, len(values))
		for i, v := range values {
			parts[i] = string(v)
			if v == nil {
				parts[i] = "NULL"
			}
		}
		return strings.Join(parts, ",")
	}
	for _, m := range messages {
		ev, err := d.Decode(m)
		if err != nil {
			return got, err
		}
		switch ev.Kind {
		case Nothing, Begin:
		case Commit:
			got = append(got, "commit")
		case Logical:
			got = append(got, fmt.Sprintf("message %q %s at %s, %t", ev.Message.Prefix, ev.Message.Content, ev.Message.At, ev.Message.Transactional))
		case Truncate:
			got = append(got, "truncate "+ev.Table.String())
		default:
			got = append(got, fmt.Sprintf("%d %s new %s old %s", ev.Kind, ev.Table, text(ev.Change.New), text(ev.Change.Old)))
		}
	}
	return got, nil
}

func logical(flags byte, at uint64, prefix, content string) []byte {
	return msg('M', flags, at, prefix, uint32(len(content)), []byte(content))
}

func TestFeed(t *testing.T) {
	t.Parallel()
	rel := table(7, "public", "customer", "id", "name")
	withGap := binary.BigEndian.AppendUint16(nil, 2)
	withGap = append(withGap, 't', 0, 0, 0, 1, '2', 'u')
	got, err := follow(
		logical(0, 50, "out", "early"),
		begin(5), rel, insert(7, "1", nil),
		msg('U', uint32(7), byte('K'), tuple("1", nil), byte('N'), tuple("2", "Ann")),
		msg('U', uint32(7), byte('N'), withGap),
		msg('D', uint32(7), byte('O'), tuple("2", "")),
		logical(1, 60, "in", ""),
		msg('T', uint32(1), byte(0), uint32(7)),
		commit(100))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		`message "out" early at 0/32, false`,
		"2 public.customer new 1,NULL old ",
		"4 public.customer new 2,Ann old 1,NULL",
		"4 public.customer new 2,gone old ",
		"5 public.customer new  old 2,",
		`message "in"  at 0/3C, true`,
		"truncate public.customer",
		"commit",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFeedRefuses(t *testing.T) {
	t.Parallel()
	rel := table(7, "public", "customer", "id", "name")
	for name, messages := range map[string][][]byte{
		"row outside of a transaction":       {rel, insert(7, "1", nil)},
		"row of a table not announced":       {begin(5), insert(8, "1")},
		"row of another width":               {begin(5), rel, insert(7, "1")},
		"message of no transaction in one":   {begin(5), logical(0, 50, "p", "")},
		"message of a transaction in none":   {logical(1, 50, "p", "")},
		"message longer than it is":          {msg('M', byte(0), uint64(1), "p", uint32(9))},
		"update without its new row":         {begin(5), rel, msg('U', uint32(7), byte('K'), tuple("1", nil))},
		"column of a kind that is not there": {begin(5), rel, msg('I', uint32(7), byte('N'), uint16(2), byte('x'), byte('n'))},
	} {
		if got, err := follow(messages...); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// FuzzFeed: nothing panics, and what is accepted fits its relation.
func FuzzFeed(f *testing.F) {
	stream := func(messages ...[]byte) []byte {
		var s []byte
		for _, m := range messages {
			s = append(binary.BigEndian.AppendUint16(s, uint16(len(m))), m...)
		}
		return s
	}
	rel := table(7, "public", "outbox", "id", "payload:bytea")
	f.Add(stream(begin(5), rel, insert(7, "1", `\x00`), commit(9)))
	f.Add(stream(begin(5), rel, msg('U', uint32(7), byte('K'), tuple("1", nil), byte('N'), tuple("2", nil)), logical(1, 5, "p", "x"), commit(9)))
	f.Add(stream(logical(0, 5, "p", "x"), begin(5), rel, msg('D', uint32(7), byte('K'), tuple("1", nil)), msg('T', uint32(1), byte(0), uint32(7))))
	f.Add(stream(streamStart(5), inStream(5, rel), inStream(6, msg('D', uint32(7), byte('K'), tuple("1", nil))), inStream(5, logical(1, 5, "p", "x")),
		msg('E'), streamAbort(5, 7), streamCommit(5, 10)))
	f.Fuzz(func(t *testing.T, s []byte) {
		d := NewFeed(gone)
		var kept []Part
		for len(s) >= 2 {
			n := min(int(binary.BigEndian.Uint16(s)), len(s)-2)
			ev, err := d.Decode(s[2 : 2+n])
			s = s[2+n:]
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatalf("error of no kind: %v", err)
				}
				return
			}
			switch ev.Kind {
			case Streamed:
				kept = append(kept, ev.Stream)
			case StreamCommit:
				replay(t, d, ev.Tx, kept)
			}
			if c := ev.Change; c != nil && (c.New != nil && len(c.New) != len(c.Relation.Columns) || c.Old != nil && len(c.Old) != len(c.Relation.Columns)) {
				t.Fatalf("row of %d and %d columns in a table of %d", len(c.New), len(c.Old), len(c.Relation.Columns))
			}
		}
	})
}
