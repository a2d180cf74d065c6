package cdc

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// A connection that is not with the poller does whatever one of net does.
func TestSocketIsAConnection(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			nettest.TestConn(t, func() (ours, theirs net.Conn, stop func(), err error) {
				dial := unpolled((&net.Dialer{}).DialContext)
				if ours, err = dial(t.Context(), network, l.Addr().String()); err != nil { // into the listener's queue
					return nil, nil, nil, err
				}
				theirs, err = l.Accept()
				return ours, theirs, func() { _, _ = ours.Close(), theirs.Close() }, err
			})
		})
	}
}

// Deadlines that no difference of two times can hold are what they say, too.
func TestDeadlineFarAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := unpolled((&net.Dialer{}).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := peer.Write([]byte("12")); err != nil {
		t.Fatal(err)
	}
	read := func(deadline time.Time) error {
		if err := conn.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	if err := read(time.Date(1, 1, 1, 1, 1, 1, 1, time.UTC)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("in the year 1: %v", err)
	}
	if err := read(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Errorf("in the year 9999: %v", err)
	}
}
