package inspect

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
)

// Routes adds the inspection API to mux.
func (s Source) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/inspect/orders/{order}", s.getOrder)
	mux.HandleFunc("GET /v1/inspect/states", s.getStates)
	mux.HandleFunc("GET /v1/inspect/figures", s.getFigures)
	mux.HandleFunc("GET /v1/inspect/outbox", s.getOutbox)
	mux.HandleFunc("GET /v1/inspect/dead-letters", s.getLetters)
	mux.HandleFunc("GET /v1/inspect/dead-letters/{id}", s.getLetter)
	mux.HandleFunc("GET /v1/inspect/audit", s.getAudit)
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/redrive", s.redrive)
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/discard", s.discard)
}

func (s Source) getOrder(w http.ResponseWriter, r *http.Request) {
	order, err := event.ParseOrderNo(r.PathValue("order"))
	if err != nil {
		web.Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var facts []event.ID
	for _, text := range strings.FieldsFunc(r.URL.Query().Get("facts"), func(c rune) bool { return c == ',' }) {
		id, err := event.ParseID(text)
		if err != nil {
			web.Fail(w, http.StatusBadRequest, "facts: "+text+": "+err.Error())
			return
		}
		facts = append(facts, id)
	}
	o, err := s.Order(r.Context(), order, facts)
	reply(w, o, err)
}

func (s Source) getStates(w http.ResponseWriter, r *http.Request) {
	q := params{values: r.URL.Query()}
	after, limit := q.number("after", 0, 0, maxID), q.number("limit", 1000, 1, 10000)
	if q.refused(w) {
		return
	}
	states, err := s.PageStates(r.Context(), event.OrderNo(after), int(limit))
	reply(w, map[string]any{"states": states}, err)
}

func (s Source) getFigures(w http.ResponseWriter, r *http.Request) {
	f, err := s.Figures(r.Context())
	reply(w, f, err)
}

func (s Source) getLetters(w http.ResponseWriter, r *http.Request) {
	q := params{values: r.URL.Query()}
	filter, limit := q.letters(), q.number("limit", 100, 1, 1000)
	if q.refused(w) {
		return
	}
	letters, err := s.Letters(r.Context(), filter, int(limit))
	reply(w, map[string]any{"dead_letters": letters}, err)
}

func (s Source) getAudit(w http.ResponseWriter, r *http.Request) {
	q := params{values: r.URL.Query()}
	filter := audit.Filter{Order: q.order("order"), Action: q.text("action"), Since: q.time("since"), Before: q.number("before", 0, 0, maxID)}
	limit := q.number("limit", 100, 1, 1000)
	if q.refused(w) {
		return
	}
	entries, err := audit.List(r.Context(), s.DB, filter, int(limit))
	reply(w, map[string]any{"audit": append([]audit.Entry{}, entries...)}, err)
}

func (s Source) getLetter(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r)
	if !ok {
		return
	}
	d, err := inbox.Letter(r.Context(), s.DB, id)
	if err == nil && d.Consumer != string(s.Participant) {
		err = pgx.ErrNoRows
	}
	reply(w, s.letter(d), err)
}

// redrive hands the dead letter to the participant's door again. A fact that is still at fault stays dead, with the new reason: 422.
func (s Source) redrive(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r)
	if !ok {
		return
	}
	var body RedriveRequest
	if !web.Read(w, r, 64<<10, &body) {
		return
	}
	v, err := s.Redrive(by(r), id, body)
	var still *StillDeadError
	if errors.As(err, &still) {
		web.Fail(w, http.StatusUnprocessableEntity, still.Error())
		return
	}
	reply(w, v, err)
}

func (s Source) discard(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r)
	if !ok {
		return
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if !web.Read(w, r, 64<<10, &body) {
		return
	}
	if strings.TrimSpace(body.Reason) == "" {
		web.Fail(w, http.StatusUnprocessableEntity, "a reason is needed", web.Fault{Location: "body.reason", Message: "must not be empty"})
		return
	}
	err := s.Discard(by(r), id, body.Reason)
	reply(w, map[string]string{"state": inbox.Discarded}, err)
}

// by is the request's context with who acts.
func by(r *http.Request) context.Context {
	return audit.By(r.Context(), audit.Who(r, audit.Unknown))
}

func reply(w http.ResponseWriter, v any, err error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		web.Fail(w, http.StatusNotFound, "there is none with this number")
	case refused(err):
		web.Fail(w, http.StatusConflict, err.Error())
	case err != nil:
		web.Fail(w, http.StatusServiceUnavailable, err.Error())
	default:
		web.JSON(w, http.StatusOK, v)
	}
}

// refused reports whether a dead letter may not be redriven or discarded as it is. Nothing has changed then.
func refused(err error) bool {
	return errors.Is(err, inbox.ErrClosed) || errors.Is(err, inbox.ErrHandled) || errors.Is(err, inbox.ErrTooOld) || errors.Is(err, inbox.ErrHeld)
}

func pathID(w http.ResponseWriter, r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		web.Fail(w, http.StatusBadRequest, "the number of a dead letter is a whole number")
	}
	return id, err == nil
}
