package inspect

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
)

// LetterFilter chooses dead letters of a participant. What is zero chooses any.
type LetterFilter struct {
	State  string // open, redriven or discarded
	Type   string // of the fact
	Reason string
	Key    string    // the order's number
	Since  time.Time // first failed at or after it
	Before time.Time // first failed before it
	After  int64     // only numbers above it: where the last page ended
}

func (f LetterFilter) query() url.Values {
	q := url.Values{}
	set(q, "state", f.State)
	set(q, "type", f.Type)
	set(q, "reason", f.Reason)
	set(q, "key", f.Key)
	setTime(q, "since", f.Since)
	setTime(q, "before", f.Before)
	if f.After != 0 {
		q.Set("after", strconv.FormatInt(f.After, 10))
	}
	return q
}

func (f LetterFilter) of(who event.Participant) inbox.LetterFilter {
	return inbox.LetterFilter{
		Consumer: string(who), State: f.State, Type: f.Type, Reason: f.Reason, Key: f.Key, Since: f.Since, Before: f.Before, After: f.After,
	}
}

// AuditFilter chooses what people did.
type AuditFilter audit.Filter

func (f AuditFilter) query() url.Values {
	q := url.Values{}
	if f.Order != 0 {
		q.Set("order", f.Order.String())
	}
	set(q, "action", f.Action)
	setTime(q, "since", f.Since)
	if f.Before != 0 {
		q.Set("before", strconv.FormatInt(f.Before, 10))
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, at time.Time) {
	if !at.IsZero() {
		q.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
}

// params reads the parameters of a query and gathers what is wrong with them.
type params struct {
	values url.Values
	faults []web.Fault
}

func (p *params) fail(name, message string) {
	p.faults = append(p.faults, web.Fault{Location: "query." + name, Message: message})
}

// text is a parameter that a database may be asked for.
func (p *params) text(name string) string {
	s := p.values.Get(name)
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		p.fail(name, "is not valid Unicode or holds NUL")
		return ""
	}
	return s
}

func (p *params) number(name string, otherwise, least, most int64) int64 {
	s := p.values.Get(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		p.fail(name, "want a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n
}

func (p *params) time(name string) time.Time {
	s := p.values.Get(name)
	if s == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		p.fail(name, "want a time as RFC 3339 has it")
	}
	return at
}

func (p *params) order(name string) event.OrderNo {
	s := p.values.Get(name)
	if s == "" {
		return 0
	}
	no, err := event.ParseOrderNo(s)
	if err != nil {
		p.fail(name, err.Error())
	}
	return no
}

// refused answers a query that cannot be read.
func (p *params) refused(w http.ResponseWriter) bool {
	if len(p.faults) > 0 {
		web.Fail(w, http.StatusBadRequest, "the query cannot be read", p.faults...)
	}
	return len(p.faults) > 0
}

func (p *params) letters() LetterFilter {
	f := LetterFilter{
		State: p.text("state"), Type: p.text("type"), Reason: p.text("reason"), Key: p.text("key"),
		Since: p.time("since"), Before: p.time("before"), After: p.number("after", 0, 0, maxID),
	}
	if f.State != "" && !slices.Contains([]string{inbox.Open, inbox.Redriven, inbox.Discarded}, f.State) {
		p.fail("state", "want open, redriven or discarded")
	}
	return f
}

const maxID = 1<<63 - 1
