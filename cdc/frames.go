package cdc

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// frames cuts the messages of the server out of what is read from the
// connection, as much of it at a time as there is: a walsender writes each
// message by itself, and the number of reads, not their size, is what costs.
//
// While pgconn has the connection it reads through frames as well (Read), which
// gives it no byte beyond the present message: nothing is left in its buffers
// when the connection is taken over.
type frames struct {
	source     io.Reader
	buf        []byte
	start, end int // of what is read and not given away
	left       int // bytes of the present message that a reader by Read has still to get
	pace       pace
}

const (
	frameHeader  = 5 // kind, and length with itself
	readSize     = 256 << 10
	longestFrame = 1<<30 + 1<<20 // PostgreSQL's own limit, and an envelope
)

func newFrames(source io.Reader) *frames { return &frames{source: source, buf: make([]byte, readSize)} }

// next returns the next message. The body is valid, and the caller's to change,
// until the next call. After an error of a deadline it may be called again.
func (f *frames) next() (kind byte, body []byte, err error) {
	n, err := f.length()
	if err == nil {
		err = f.have(n)
	}
	if err != nil {
		return 0, nil, err
	}
	m := f.buf[f.start : f.start+n : f.start+n]
	f.start += n
	f.pace.messages++
	return m[0], m[frameHeader:], nil
}

// ready tells whether there is a whole message.
func (f *frames) ready() bool {
	have := f.end - f.start
	return have >= frameHeader && have > int(binary.BigEndian.Uint32(f.buf[f.start+1:]))
}

// length of the message that begins at start.
func (f *frames) length() (int, error) {
	if err := f.have(frameHeader); err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(f.buf[f.start+1:])) + 1
	if n < frameHeader || n > longestFrame {
		return 0, fmt.Errorf("message %q of %d bytes", f.buf[f.start], n)
	}
	return int(n), nil
}

// have reads until there are n bytes.
func (f *frames) have(n int) error {
	for f.end-f.start < n {
		f.makeRoom(n)
		if f.pace.due(time.Now()) {
			pause(busyPause)
		}
		got, err := f.source.Read(f.buf[f.end:])
		f.end += got
		switch {
		case f.end-f.start >= n:
		case err == io.EOF && f.end > f.start:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return nil
}

// makeRoom makes place for n bytes from start on, and for as many more as a
// read may bring. A buffer that one large message needed is given up behind it.
func (f *frames) makeRoom(n int) {
	switch {
	case f.start == f.end && len(f.buf) > readSize && n <= readSize:
		f.buf, f.start, f.end = make([]byte, readSize), 0, 0
	case f.start == f.end:
		f.start, f.end = 0, 0
	}
	switch {
	case n > len(f.buf):
		larger := make([]byte, n+readSize)
		f.end = copy(larger, f.buf[f.start:f.end])
		f.buf, f.start = larger, 0
	case f.start+n > len(f.buf):
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
}

func (f *frames) Read(p []byte) (int, error) {
	if f.left == 0 {
		n, err := f.length()
		if err != nil {
			return 0, err
		}
		f.left = n
	}
	if err := f.have(1); err != nil {
		return 0, err
	}
	n := copy(p[:min(len(p), f.left)], f.buf[f.start:f.end])
	f.start += n
	f.left -= n
	return n, nil
}
