package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Call is the next exchange of an intent.
type Call struct {
	Provider    string
	Op          decision.Op
	Phase       decision.CallPhase // what to send: attempt, ask or end
	Key         string             // the idempotency key, the same in every exchange of the call
	Order       event.OrderNo
	Reference   string // of an undo: the effect that is taken back
	Reason      string // of an undo or an end
	Body        []byte // of a do or look: the request in chorus's own form, JSON
	Rendered    []byte // the body that earlier attempts of this call were sent with, nil when there was none of its own
	DoBody      []byte // of an undo whose templates need it (History): the request of the call with the effect
	DoAnswer    []byte // and its answer
	TraceParent string // W3C trace context, may be empty
	TraceState  string
}

// Request is an HTTP request, ready to be recorded and sent.
type Request struct {
	Provider string
	Op       decision.Op
	Phase    decision.CallPhase
	Method   string // None: there is nothing to send
	URL      string
	Header   http.Header
	Body     []byte
	Rendered bool   // Body was made for this provider from the call's: it has to be stored, since each attempt sends the same bytes
	kind     string // do, ask, cancel or revert: by whose rules the answer is read
}

// None is the method of a request that does not exist: the provider has no such operation.
const None = "NONE"

// UnknownError says that the current program or configuration cannot carry a call out: a record of a newer
// version, a provider that is not configured, a value of a template that is not there. The call must stay open and be seen (G10, CMP-03).
type UnknownError struct{ What, Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown %s %q", e.What, e.Name) }

// History reports whether an undo at the provider is made from the request or the answer of the call with the effect.
func (s *Set) History(provider string) bool {
	c := s.clients[provider]
	return c != nil && c.undo != nil && len(c.undo.values) > 0
}

// Renders reports whether a body for the provider may differ from the call's.
func (s *Set) Renders(provider string) bool {
	c := s.clients[provider]
	if c == nil {
		return false
	}
	return len(c.texts) > 0 || c.do.body != nil || c.undo != nil && c.undo.body != nil
}

// Prepare says what to send. The same call gives the same bytes every time, so providers that compare a
// repeated request with the first find them equal. Errors are of type *UnknownError.
func (s *Set) Prepare(c Call) (r Request, err error) {
	defer func() {
		// Whoever claims it next would panic as well, and the service with all its calls would start and end for ever.
		if p := recover(); p != nil {
			r, err = Request{}, &UnknownError{"way to make the request", fmt.Sprintf("panic: %v", p)}
		}
	}()
	p := s.clients[c.Provider]
	if p == nil {
		return Request{}, &UnknownError{"provider", c.Provider}
	}
	r = Request{Provider: c.Provider, Op: c.Op, Phase: c.Phase, Header: http.Header{}}
	t, err := p.template(c, &r)
	if err != nil {
		return Request{}, err
	}
	if t == nil {
		r.Method = None
		return r, nil
	}
	r.Method = t.method
	if err := p.render(t, c, s.base, &r); err != nil {
		return Request{}, &UnknownError{fmt.Sprintf("value of a template of %s", c.Provider), err.Error()}
	}
	p.header(c, &r)
	return r, nil
}

// template chooses what to send; nil when the provider has nothing of the kind.
func (p *client) template(c Call, r *Request) (*template, error) {
	switch {
	case c.Phase == decision.Attempting && (c.Op == decision.Do || c.Op == decision.Look || c.Op == decision.Tell):
		r.kind = "do"
		return p.do, nil
	case c.Phase == decision.Attempting && c.Op == decision.Undo:
		if c.Reference == "" {
			return nil, &UnknownError{"reference of an undo", ""}
		}
		if p.undo == nil {
			return nil, &UnknownError{"revert of provider", c.Provider}
		}
		r.kind = "revert"
		return p.undo, nil
	case c.Phase == decision.Asking && p.unknown == "repeat":
		r.kind = "do"
		return p.do, nil
	case c.Phase == decision.Asking && p.unknown == "cancel", c.Phase == decision.Ending:
		r.kind = "cancel"
		return p.end, nil
	case c.Phase == decision.Asking:
		r.kind = "ask"
		return p.ask, nil
	case c.Phase == decision.Attempting:
		return nil, &UnknownError{"kind of call", string(c.Op)}
	}
	return nil, &UnknownError{"phase of a call", string(c.Phase)}
}

// render makes URL and body.
func (p *client) render(t *template, c Call, base string, r *Request) (err error) {
	var known history
	request, answer := c.Body, c.DoAnswer
	if r.kind == "revert" {
		request = c.DoBody
	}
	if len(t.values) > 0 || r.kind == "do" && len(p.texts) > 0 {
		if len(request) > 0 {
			if known.request, err = document(request); err != nil {
				return fmt.Errorf("read the stored request: %w", err)
			}
		}
		if doc, err := document(answer); err == nil {
			known.response = doc
		}
	}
	value := func(name string) (any, error) {
		switch name {
		case "base":
			return base, nil
		case "key":
			return c.Key, nil
		case "order":
			return json.Number(c.Order.String()), nil
		case "reference":
			return c.Reference, nil
		case "reason":
			return cut(c.Reason, maxReason), nil
		}
		return t.values[name].find(name, known)
	}
	if r.URL, err = t.expand(value); err != nil {
		return err
	}
	return p.body(t, c, value, known, r)
}

// body makes the body, or takes the one that an earlier attempt was sent with.
func (p *client) body(t *template, c Call, value func(string) (any, error), known history, r *Request) (err error) {
	var doc any
	switch {
	case t.method == http.MethodGet:
		return nil
	case c.Rendered != nil && (r.kind == "do" || r.kind == "revert"):
		r.Body = c.Rendered
		return nil
	case t.body != nil:
		if doc, err = fill(t.body, value); err != nil {
			return err
		}
	case r.kind != "do":
		if t.method != http.MethodDelete {
			r.Body = why(c)
		}
		return nil
	case len(p.texts) == 0:
		r.Body = c.Body
		return nil
	default:
		doc = known.request
	}
	adaptAll(p.texts, doc)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		return fmt.Errorf("write the body: %w", err)
	}
	r.Body = bytes.TrimRight(b.Bytes(), "\n")
	r.Rendered = r.kind == "do" || r.kind == "revert"
	return nil
}

// why is the usual body of an undo or an end.
func why(c Call) []byte {
	body, err := json.Marshal(struct {
		Reason string        `json:"reason"`
		Order  event.OrderNo `json:"order"`
	}{cut(c.Reason, maxReason), c.Order})
	if err != nil {
		panic(fmt.Sprintf("marshal a string and a number: %v", err))
	}
	return body
}

func (p *client) header(c Call, r *Request) {
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "chorus")
	p.fixed(r.Header)
	r.Header.Set("X-Order", c.Order.String())
	if r.Method != http.MethodGet {
		r.Header.Set("Idempotency-Key", c.Key)
	}
	if len(r.Body) > 0 && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	set("Traceparent", strings.TrimSpace(c.TraceParent))
	set("Tracestate", strings.TrimSpace(c.TraceState))
}
