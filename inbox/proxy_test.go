package inbox

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// cut says how a connection is lost at a statement.
type cut int

const (
	before cut = iota // the server never gets the statement, and sees the connection close
	after             // the server has executed it and the client never learns
	silent            // the server gets the statement, and never learns that the client is gone
)

func (c cut) String() string { return [...]string{"before", "after", "silent"}[c] }

// proxy stands between client and server, counts statements (each Sync or simple query) over all connections, and cuts the connection at one of them.
type proxy struct {
	listener net.Listener
	network  string // with server, where the real one listens
	server   string

	mu     sync.Mutex
	count  int // statements seen
	at     int // the statement to cut at; 0 for none
	how    cut
	fired  bool
	refuse bool // new connections
	open   []net.Conn
}

// newProxy returns a proxy to the server of dsn, and the DSN that goes through it.
func newProxy(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	p.network, p.server = pgconn.NetworkAddress(config.Host, config.Port)
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		p.listener.Close()
		p.closeAll()
		serving.Wait()
	})
	u.Host = p.listener.Addr().String()
	query := u.Query()
	query.Del("host") // where the socket was
	query.Del("port")
	u.RawQuery = query.Encode()
	return p, u.String()
}

// arm has the n-th statement from now cut.
func (p *proxy) arm(n int, how cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.at, p.how, p.fired = 0, n, how, false
}

func (p *proxy) hasFired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

// down closes all connections and refuses new ones, until it is called with false.
func (p *proxy) down(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.closeAll()
	}
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		c.Close()
		return false
	}
	p.open = append(p.open, c)
	return true
}

func (p *proxy) serve(client net.Conn) {
	if !p.track(client) {
		return
	}
	server, err := net.Dial(p.network, p.server)
	if err != nil {
		client.Close()
		return
	}
	if !p.track(server) {
		client.Close()
		return
	}
	cutAfter := make(chan struct{}) // closed when the server's next ReadyForQuery is the last thing to wait for
	var replies sync.WaitGroup
	replies.Go(func() { relayReplies(client, server, cutAfter) })
	p.relayStatements(client, server, cutAfter)
	replies.Wait()
}

func (p *proxy) relayStatements(client, server net.Conn, cutAfter chan struct{}) {
	in := bufio.NewReader(client)
	first := true
	for {
		message, err := readMessage(in, !first)
		if err != nil {
			client.Close()
			server.Close()
			return
		}
		statement := !first && (message[0] == 'S' || message[0] == 'Q')
		first = false
		if statement {
			switch how, now := p.next(); {
			case now && how == before:
				client.Close()
				server.Close()
				return
			case now && how == after:
				close(cutAfter)
			case now && how == silent:
				server.Write(message)
				client.Close() // the server's side stays open until somebody ends the backend
				return
			}
		}
		if _, err := server.Write(message); err != nil {
			client.Close()
			return
		}
	}
}

func (p *proxy) next() (cut, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if p.at != 0 && p.count == p.at {
		p.fired = true
		return p.how, true
	}
	return p.how, false
}

func relayReplies(client, server net.Conn, cutAfter <-chan struct{}) {
	defer client.Close()
	defer server.Close()
	in := bufio.NewReader(server)
	for {
		message, err := readMessage(in, true)
		if err != nil {
			return
		}
		select {
		case <-cutAfter:
			if message[0] == 'Z' {
				return
			}
			continue // the client learns nothing
		default:
		}
		client.Write(message) // when it is gone, the server's answers are read all the same
	}
}

// readMessage reads one message of the PostgreSQL protocol; the start-up message has no type.
func readMessage(in *bufio.Reader, typed bool) ([]byte, error) {
	n := 4
	if typed {
		n = 5
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(binary.BigEndian.Uint32(head[n-4:]))-4)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, err
	}
	return append(head, body...), nil
}
