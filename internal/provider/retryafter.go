package provider

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is what a Retry-After can mean at most, unless the configuration says less; a service's own cap comes on top.
const longest = 24 * time.Hour

// retryRule says where a provider tells how long it wants to be left alone, and how.
type retryRule struct {
	header   string
	path     *jsonPath // in the body, instead of the header
	format   string
	cap      time.Duration
	fallback time.Duration // when a busy provider says nothing that can be read
}

// formats of a wait. auto tries seconds, then unix, then the two forms of a date.
var formats = []string{"auto", "seconds", "milliseconds", "unix", "httpdate", "iso8601"}

func (r *reader) readRetryAfter(n node) retryRule {
	rule := retryRule{header: "Retry-After", format: "auto", cap: longest}
	r.fields(n, map[string]func(node){
		"header":   func(n node) { rule.header = r.text(n) },
		"path":     func(n node) { rule.path = r.path(n, nil) },
		"format":   func(n node) { rule.format = r.oneOf(n, formats...) },
		"cap":      func(n node) { rule.cap = r.duration(n, time.Millisecond, longest) },
		"fallback": func(n node) { rule.fallback = r.duration(n, 0, longest) },
	})
	if rule.fallback > rule.cap {
		r.fault(n, "the fallback is longer than the cap")
	}
	return rule
}

// wait reads how long the provider asks to be left alone. What is malformed, negative or absurd comes with a warning, and is
// bounded: 0 or the fallback below, the cap above.
func (rule retryRule) wait(h http.Header, content []byte, now time.Time) (wait time.Duration, warning string) {
	text := strings.TrimSpace(h.Get(rule.header))
	if rule.path != nil {
		text = ""
		if doc, err := document(content); err == nil {
			if found := rule.path.Select(doc); len(found) == 1 {
				text, _ = textOf(found[0])
			}
		}
	}
	if text == "" {
		return rule.fallback, ""
	}
	// A date is measured against the provider's own clock, which need not agree with ours.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	shown := cut(text, 40)
	wait, ok := rule.read(text, now)
	switch {
	case !ok:
		return rule.fallback, fmt.Sprintf("Retry-After %q cannot be read as %s", shown, rule.format)
	case wait < 0:
		return rule.fallback, fmt.Sprintf("Retry-After %q is %s ago", shown, -wait.Round(time.Second))
	case wait > rule.cap:
		return rule.cap, fmt.Sprintf("Retry-After %q is cut to %s", shown, rule.cap)
	}
	return wait, ""
}

// A number from which on it is an instant and no wait: seconds since 1970, in the year 2001 or later.
const instant = 1_000_000_000

func (rule retryRule) read(text string, now time.Time) (time.Duration, bool) {
	n, isNumber := number(text)
	unix := func() (time.Duration, bool) { return bounded(n-now.Unix(), time.Second), isNumber }
	httpdate := func() (time.Duration, bool) {
		at, err := http.ParseTime(text)
		return at.Sub(now), err == nil
	}
	iso8601 := func() (time.Duration, bool) {
		at, err := time.Parse(time.RFC3339, text)
		return at.Sub(now), err == nil
	}
	switch rule.format {
	case "seconds":
		return bounded(n, time.Second), isNumber
	case "milliseconds":
		return bounded(n, time.Millisecond), isNumber
	case "unix":
		return unix()
	case "httpdate":
		return httpdate()
	case "iso8601":
		return iso8601()
	}
	switch {
	case isNumber && n >= instant && n < 10*instant:
		return unix()
	case isNumber:
		return bounded(n, time.Second), true
	}
	if d, ok := httpdate(); ok {
		return d, true
	}
	return iso8601()
}

// number reads a whole number; one that is too large for an int64 is as large as can be.
func number(text string) (int64, bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && digits != text {
		return -longestNumber, true
	}
	if err != nil {
		return longestNumber, true
	}
	return n, true
}

const longestNumber = 1 << 62

// bounded is n units, at most a year either way.
func bounded(n int64, unit time.Duration) time.Duration {
	most := int64(365 * 24 * time.Hour / unit)
	return time.Duration(max(-most, min(n, most))) * unit
}
