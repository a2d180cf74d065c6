package participant

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/audit"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/web"
)

// routes adds what every participant answers: health, metrics, inspection, and a person's help with a stuck step.
func (s *Service[S]) routes(mux *http.ServeMux, setup Setup[S]) {
	web.Health(mux, func(ctx context.Context) error { return s.ready(ctx, setup) })
	inspect.Source{
		Participant: s.spec.Name, DB: s.DB, States: true, Calls: s.calls != nil, Handler: s.Door.Handle,
	}.Routes(mux)
	if s.calls != nil {
		mux.HandleFunc("POST /v1/orders/{order}/resolve", s.resolve)
		mux.HandleFunc("POST /v1/orders/{order}/retry", s.retry)
	}
	if setup.Routes != nil {
		setup.Routes(s, mux)
	}
}

// maxEvidence bounds what goes into a fact as its reason, in bytes.
const maxEvidence = 2000

// Resolution is the body of a resolve request.
type Resolution struct {
	Step       event.Step `json:"step"`
	Evidence   string     `json:"evidence"`
	MoneyMoved bool       `json:"money_moved,omitempty"`
}

func (s *Service[S]) resolve(w http.ResponseWriter, r *http.Request) {
	var body Resolution
	if !web.Read(w, r, 64<<10, &body) {
		return
	}
	switch {
	case strings.TrimSpace(body.Evidence) == "":
		web.Fail(w, http.StatusUnprocessableEntity, "evidence is needed that nothing is held or charged any more",
			web.Fault{Location: "body.evidence", Message: "must not be empty"})
		return
	case len(body.Evidence) > maxEvidence:
		web.Fail(w, http.StatusUnprocessableEntity, "the evidence is too long",
			web.Fault{Location: "body.evidence", Message: fmt.Sprintf("must not be longer than %d bytes", maxEvidence)})
		return
	}
	s.step(w, r, body.Step, decision.Resolve(body), audit.Entry{Action: audit.Resolve, Why: body.Evidence})
}

func (s *Service[S]) retry(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Step   event.Step `json:"step"`
		Reason string     `json:"reason,omitempty"`
	}
	if !web.Read(w, r, 64<<10, &body) {
		return
	}
	s.step(w, r, body.Step, decision.Retry{Step: body.Step}, audit.Entry{Action: audit.Retry, Why: body.Reason}) // of what is not stuck, what waits goes on at once
}

// step brings a person's request about a step through the door. What it changes is recorded with it.
func (s *Service[S]) step(w http.ResponseWriter, r *http.Request, step event.Step, req decision.Request, did audit.Entry) {
	order, err := event.ParseOrderNo(r.PathValue("order"))
	if err != nil {
		web.Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if step.Owner() != s.spec.Name {
		web.Fail(w, http.StatusUnprocessableEntity, string(s.spec.Name)+" does not own this step",
			web.Fault{Location: "body.step", Message: "is not a step of " + string(s.spec.Name)})
		return
	}
	did.Who, did.Order, did.Subject = audit.Who(r, audit.Unknown), order, string(step)
	hurried := ""
	record := s.Door.Audited(r.Context(), did)
	answer, err := s.Door.Request(Traced(r), order, decision.Requested{ID: NewID(), At: Now(), Request: req}, func(tx pgx.Tx, a Answer[S]) (err error) {
		hurried = ""
		if did.Action == audit.Retry && a.Verdict == decision.Refused {
			hurried, err = hurry(r.Context(), tx, did)
			return err
		}
		return record(tx, a)
	})
	if hurried != "" && err == nil {
		s.calls.Wake()
		web.JSON(w, http.StatusOK, map[string]any{"order": order, "step": step, "why": "the next attempt at " + hurried + " is made now"})
		return
	}
	switch {
	case err != nil:
		web.Fail(w, http.StatusServiceUnavailable, err.Error())
	case answer.Verdict == decision.Refused:
		web.Fail(w, http.StatusConflict, answer.Why)
	default:
		web.JSON(w, http.StatusOK, map[string]any{"order": order, "step": step, "why": answer.Why})
	}
}

// hurry has a call that waits for its next attempt go on at once, and records who wanted that. It returns the provider; empty when nothing waits.
func hurry(ctx context.Context, tx pgx.Tx, did audit.Entry) (provider string, err error) {
	provider, waits, err := intent.Hurry(ctx, tx, did.Order, event.Step(did.Subject))
	if err != nil || !waits {
		return "", err
	}
	type call struct {
		Call string `json:"call"`
	}
	return provider, audit.Record(ctx, tx, did, call{"waits"}, call{"due"})
}

// Audited records an action in the transaction of its request, unless the request is refused or changes nothing. Of the state it has the phase alone: the rest
// may hold personal data.
func (d *Door[S]) Audited(ctx context.Context, did audit.Entry) func(pgx.Tx, Answer[S]) error {
	return func(tx pgx.Tx, a Answer[S]) error {
		if a.Verdict == decision.Refused || a.Verdict == decision.Ignored {
			return nil
		}
		type state struct {
			Phase string     `json:"phase"`
			Facts []event.ID `json:"facts,omitempty"` // stated because of it
		}
		return audit.Record(ctx, tx, did, state{Phase: d.phase(a.Before)}, state{d.phase(a.State), a.Facts})
	}
}

// Now is the present instant as it survives a database: UTC, in microseconds.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// NewID returns an id for a request that has none of its own: a UUID of version 7, whose time goes into the ids of the facts
// that follow from the request's calls.
func NewID() event.ID {
	var id event.ID
	rand.Read(id[6:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli())<<16)
	copy(id[:6], ms[:6])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
