package simulated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// maxBody bounds a request's body in bytes; a longer one gets 413.
const maxBody = 2 << 20

// maxHang bounds how long a call that is never answered keeps its connection.
const maxHang = 60 * time.Second

// A desk is where a provider takes calls.
type desk struct {
	provider *provider
	rules    *rules
	lane     *lane
}

type server struct {
	log      *slog.Logger
	store    *store
	desks    []*desk
	stopping <-chan struct{} // closed: calls that wait are abandoned
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, d := range s.desks {
		base := "/" + d.provider.name
		effects := base + "/" + d.provider.effects
		mux.HandleFunc("POST "+effects, s.call(d, do))
		mux.HandleFunc("GET "+effects+"/by-key/{key}", s.call(d, lookup))
		mux.HandleFunc("POST "+effects+"/by-key/{key}/cancel", s.call(d, cancel))
		mux.HandleFunc("POST "+effects+"/{id}/undo", s.call(d, undo))
		mux.HandleFunc("GET "+base+"/behaviour", s.getBehaviour(d))
		mux.HandleFunc("PUT "+base+"/behaviour", s.putBehaviour(d))
		mux.HandleFunc("DELETE "+base+"/behaviour", s.deleteBehaviour(d))
		if d.provider.pays {
			mux.HandleFunc("GET "+base+"/balances/{customer}", s.getBalances(d))
			mux.HandleFunc("PUT "+base+"/balances/{customer}", s.putBalance(d))
		}
	}
	mux.HandleFunc("GET /ledger", s.getLedger)
	mux.HandleFunc("GET /ledger/summary", s.getSummary)
	mux.HandleFunc("GET /requests", s.getRequests)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) { s.write(w, http.StatusOK, struct{}{}) })
	mux.HandleFunc("GET /readyz", s.readyz)
	return mux
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), time.Second)
	defer stop()
	if err := s.store.pool.Ping(ctx); err != nil {
		s.fail(w, "ping database", err)
		return
	}
	s.write(w, http.StatusOK, struct{}{})
}

// call serves one operation of a provider: it understands the request, lets the rules interfere, commits what is decided
// and only then answers. The caller's leaving stops nothing: a provider that has the request carries it out.
func (s *server) call(d *desk, op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := d.parse(op, w, r)
		order := c.order
		if order == 0 && op != do && d.rules.byOrder() {
			found, err := s.store.orderOf(r.Context(), d.provider, c)
			if err != nil {
				s.fail(w, "find order", err)
				return
			}
			order = found
		}
		m := d.rules.choose(op, order, time.Now())
		s.wait(m.latency)
		c.rule, c.fault, c.decline = m.rule, m.fault, m.fault == faultDecline
		switch m.fault {
		case Unreachable:
			c.rejected = &answer{}
		case Down, faultFail:
			failed := refuse(m.failStatus, "unavailable", "the "+d.provider.name+" has a failure")
			c.rejected = &failed
		}
		ans, err := d.lane.submit(c)
		switch {
		case m.fault == Unreachable:
			panic(http.ErrAbortHandler)
		case err != nil:
			s.fail(w, "record call", err)
			return
		case m.fault == faultTimeout:
			s.hang(r)
		case c.rejected != nil && m.retryAfter != "":
			w.Header().Set("Retry-After", m.retryAfter)
		}
		s.write(w, ans.Status, ans.Body)
	}
}

// wait lets a latency pass. A call that the end of the process meets here is dropped without an answer and without an
// effect, as if it had not arrived.
func (s *server) wait(d time.Duration) {
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stopping:
		panic(http.ErrAbortHandler)
	}
}

// hang never answers: it ends the connection when the caller has given up, or after a minute.
func (s *server) hang(r *http.Request) {
	t := time.NewTimer(maxHang)
	defer t.Stop()
	select {
	case <-r.Context().Done():
	case <-t.C:
	case <-s.stopping:
	}
	panic(http.ErrAbortHandler)
}

// parse understands a request. What is wrong with it becomes the command's answer; its order, where it can be read, is
// known all the same.
func (d *desk) parse(op operation, w http.ResponseWriter, r *http.Request) *command {
	var f fieldErrors
	c := &command{op: op, id: r.PathValue("id"), key: r.PathValue("key")}
	named := "key"
	if op == do || op == undo {
		c.key, named = r.Header.Get("Idempotency-Key"), "Idempotency-Key"
	}
	if !isKey(c.key) {
		c.key = ""
		f.add(named, "must be 1 to 200 visible ASCII characters")
	}
	if op == undo && !isKey(c.id) {
		c.id = ""
		f.add("id", "must be 1 to 200 visible ASCII characters")
	}
	var bad *answer
	switch op {
	case do:
		b := d.provider.body()
		if bad = decode(w, r, b, false); bad == nil {
			b.check(&f)
			c.proposal = b.proposal()
			c.order = max(c.proposal.Order, 0)
			c.fingerprint = fingerprint(b)
		}
	case undo, cancel:
		var b undoBody
		if bad = decode(w, r, &b, true); bad == nil {
			b.check(&f)
			c.reason, c.order = b.Reason, max(b.Order, 0)
			c.fingerprint = fingerprint(c.id, b)
		}
	case lookup:
		q := queryOf(r)
		c.order = q.number("order")
		f = append(f, q.end()...)
	}
	switch {
	case bad != nil:
		c.rejected = bad
	case len(f) > 0:
		c.rejected = invalid(f)
	}
	return c
}

// An undoBody goes with an undo or a cancel, and may be absent. The order is for the log alone: a cancel may come before
// anything is known of its key.
type undoBody struct {
	Reason string `json:"reason"`
	Order  int64  `json:"order"`
}

func (b undoBody) check(f *fieldErrors) {
	f.optionalText("reason", b.Reason, maxReason)
	if b.Order < 0 {
		f.add("order", "must be an order number from 1")
	}
}

func isKey(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// fingerprint tells requests apart by what they ask for, not by how their JSON is written.
func fingerprint(parts ...any) []byte {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(parts); err != nil {
		panic(fmt.Sprintf("fingerprint of a decoded request: %v", err)) // plain structs always encode
	}
	return h.Sum(nil)
}

// decode reads one JSON object and refuses unknown fields and whatever follows it.
func decode(w http.ResponseWriter, r *http.Request, into any, optional bool) *answer {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		bad := refuse(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than 2 MiB")
		return &bad
	}
	if err == nil && optional && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err = dec.Decode(into); err == nil {
			if _, more := dec.Token(); more != io.EOF {
				err = errors.New("more than one JSON value")
			}
		}
	}
	if err != nil {
		return invalid(fieldErrors{{Field: "body", Message: err.Error()}})
	}
	return nil
}

func invalid(f fieldErrors) *answer {
	return &answer{http.StatusBadRequest, problem{Code: "invalid", Message: "the request is not valid", Fields: f}}
}

func (s *server) write(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		s.fail(w, "encode answer", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(data, '\n')) // a caller that has left is no fault of ours
}

// fail answers for trouble of our own: whether a call was applied is unknown then, and its key finds out.
func (s *server) fail(w http.ResponseWriter, doing string, err error) {
	s.log.Error("request not served", "doing", doing, "err", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"code":"internal","message":"the simulated providers cannot reach their database"}`+"\n")
}
