package tools

import (
	"fmt"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/money"
)

// shownLine is a line of a trace. Lines of one key say the same, whatever time has passed.
type shownLine struct{ key, text string }

// paint colours a text for a terminal.
type paint func(colour, text string) string

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (o Output) paint() paint {
	if !isTerminal(o.stdout()) {
		return func(_, text string) string { return text }
	}
	return func(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }
}

// lines collects the lines of a trace.
type lines struct {
	now   time.Time
	paint paint
	all   []shownLine
}

// add takes a line. Its key is the text, unless one is given because the text holds an age.
func (l *lines) add(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if key == "" {
		key = text
	}
	l.all = append(l.all, shownLine{key, text})
}

// traceLines is a trace for people. Each line can be understood by itself, since --follow prints only what is new.
func traceLines(t traced, now time.Time, p paint) []shownLine {
	l := &lines{now: now, paint: p}
	colour := yellow
	if good(t.Status) {
		colour = green
	} else if t.NeedsAttention {
		colour = red
	}
	if t.Currency == "" { // OrderPlaced has not been read yet
		l.add("", "order %s  %s", t.Order, p(colour, string(t.Status)))
	} else {
		l.add("", "order %s  %s  %s  %s", t.Order, p(colour, string(t.Status)), money.Text(t.Total, t.Currency), clean(t.Customer))
	}
	l.add("", "  %s", clean(t.StatusText))
	if t.Unread {
		l.add("unread", "  %s", p(yellow, fmt.Sprintf("placed %s ago, and the view has read no fact of it", age(now.Sub(t.PlacedAt)))))
	}
	if len(t.Facts) > 0 {
		l.add("", "%s", p(bold, "facts"))
	}
	for _, f := range t.Facts {
		l.fact(f)
	}
	if len(t.Calls) > 0 {
		l.add("", "%s", p(bold, "calls"))
	}
	for _, c := range t.Calls {
		l.call(c)
	}
	l.audit(t.Audit)
	l.waits(t)
	for _, m := range t.Missing {
		l.add("", "%s", p(red, fmt.Sprintf("%s does not answer: %s", m.Participant, clean(m.Reason))))
	}
	return l.all
}

func (l *lines) fact(f tracedFact) {
	why := ""
	if f.Why != "" {
		why = ": " + clean(f.Why)
	}
	at := fmt.Sprintf("%s/%d@%d", f.Topic, f.Partition, f.Offset)
	l.add("fact "+f.ID.String(), "  %s  %s states %s%s  %s", clock(f.OccurredAt), f.Owner, l.paint(bold, string(f.Type)), why,
		l.paint(dim, at+", "+age(l.now.Sub(f.OccurredAt))+" ago"))
	for _, v := range f.Verdicts {
		switch {
		case v.Verdict.Verdict == "":
			l.add("", "      %s has not handled %s yet", v.Participant, f.Type)
		default:
			again := ""
			if v.Duplicates > 0 {
				again = fmt.Sprintf(" (came %d more times)", v.Duplicates)
			}
			l.add("", "      %s %s %s: %s%s", v.Participant, v.Verdict.Verdict, f.Type, clean(v.Why), again)
		}
	}
}

func (l *lines) call(c tracedCall) {
	end := string(c.Phase)
	if c.Outcome != "" {
		end = string(c.Outcome)
	}
	if c.Result != "" {
		end += " " + clean(c.Result)
	}
	l.add("", "  %s  %s: %s %s at %s  %s  %s", clock(c.CreatedAt), c.Participant, c.Op, c.Step, c.Provider, l.paint(bold, end), l.paint(dim, "key "+clean(c.Key)))
	for _, a := range c.Attempts {
		l.attempt(c, a)
	}
	if c.DueAt != nil {
		l.add("", "      goes on at %s", clock(*c.DueAt))
	}
	if c.Problem != "" {
		l.add("", "      %s", l.paint(red, clean(c.Problem)))
	}
}

func (l *lines) attempt(c tracedCall, a intent.AttemptView) {
	what := fmt.Sprintf("      %s  %s %s #%d %s %s %s", clock(a.StartedAt), c.Participant, c.Op, a.N, strings.ToLower(string(a.Kind)), a.Method, clean(a.URL))
	if a.EndedAt == nil {
		l.add("", "%s  under way", what)
		return
	}
	said := a.Error
	if a.Status != 0 {
		said = fmt.Sprintf("%d", a.Status)
	}
	if a.Reason != "" {
		said += " " + a.Reason
	}
	l.add("", "%s  %s: %s in %.0f ms", what, a.Result, clean(said), a.DurationMS)
}

func (l *lines) waits(t traced) {
	if len(t.Waits) == 0 {
		return
	}
	l.add("", "%s", l.paint(bold, "waits"))
	for _, w := range t.Waits {
		who := string(w.Owner)
		if w.Person {
			who = "a person, for " + who
		}
		if w.Step != "" {
			who += " (" + string(w.Step) + ")"
		}
		late, colour := "", yellow
		if w.Overdue {
			late, colour = ", overdue", red
		}
		l.add("wait "+who+late, "  %s", l.paint(colour, fmt.Sprintf("for %s, from %s, since %s (%s), until %s%s",
			expected(w.Expects), who, clock(w.Since), age(l.now.Sub(w.Since)), clock(w.Until), late)))
		if w.Gap.Kind != "" {
			l.add("gap "+who+string(w.Gap.Kind)+string(w.Gap.Who), "      %s, %s: %s", w.Gap.Kind, w.Gap.Who, clean(w.Gap.Why))
		}
	}
}

func (l *lines) audit(all []tracedAction) {
	if len(all) > 0 {
		l.add("", "%s", l.paint(bold, "what people did"))
	}
	for _, a := range all {
		why := ""
		if a.Why != "" {
			why = ": " + clean(a.Why)
		}
		l.add("", "  %s  %s %s %s at %s%s", clock(a.At), clean(a.Who), a.Action, clean(a.Subject), a.Participant, why)
	}
}

func expected(types []event.Type) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = string(t)
	}
	return strings.Join(texts, " or ")
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

// age is a duration as people say it.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
