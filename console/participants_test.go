package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/web"
)

// participants answer the inspection API.
type participants struct {
	mu      sync.Mutex
	away    string // the one that does not answer
	letters []inspect.Letter
	calls   []intent.CallView // billing's
	why     string
}

func (p *participants) handler(name string) http.Handler {
	mux := http.NewServeMux()
	web.Health(mux, func(context.Context) error { return nil })
	mux.HandleFunc("GET /v1/inspect/orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		o := inspect.Order{Participant: event.Participant(name), Known: true, Phase: "held"}
		for _, text := range strings.FieldsFunc(r.URL.Query().Get("facts"), func(c rune) bool { return c == ',' }) {
			id, _ := event.ParseID(text)
			o.Inbox = append(o.Inbox, inspect.Verdict{EventID: id, Verdict: "applied", Why: p.why, Duplicates: 1})
		}
		if name == "billing" {
			o.Calls = p.calls
		}
		web.JSON(w, http.StatusOK, o)
	})
	mux.HandleFunc("GET /v1/inspect/figures", func(w http.ResponseWriter, _ *http.Request) {
		web.JSON(w, http.StatusOK, inspect.Figures{Participant: event.Participant(name), Duplicates: 3, DeadLetters: 1, Backlog: []intent.ProviderBacklog{{Provider: "paymentco", Open: 2, Due: 1}}})
	})
	mux.HandleFunc("GET /v1/inspect/dead-letters", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		letters := []inspect.Letter{}
		for _, l := range p.letters {
			if string(l.Participant) == name && l.State != inbox.Redriven && l.State != inbox.Discarded {
				letters = append(letters, l)
			}
		}
		web.JSON(w, http.StatusOK, map[string]any{"dead_letters": letters})
	})
	letter := func(r *http.Request) *inspect.Letter {
		i := slices.IndexFunc(p.letters, func(l inspect.Letter) bool {
			return string(l.Participant) == name && fmt.Sprint(l.ID) == r.PathValue("id")
		})
		if i < 0 {
			return nil
		}
		return &p.letters[i]
	}
	mux.HandleFunc("GET /v1/inspect/dead-letters/{id}", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := letter(r); l != nil {
			web.JSON(w, http.StatusOK, l)
			return
		}
		web.Fail(w, http.StatusNotFound, "there is none with this number")
	})
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/redrive", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var how inspect.RedriveRequest
		if !web.Read(w, r, 1<<20, &how) {
			return
		}
		l := letter(r)
		if l.Reason != "mended" {
			web.Fail(w, http.StatusUnprocessableEntity, "it still cannot be handled: "+l.Reason)
			return
		}
		if !how.Preview {
			l.State, l.ClosedWhy = inbox.Redriven, r.Header.Get(audit.Header)+" because "+how.Reason
		}
		web.JSON(w, http.StatusOK, inspect.Redriven{Verdict: "applied", Why: "charge", Preview: how.Preview})
	})
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/discard", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var body struct {
			Reason string `json:"reason"`
		}
		if !web.Read(w, r, 1<<20, &body) {
			return
		}
		l := letter(r)
		if body.Reason == "" {
			web.Fail(w, http.StatusUnprocessableEntity, "a reason is needed")
			return
		}
		l.State, l.ClosedWhy = inbox.Discarded, r.Header.Get(audit.Header)+" because "+body.Reason
		web.JSON(w, http.StatusOK, map[string]string{"state": inbox.Discarded})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.away == name
		p.mu.Unlock()
		if away {
			web.Fail(w, http.StatusServiceUnavailable, "starting")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// charge is a call with two exchanges, of which the first was lost.
func charge(no event.OrderNo, at time.Time) intent.CallView {
	end, later := at.Add(5*time.Second), at.Add(7*time.Second)
	return intent.CallView{
		Order: no, Step: event.PaymentStep, Op: decision.Do, Key: "payment-" + no.String() + "-0", Provider: "paymentco", Phase: decision.Over,
		Outcome: decision.Succeeded, Result: "P-77", CreatedAt: at, EndedAt: &later,
		Attempts: []intent.AttemptView{
			{N: 1, Kind: decision.Attempting, Method: "POST", URL: "http://127.0.0.1:9090/paymentco/charges", StartedAt: at, EndedAt: &end, Result: decision.Lost, Error: "timeout after 5s", DurationMS: 5000},
			{N: 2, Kind: decision.Asking, Method: "GET", URL: "http://127.0.0.1:9090/paymentco/charges/payment-1-0", StartedAt: end, EndedAt: &later, Status: 200, Response: `{"status":"` + nasty + `"}`, Result: decision.OK, DurationMS: 12.4},
		},
	}
}
