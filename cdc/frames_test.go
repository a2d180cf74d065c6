package cdc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// dribble gives a few bytes at a time, and a deadline's error now and then.
type dribble struct {
	rest  []byte
	sizes func() int
}

func (d *dribble) Read(p []byte) (int, error) {
	n := min(d.sizes(), len(p), len(d.rest))
	copy(p, d.rest[:n])
	d.rest = d.rest[n:]
	switch {
	case n > 0:
		return n, nil
	case len(d.rest) == 0:
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

func frame(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// Messages of all sizes, first through Read and then by next, come as they were sent.
func TestFrames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(readSize-10, readSize+10), rapid.IntRange(0, 3*readSize)), 1, 8).Draw(t, "lengths")
		taken := rapid.IntRange(0, len(lengths)).Draw(t, "taken")
		var sent []byte
		var messages [][]byte
		for i, n := range lengths {
			m := frame(byte('a'+i), bytes.Repeat([]byte{byte(i + 1)}, n))
			messages = append(messages, m)
			sent = append(sent, m...)
		}
		f := newFrames(&dribble{sent, func() int {
			return rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 10), rapid.Just(readSize)).Draw(t, "size")
		}})
		again := func(do func() error) {
			t.Helper()
			for {
				if err := do(); err == nil {
					return
				} else if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
		}
		for _, want := range messages[:taken] {
			var got []byte
			for len(got) < len(want) {
				again(func() error {
					p := make([]byte, rapid.IntRange(1, readSize).Draw(t, "room"))
					n, err := f.Read(p)
					got = append(got, p[:n]...)
					return err
				})
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes read, want the %d of one message", len(got), len(want))
			}
		}
		for _, want := range messages[taken:] {
			again(func() error {
				kind, body, err := f.next()
				if err == nil && (kind != want[0] || !bytes.Equal(body, want[frameHeader:])) {
					t.Fatalf("message %q of %d bytes, want %q of %d", kind, len(body), want[0], len(want)-frameHeader)
				}
				return err
			})
		}
	})
}

func TestFramesRefuse(t *testing.T) {
	t.Parallel()
	whole := func() int { return readSize }
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"end":                  {nil, io.EOF},
		"end in a header":      {[]byte{'d', 0}, io.ErrUnexpectedEOF},
		"end in a message":     {frame('d', []byte("text"))[:7], io.ErrUnexpectedEOF},
		"length beyond reason": {[]byte{'d', 0xff, 0xff, 0xff, 0xff}, nil},
		"length below its own": {[]byte{'d', 0, 0, 0, 3}, nil},
	} {
		if _, _, err := newFrames(&dribble{c.in, whole}).next(); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
