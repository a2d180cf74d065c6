package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// api is the part of /v1/ that the tracker answers.
func (s *server) api(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/orders/{order}/trace", s.getTrace)
	mux.HandleFunc("GET /v1/orders/{order}/events", s.getEvents)
	mux.HandleFunc("GET /v1/tracker/orders", s.getEntries)
	mux.HandleFunc("GET /v1/tracker/counts", s.getCounts)
	mux.HandleFunc("GET /v1/tracker/position", s.getPosition)
	mux.HandleFunc("GET /v1/tracker/lag", s.getLag)
	mux.HandleFunc("/v1/tracker/", notFound)
}

func orderOf(w http.ResponseWriter, r *http.Request) (event.OrderNo, bool) {
	no, err := event.ParseOrderNo(r.PathValue("order"))
	if err != nil {
		web.Fail(w, http.StatusBadRequest, err.Error())
	}
	return no, err == nil
}

// answer sends v, or says what went wrong.
func (s *server) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	switch {
	case err == nil:
		web.JSON(w, http.StatusOK, v)
	case errors.Is(err, tracker.ErrUnknown):
		web.Fail(w, http.StatusNotFound, err.Error())
	case r.Context().Err() != nil: // the client has gone
	default:
		s.log.Warn("answer", "path", r.URL.Path, "err", err)
		web.Fail(w, http.StatusServiceUnavailable, "the tracker's database cannot be asked")
	}
}

func (s *server) getTrace(w http.ResponseWriter, r *http.Request) {
	no, ok := orderOf(w, r)
	if !ok {
		return
	}
	t, _, err := s.trace(r.Context(), no)
	s.answer(w, r, t, err)
}

func (s *server) getEntries(w http.ResponseWriter, r *http.Request) {
	q := query{r.URL.Query(), nil}
	filter := tracker.Filter{
		Status: order.Status(q.text("status")), Attention: q.flag("attention") != nil && *q.flag("attention"), Ended: q.flag("ended"),
		From: event.OrderNo(q.number("from")), After: event.OrderNo(q.number("after")), Limit: int(q.number("limit")),
	}
	if filter.Status != "" && !slices.Contains(statuses(), filter.Status) {
		q.fail("status", "there is no such status")
	}
	if len(q.faults) > 0 {
		web.Fail(w, http.StatusBadRequest, "the query cannot be read", q.faults...)
		return
	}
	entries, next, err := s.tracker.List(r.Context(), filter)
	body := map[string]any{"orders": append([]tracker.Entry{}, entries...)}
	if next > 0 {
		body["next"] = next.String()
	}
	s.answer(w, r, body, err)
}

func (s *server) getCounts(w http.ResponseWriter, r *http.Request) {
	counts, err := s.tracker.Counts(r.Context())
	s.answer(w, r, counts, err)
}

// mostWait bounds how long a reader may wait for what they wrote.
const mostWait = 30 * time.Second

// getPosition answers 200 when the view has the event, and 202 with how far behind it is when it has not yet.
func (s *server) getPosition(w http.ResponseWriter, r *http.Request) {
	q := query{r.URL.Query(), nil}
	id, err := event.ParseID(q.text("event"))
	if err != nil {
		q.fail("event", "want an event id, a UUID")
	}
	wait := q.duration("wait")
	if len(q.faults) > 0 {
		web.Fail(w, http.StatusBadRequest, "the query cannot be read", q.faults...)
		return
	}
	p, err := s.tracker.WaitFor(r.Context(), id, min(wait, mostWait))
	switch {
	case err != nil:
		s.answer(w, r, nil, err)
	case p.Folded:
		web.JSON(w, http.StatusOK, map[string]any{"event": id, "folded": true})
	default:
		web.JSON(w, http.StatusAccepted, map[string]any{"event": id, "folded": false, "behind_ms": p.Behind.Milliseconds()})
	}
}

// getEvents streams an order: an event "fact" for each fact as it is folded, with the status that it leads to. The id counts the
// facts, and Last-Event-ID goes on after it, also in another process: nothing is missed and nothing comes
// twice. An id that this view never gave (it was rebuilt) starts again after an event "resync" (UI-03).
func (s *server) getEvents(w http.ResponseWriter, r *http.Request) {
	no, ok := orderOf(w, r)
	if !ok {
		return
	}
	sub := s.tracker.Subscribe(no)
	defer sub.Close()
	facts, err := s.tracker.Facts(r.Context(), no, 0)
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	out, err := openStream(w)
	if err != nil {
		s.log.Warn("stream", "order", no, "err", err)
		return
	}
	e := events{out: out, no: no}
	if last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		if len(facts) > 0 && last <= facts[len(facts)-1].Seq {
			e.resume(facts, last)
		} else if err := out.send("resync", "0", []byte("{}")); err != nil {
			return
		}
	}
	for {
		if e.send(facts) != nil || out.keep() != nil || sub.Wait(r.Context()) != nil {
			return
		}
		if facts, err = s.tracker.Facts(r.Context(), no, e.seq); err != nil {
			s.log.Warn("stream", "order", no, "err", err)
			return // the client reconnects and goes on where it was
		}
	}
}

// folded is one message of the stream: a fact, and where the order stands with it.
type folded struct {
	tracker.Fact
	Order      event.OrderNo `json:"order"`
	Status     order.Status  `json:"status"`
	StatusText string        `json:"status_text"`
	Ended      bool          `json:"ended"` // confirmed, or wholly undone
}

// events is the state of one stream: what it has sent.
type events struct {
	out *stream
	no  event.OrderNo
	seq int64
	sum tracker.Summary
}

// resume takes note of what the client has already.
func (e *events) resume(facts []tracker.Fact, last int64) {
	for _, f := range facts {
		if f.Seq <= last {
			e.seq, e.sum = f.Seq, e.sum.Add(f.Said, f.OccurredAt)
		}
	}
}

// send sends the facts that are new. One message holds all about a fact, so that a cut never falls between two halves.
func (e *events) send(facts []tracker.Fact) error {
	for _, f := range facts {
		if f.Seq <= e.seq {
			continue
		}
		e.seq, e.sum = f.Seq, e.sum.Add(f.Said, f.OccurredAt)
		data, err := json.Marshal(folded{f, e.no, e.sum.Status(), e.sum.Text(), !e.sum.Ended().IsZero()})
		if err != nil {
			return err
		}
		if err := e.out.send("fact", strconv.FormatInt(f.Seq, 10), data); err != nil {
			return err
		}
	}
	return nil
}
