package orders

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lossy stands between the service and PostgreSQL. When it is armed, the next COMMIT reaches the server and is carried out, and its answer does not
// come back; nobody gets a connection from then on, if that is wanted.
type lossy struct {
	network, server string

	mu              sync.Mutex // guards what follows
	armed, thenShut bool
	shut            bool
	lost            int
	open            []net.Conn
}

// newLossy returns how to log in through it.
func newLossy(t *testing.T, dsn string) (*lossy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &lossy{}
	x.network, x.server = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { x.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		x.close()
		conns.Wait()
	})
	return x, fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", cfg.User, cfg.Password, l.Addr(), cfg.Database)
}

// arm has the next COMMIT's answer lost.
func (x *lossy) arm(thenShut bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.armed, x.thenShut, x.shut = true, thenShut, false
}

// reopen lets connections through again.
func (x *lossy) reopen() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shut = false
}

func (x *lossy) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shut = true
	x.cut(nil)
}

// cut ends every connection but one. mu is held.
func (x *lossy) cut(but net.Conn) {
	for _, c := range x.open {
		if c != but {
			c.Close()
		}
	}
	x.open = nil
}

// loses reports whether the answer to a message is to be lost.
func (x *lossy) loses(message []byte, server net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.armed || !bytes.Contains(bytes.ToLower(message), []byte("commit")) {
		return false
	}
	x.armed, x.shut = false, x.thenShut
	x.lost++
	if x.shut {
		x.cut(server)
	}
	return true
}

func (x *lossy) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial(x.network, x.server)
	if err != nil {
		return
	}
	defer server.Close()
	x.mu.Lock()
	if x.shut {
		x.mu.Unlock()
		return
	}
	x.open = append(x.open, client, server)
	x.mu.Unlock()

	back := make(chan struct{})
	deaf := make(chan struct{}) // closed when answers are to be lost
	go func() {
		defer close(back)
		defer client.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			select {
			case <-deaf:
				return
			default:
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			server.Close()
			break
		}
		lose := x.loses(buf[:n], server)
		if lose {
			close(deaf)
		}
		if _, err := io.Copy(server, bytes.NewReader(buf[:n])); err != nil || lose {
			break
		}
	}
	<-back // after a loss: the server has answered, so it has committed
}

// TestCommitWithoutAnswer: the order was placed, and the service does not hear of it. It finds out; and when it cannot, it says where to look instead
// of inviting a second order (G2).
func TestCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	direct := r.url
	between, dsn := newLossy(t, r.dsn)
	r.dsn = dsn
	r.serve()

	between.arm(false)
	got := r.call("POST", "/v1/orders", one)
	if got.status != 202 || r.order(read[Accepted](t, got).Number).Status != "PLACED" {
		t.Fatalf("placed, and found out: %s", got)
	}
	if between.lost != 1 || r.placements() != [3]int{1, 1, 1} {
		t.Fatalf("%d answers were lost, %v orders, states and facts", between.lost, r.placements())
	}

	// Now the database cannot be asked either.
	asked := *r
	asked.url = direct
	for _, headers := range [][]string{nil, {"Idempotency-Key", "K"}} {
		between.arm(true)
		got = r.call("POST", "/v1/orders", one, headers...)
		link := got.header.Get("Location")
		if got.status != 503 || link == "" || got.header.Get("Retry-After") == "" || !strings.Contains(got.problem(t).Detail, link) {
			t.Fatalf("%s %v", got, got.header)
		}
		until(t, "the commit under way to end", func() bool { return asked.call("GET", link, "").status == 200 })
		between.reopen()
		if headers == nil {
			continue
		}
		if again := r.call("POST", "/v1/orders", one, headers...); again.status != 202 || again.header.Get("Location") != link || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again under the key: %s", again)
		}
	}
}
