package cdc

import (
	"net"
	"path/filepath"
	"testing"

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
