package participant_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// moment is when a connection to the database is lost.
type moment int

const (
	before moment = iota // the server never gets the statement, and sees the connection close
	after                // the server has executed it and the client never learns
	silent               // the server gets the statement, and never learns that the client is gone
)

func (m moment) String() string { return [...]string{"before", "after", "silent"}[m] }

var errCut = errors.New("the test has cut the connection")

// scissors counts the statements of the connections that it dials, and cuts the connection at one of them.
type scissors struct {
	mu    sync.Mutex
	count int
	at    int // the statement to cut at; 0 for none
	how   moment
	open  []net.Conn
}

func newScissors(t *testing.T) *scissors {
	s := &scissors{}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.open {
			c.Close()
		}
	})
	return s
}

// arm has the n-th statement from now cut.
func (s *scissors) arm(n int, how moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.at, s.how = 0, n, how
}

// disarm reports whether there was a cut.
func (s *scissors) disarm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fired := s.at != 0 && s.count >= s.at
	s.at = 0
	return fired
}

// next counts a statement and says whether to cut at it.
func (s *scissors) next() (moment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return s.how, s.at != 0 && s.count == s.at
}

// fit has a connection's configuration dial through the scissors.
func (s *scissors) fit(cfg *pgx.ConnConfig) {
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = append(s.open, c)
		return &cuttable{Conn: c, scissors: s}, nil
	}
}

// cuttable is a client's connection. Each of its writes is what the client sends at once: a whole statement.
type cuttable struct {
	net.Conn
	scissors *scissors
	mu       sync.Mutex
	cut      bool
}

func (c *cuttable) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *cuttable) Read(p []byte) (int, error) {
	if c.isCut() {
		return 0, errCut
	}
	return c.Conn.Read(p)
}

func (c *cuttable) Write(p []byte) (int, error) {
	if c.isCut() {
		return 0, errCut
	}
	// Parse, Bind, Query, Execute and Sync; not the start-up message, a password or the goodbye.
	if len(p) == 0 || !bytes.ContainsRune([]byte("PBQES"), rune(p[0])) {
		return c.Conn.Write(p)
	}
	how, now := c.scissors.next()
	if !now {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	if how != before {
		if n, err := c.Conn.Write(p); err != nil {
			return n, err
		}
	}
	if how == after {
		c.awaitReady()
	}
	if how != silent {
		c.Conn.Close()
	}
	return len(p), nil
}

// awaitReady reads until the server says that it has done what it was told (ReadyForQuery).
func (c *cuttable) awaitReady() {
	var last []byte
	buf := make([]byte, 8192)
	for {
		n, err := c.Conn.Read(buf)
		last = append(last, buf[:n]...)
		if len(last) > 6 {
			last = last[len(last)-6:]
		}
		if err != nil || len(last) == 6 && bytes.HasPrefix(last, []byte{'Z', 0, 0, 0, 5}) {
			return
		}
	}
}

// Close closes for the client; a connection that was cut in silence stays open for the server until the test ends.
func (c *cuttable) Close() error {
	if c.isCut() {
		return nil
	}
	return c.Conn.Close()
}
