package cdc_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// walsender passes what a server says on. While it is stuck it swallows changes,
// and its keepalives say that it has not got on: so does a walsender that waits
// for a standby, or works through a large transaction of other tables.
type walsender struct {
	addr  string
	stuck atomic.Bool
}

func startWalsender(t *testing.T, to string) *walsender {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	w := &walsender{addr: ln.Addr().String()}
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.Close()
			}()
			go func() {
				w.pass(in, out)
				_ = in.Close()
			}()
		}
	}()
	return w
}

// pass cuts what the server says into its messages: kind, length, body.
func (w *walsender) pass(to io.Writer, from io.Reader) {
	r := bufio.NewReader(from)
	var last uint64 // position of the last keepalive
	swallowed := false
	for {
		head, err := r.Peek(5)
		if err != nil {
			return
		}
		m := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r, m); err != nil {
			return
		}
		const keepalive, change = 'k', 'w'
		switch {
		case m[0] != 'd' || len(m) < 14:
		case m[5] == change && w.stuck.Load():
			swallowed = true
			continue
		case m[5] == keepalive && w.stuck.Load():
			binary.BigEndian.PutUint64(m[6:], last)
		case swallowed: // it could not go on in the middle
			return
		case m[5] == keepalive:
			last = binary.BigEndian.Uint64(m[6:])
		}
		if _, err := to.Write(m); err != nil {
			return
		}
	}
}

// E27: a server that answers and sends nothing, while its log grows, is no source that has caught up.
func TestServerThatSendsNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	u, err := url.Parse(server.TCP())
	if err != nil {
		t.Fatal(err)
	}
	w := startWalsender(t, u.Host)
	u.Host = w.addr
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	r.cfg.Sources[0].DSN = u.String()
	r.exec(`CREATE TABLE busy (x text)`)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	w.stuck.Store(true)
	want := map[string][]int64{"1": r.insert(3, "1")}
	r.exec(`INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 100)`)
	p.waitStalled("the server has sent nothing for")
	p.waitStalled("its walsender is pid")
	w.stuck.Store(false)
	r.read().complete(want)
	p.waitState(cdc.CaughtUp)
}

// A transaction of somebody else that stays open makes the server keep its log, all of which is published: the
// source is well, and says for whom the log is kept.
func TestLogKeptForAnOpenTransaction(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	r.exec(`CREATE TABLE busy (x text)`)
	holder := r.connect()
	p := r.start()
	p.waitState(cdc.CaughtUp)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL application_name = 'the forgotten one'; INSERT INTO busy VALUES ('open')`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	r.exec(`INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 80000)`)
	retainedBy := func() string {
		s, ok := p.ready()
		if !ok {
			return ""
		}
		if s.Sources[0].State == cdc.Stalled {
			t.Errorf("stalled: %s", s.Sources[0].Reason)
		}
		return s.Sources[0].RetainedBy
	}
	eventually(t, "a word about the open transaction", func() bool { return strings.Contains(retainedBy(), "the forgotten one") })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of it", func() bool {
		r.insert(1, "1") // something moves
		r.exec(`CHECKPOINT`)
		return retainedBy() == ""
	})
}
