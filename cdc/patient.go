package cdc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// errSilent is a connection over which nothing comes any more: the server or
// the network went away without a word.
var errSilent = errors.New("server is silent")

// patientReader reads from a connection with a limit to the silence between
// two reads.
type patientReader struct {
	source  io.Reader
	frames  *frames // what reads from it
	silence time.Duration

	mu       sync.Mutex // guards what follows: the deadline of conn is set here and by interrupt
	lease    lease
	conn     net.Conn  // nil until replication has begun
	deadline time.Time // of conn
	until    time.Time // zero before interrupt
	wake     bool      // interrupt was called and no read has noticed yet
}

// watch begins to limit the silence, and the stream's lease at began.
func (p *patientReader) watch(conn net.Conn, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.lease.told = conn, began
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.conn == nil { // set by this goroutine, before it reads on
		return p.source.Read(b) // pgconn has deadlines of its own
	}
	if err := p.setDeadline(time.Now()); err != nil {
		return 0, err
	}
	n, err := p.source.Read(b)
	if frozen := p.frozen(time.Now()); frozen != nil { // while it waited
		return 0, frozen
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.interrupted() {
		return n, fmt.Errorf("%w for %s", errSilent, p.silence)
	}
	return n, err
}

// setDeadline moves the deadline, which is exact to a second: it costs as much as a read.
func (p *patientReader) setDeadline(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake {
		p.wake = false
		return os.ErrDeadlineExceeded
	}
	if err := p.lease.check(now); err != nil {
		return err
	}
	at := now.Add(p.silence)
	switch {
	case !p.until.IsZero() && p.until.Before(at):
		at = p.until
	case p.until.IsZero() && at.Sub(p.deadline) < time.Second:
		return nil
	}
	p.deadline = at
	return p.conn.SetReadDeadline(at)
}

func (p *patientReader) interrupted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.until.IsZero()
}

// interrupt wakes a read that waits, by a deadline in the past, or else the
// next one.
func (p *patientReader) interrupt(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.wake = until, true
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
}

// frozen is errFrozen when the slot may be another's by now.
func (p *patientReader) frozen(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease.check(now)
}

func (p *patientReader) renew(told time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease.told = told
}
