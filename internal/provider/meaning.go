package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"chorus/internal/decision"
)

const (
	maxReference = 200 // characters
	maxReason    = 500
)

// answer is what is understood of a provider's JSON.
type answer struct {
	*reading
	doc    any // nil when there is nothing to read
	status int
}

// fields are what a provider finds wrong with a request.
type fields struct {
	Fields []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"fields"`
}

// meaning reads an answer: first by what the configuration says of it, then by the rules of D7. content is nil when it did not
// arrive as a whole.
//
//	2xx, readable                  ok; for a question, what the state says
//	408, 425, 429, 503             busy: not taken up
//	4xx                            refused; for a question 404 is absent, for an undo 404, 409 and 410 are ok
//	other 5xx, 2xx unreadable      lost: no telling (G7)
//	3xx                            lost: a provider may redirect after it has done the work
func (s *spec) meaning(r Request, res *http.Response, content []byte) decision.Result {
	a := answer{&s.reading, nil, res.StatusCode}
	if doc, err := document(content); err == nil {
		a.doc = doc
	}
	result := a.usual(r, res.Header, content)
	if is, ok := s.reading.special(r.kind, a.status, a.doc); ok {
		result = decision.Result{Kind: meanings[is], Reason: a.reason(content)}
		switch {
		case is == "ok" && (r.kind == "do" || r.kind == "ask"):
			result = a.success(r)
		case is == "ok":
			result = decision.Result{Kind: decision.OK}
		}
	}
	if r.Phase == decision.Asking && r.kind == "cancel" {
		return cancelled(result)
	}
	return result
}

// cancelled is the answer to a question that was asked by a cancel: nothing stands any more under the key, and nothing will.
func cancelled(r decision.Result) decision.Result {
	switch r.Kind {
	case decision.OK:
		return decision.Result{Kind: decision.Refusal, Reason: "the outcome was unknown; the key is cancelled"}
	case decision.Refusal:
		r.Kind = decision.Lost // the cancel was refused, which says nothing about the effect
	}
	return r
}

func (a answer) usual(r Request, h http.Header, content []byte) decision.Result {
	switch status := a.status; {
	case status >= 200 && status < 300:
		return a.success(r)
	case status == 408 || status == 425 || status == 429 || status == 503:
		return decision.Result{Kind: decision.Busy, Reason: a.reason(content)}
	case status >= 400 && status < 500:
		return a.refusal(r, content)
	case status >= 300 && status < 400:
		return decision.Result{Kind: decision.Lost, Reason: fmt.Sprintf("redirect %d to %q, which is not followed", status, location(h))}
	}
	return decision.Result{Kind: decision.Lost, Reason: a.reason(content)}
}

func (a answer) unreadable(what string) decision.Result {
	return decision.Result{Kind: decision.Lost, Reason: fmt.Sprintf("HTTP %d without %s", a.status, what)}
}

func (a answer) success(r Request) decision.Result {
	ok := decision.Result{Kind: decision.OK, Reference: textAt(a.reference, a.doc)}
	switch {
	case r.Op == decision.Tell:
		return ok // whoever is told owes no answer
	case a.doc == nil && !(a.status == http.StatusNoContent && r.kind != "do" && r.kind != "ask"):
		return a.unreadable("a readable answer")
	case r.kind == "ask":
		return a.found()
	case r.kind == "cancel", r.kind == "revert":
		return ok
	case !isReference(ok.Reference):
		return a.unreadable("a reference")
	case r.Op == decision.Look:
		score, found := a.points()
		if !found {
			return a.unreadable("a score from 0 to 100")
		}
		ok.Score = score
	}
	return ok
}

// points is the bureau's score.
func (a answer) points() (int, bool) {
	found := a.score.Select(a.doc)
	if len(found) != 1 {
		return 0, false
	}
	n, ok := found[0].(json.Number)
	if !ok {
		return 0, false
	}
	score, err := n.Int64()
	return int(score), err == nil && score >= 0 && score <= 100
}

// found answers a question by key. A key that was used and is not any more holds nothing, and the provider refuses it from then on.
func (a answer) found() decision.Result {
	state, reference := textAt(a.state, a.doc), textAt(a.reference, a.doc)
	switch {
	case state != "" && slices.Contains(a.active, state):
		if !isReference(reference) {
			return a.unreadable("a reference")
		}
		return decision.Result{Kind: decision.OK, Reference: reference}
	case state != "" && slices.Contains(a.gone, state):
		return decision.Result{Kind: decision.Refusal, Reason: a.text(state, nil)}
	}
	return a.unreadable("a state that is known")
}

func (a answer) refusal(r Request, content []byte) decision.Result {
	switch status := a.status; {
	case r.kind == "ask" && status == 404:
		return decision.Result{Kind: decision.Absent}
	case r.kind == "ask":
		// The question was refused, which says nothing about the effect.
		return decision.Result{Kind: decision.Lost, Reason: a.reason(content)}
	case r.kind == "revert" && (status == 404 || status == 409 || status == 410):
		return decision.Result{Kind: decision.OK}
	}
	return decision.Result{Kind: decision.Refusal, Reason: a.reason(content)}
}

// reason says for people what the provider said, or at least its status.
func (a answer) reason(content []byte) string {
	return a.text(strings.TrimSpace(fmt.Sprintf("HTTP %d %s", a.status, http.StatusText(a.status))), content)
}

func (a answer) text(otherwise string, content []byte) string {
	var parts []string
	for _, s := range []string{textAt(a.code, a.doc), textAt(a.message, a.doc)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	var wrong fields
	if a.doc != nil && json.Unmarshal(content, &wrong) == nil {
		for _, f := range wrong.Fields {
			parts = append(parts, f.Field+" "+f.Message)
		}
	}
	if len(parts) == 0 {
		return otherwise
	}
	return cut(strings.Join(parts, ": "), maxReason)
}

// isReference reports whether an effect can be named by it later: in a URL, a fact and a page. What held broken Unicode has been mended by the decoder and names
// nothing: an undo of it would be answered by 404, and count as done.
func isReference(id string) bool {
	return strings.Trim(id, ".") != "" && len(id) <= maxReference && strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c == 0x7f || c == utf8.RuneError }) < 0
}

// location is where a redirect leads, without what may be secret in it.
func location(h http.Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return cut(u.String(), maxReference)
}

// cut shortens text at a character's boundary and leaves out what PostgreSQL cannot store.
func cut(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
