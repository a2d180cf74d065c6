package provider

import (
	"slices"
	"strconv"
	"strings"

	"github.com/theory/jsonpath"

	"chorus/internal/decision"
)

// reading says where an answer has what, and which answers mean something else than usual.
type reading struct {
	reference *jsonPath // of the effect; also of a look
	score     *jsonPath
	state     *jsonPath // in the answer to a question by key
	active    []string  // states in which the effect stands
	gone      []string  // states in which the key holds nothing, and never will
	code      *jsonPath // why not, for people
	message   *jsonPath
	outcomes  []outcome
}

func usualReading() reading {
	return reading{
		reference: jsonpath.MustParse("$.id"), score: jsonpath.MustParse("$.score"), state: jsonpath.MustParse("$.state"),
		active: []string{"active"}, gone: []string{"refused", "cancelled", "undone"},
		code: jsonpath.MustParse("$.code"), message: jsonpath.MustParse("$.message"),
	}
}

func (r *reader) readReading(n node, into *reading) {
	path := func(into **jsonPath) func(node) { return func(n node) { *into = r.path(n, nil) } }
	r.fields(n, map[string]func(node){
		"reference": path(&into.reference), "score": path(&into.score), "state": path(&into.state),
		"code": path(&into.code), "message": path(&into.message),
		"active": func(n node) { into.active = r.texts(n) },
		"gone":   func(n node) { into.gone = r.texts(n) },
	})
}

// outcome gives answers another meaning. The first that fits counts, before the usual rules.
type outcome struct {
	on     []string // do, ask, cancel or revert
	status []span   // none: any
	path   *jsonPath
	op     string
	want   string
	is     string
}

type span struct{ from, to int }

// meanings of an outcome. declined and final both end the call with a definite no: declined is the provider's business answer, final
// says that the request can never succeed as it is.
var meanings = map[string]decision.ResultKind{
	"ok": decision.OK, "declined": decision.Refusal, "final": decision.Refusal,
	"retryable": decision.Busy, "unknown": decision.Lost, "absent": decision.Absent,
}

func (r *reader) readOutcomes(n node) (all []outcome) {
	for _, item := range r.items(n) {
		o := outcome{on: []string{"do"}}
		r.fields(item, map[string]func(node){
			"on":     func(n node) { o.on = r.kinds(n) },
			"status": func(n node) { o.status = r.spans(n) },
			"path":   func(n node) { o.path = r.path(n, nil) },
			"op":     func(n node) { o.op = r.oneOf(n, operators...) },
			"value":  func(n node) { o.want = r.text(n) },
			"is":     func(n node) { o.is = r.oneOf(n, "ok", "declined", "final", "retryable", "unknown", "absent") },
		})
		switch {
		case o.is == "":
			r.fault(item, "an outcome needs is: what the answer means")
		case o.is == "absent" && !slices.Equal(o.on, []string{"ask"}):
			r.fault(item, "absent answers a question: want on: ask")
		case o.status == nil && o.path == nil:
			r.fault(item, "an outcome needs a status or a path")
		case (o.path == nil) != (o.op == ""):
			r.fault(item, "path and op go together")
		}
		all = append(all, o)
	}
	return all
}

func (r *reader) kinds(n node) (all []string) {
	for _, text := range r.texts(n) {
		if !slices.Contains([]string{"do", "ask", "cancel", "revert"}, text) {
			r.fault(n, "unknown %q: want do, ask, cancel or revert", text)
		}
		all = append(all, text)
	}
	return all
}

// spans reads statuses: 409, 5xx, or a list of them.
func (r *reader) spans(n node) (all []span) {
	for _, text := range r.texts(n) {
		if class, ok := strings.CutSuffix(strings.ToLower(text), "xx"); ok && len(class) == 1 && class >= "1" && class <= "5" {
			from := int(class[0]-'0') * 100
			all = append(all, span{from, from + 99})
			continue
		}
		code, err := strconv.Atoi(text)
		if err != nil || code < 200 || code > 599 {
			r.fault(n, "%q is no status: want 200 to 599, or such as 5xx", text)
		}
		all = append(all, span{code, code})
	}
	return all
}

// special is the meaning that the configuration gives to an answer.
func (rd reading) special(on string, status int, doc any) (string, bool) {
	for _, o := range rd.outcomes {
		if slices.Contains(o.on, on) && o.fits(status, doc) {
			return o.is, true
		}
	}
	return "", false
}

func (o outcome) fits(status int, doc any) bool {
	in := func(s span) bool { return status >= s.from && status <= s.to }
	if o.status != nil && !slices.ContainsFunc(o.status, in) {
		return false
	}
	if o.path == nil {
		return true
	}
	if doc == nil {
		return false
	}
	for _, found := range o.path.Select(doc) {
		if text, ok := textOf(found); o.op == "exists" || ok && compare(o.op, text, o.want) {
			return true
		}
	}
	return false
}

// text is the one text at a path, or empty.
func textAt(p *jsonPath, doc any) string {
	if p == nil || doc == nil {
		return ""
	}
	if found := p.Select(doc); len(found) == 1 {
		if s, ok := found[0].(string); ok {
			return s
		}
	}
	return ""
}
