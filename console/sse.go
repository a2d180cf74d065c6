package console

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// writeWithin bounds one write to a stream: a reader that takes nothing for so long is dropped, and slows nobody else.
// beat is how often a silent stream shows that it is alive, so that a dead connection is noticed on both sides.
const (
	writeWithin = 10 * time.Second
	beat        = 15 * time.Second
)

// stream is a stream of server-sent events (WHATWG HTML, section 9.2).
type stream struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	last time.Time // of the last write
}

// openStream begins the answer. The server's read and write timeouts are for requests that end, so this one takes them off; after
// them the stream would go deaf in silence (UI-04).
func openStream(w http.ResponseWriter) (*stream, error) {
	s := &stream{w: w, ctl: http.NewResponseController(w)}
	if err := s.ctl.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("take the read timeout off a stream: %w", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that buffer
	return s, s.write([]byte("retry: 1000\n\n"))
}

// send writes one event. An event without name is what htmx swaps in; id is what a client that reconnects names.
func (s *stream) send(name, id string, data []byte) error {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	data = bytes.ReplaceAll(data, []byte("\r"), nil) // a line end of its own in this format
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// keep shows a sign of life if nothing was written for a while.
func (s *stream) keep() error {
	if time.Since(s.last) < beat {
		return nil
	}
	return s.write([]byte(": alive\n\n"))
}

func (s *stream) write(b []byte) error {
	if err := s.ctl.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return fmt.Errorf("limit a write to a stream: %w", err)
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	s.last = time.Now()
	return s.ctl.Flush()
}
