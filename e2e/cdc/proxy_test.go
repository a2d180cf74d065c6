package cdc

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy is Kafka's advertised address. It looks at each request and its answer, and does to them what a test has asked for.
type proxy struct {
	ln net.Listener

	mu    sync.Mutex // guards what follows
	kafka string
	hooks map[string]func(step) action // by source
	conns map[net.Conn]bool
}

// step is a request of the publisher or its answer, about to be passed on.
type step struct {
	source   string // of the publisher
	request  string // "Produce"
	answered bool   // it is the answer
}

// action is what becomes of a step.
type action int

const (
	pass action = iota
	cut         // the connection is closed instead
)

func newProxy() (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{ln: ln, conns: map[net.Conn]bool{}, hooks: map[string]func(step) action{}}
	go p.serve()
	return p, nil
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) target(kafka string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kafka = kafka
}

// on has fn asked about each step of a source until the returned function is called. It may block: other connections are not held up.
func (p *proxy) on(source string, fn func(step) action) (off func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks[source] = fn
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.hooks, source)
	}
}

func (p *proxy) ask(s step) action {
	p.mu.Lock()
	hook := p.hooks[s.source]
	p.mu.Unlock()
	if hook == nil {
		return pass
	}
	return hook(s)
}

func (p *proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) serve() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		go p.relay(c)
	}
}

func (p *proxy) keep(c net.Conn) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}
}

func (p *proxy) relay(c net.Conn) {
	defer p.keep(c)()
	p.mu.Lock()
	kafka := p.kafka
	p.mu.Unlock()
	k, err := net.Dial("tcp", kafka)
	if err != nil {
		return
	}
	defer p.keep(k)()
	asked := make(chan step, 10_000) // requests whose answers are to come, in order
	go func() {
		defer k.Close()
		defer c.Close()
		p.pump(k, c, func(frame []byte) (step, bool) {
			s := parseRequest(frame)
			return s, true
		}, asked)
	}()
	p.pump(c, k, func([]byte) (step, bool) {
		s, ok := <-asked
		s.answered = true
		return s, ok
	}, nil)
}

// pump passes frames on.
func (p *proxy) pump(to io.Writer, from io.Reader, what func(frame []byte) (step, bool), asked chan<- step) {
	if asked != nil {
		defer close(asked)
	}
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		s, ok := what(frame)
		if !ok || p.ask(s) == cut {
			return
		}
		if asked != nil {
			asked <- s
		}
		if _, err := to.Write(append(head, frame...)); err != nil {
			return
		}
	}
}

// parseRequest reads the header: key, version, correlation id, client id.
func parseRequest(frame []byte) step {
	s := step{request: kmsg.NameForKey(int16(binary.BigEndian.Uint16(frame)))}
	if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 {
		s.source, _ = strings.CutPrefix(string(frame[10:10+n]), "chorus-cdc-")
		if s.source == string(frame[10:10+n]) {
			s.source = ""
		}
	}
	return s
}
