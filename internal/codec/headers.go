package codec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"chorus/internal/event"
)

// header is one of the headers of a fact's record, which chorus cdc writes from the outbox row.
type header int

const (
	headerID header = iota
	headerEventType
	headerAggregateType
	headerOccurredAt
	headerCorrelationID
	headerCausationID
	headerHop
	headerTraceParent
	headerTraceState
	headerCount
)

var headerNames = [headerCount]string{
	"id", "eventType", "aggregateType", "occurredAt", "correlationId", "causationId", "hop", "traceparent", "tracestate",
}

func (h header) String() string { return headerNames[h] }

// headers are those of one record that are ours, with the first fault found in them.
type headers struct {
	values [headerCount]string
	times  [headerCount]int // how often each is there
	err    *Error
}

func collect(all []Header) headers {
	var hs headers
	for _, h := range all {
		if i := slices.Index(headerNames[:], h.Key); i >= 0 {
			hs.values[i] = string(h.Value)
			hs.times[i]++
		}
	}
	return hs
}

// text returns a header that must be there, once, with something in it.
func (hs *headers) text(h header) string {
	v := hs.maybe(h)
	if v == "" {
		hs.fail(h, "is empty")
	}
	return v
}

// maybe returns a header that must be there, once, and may be empty.
func (hs *headers) maybe(h header) string {
	switch hs.times[h] {
	case 0:
		hs.report("header "+h.String(), "is missing")
	case 1:
		return hs.values[h]
	default:
		hs.report("header "+h.String(), fmt.Sprintf("is there %d times", hs.times[h]))
	}
	return ""
}

// judge reports err as a fault of the header's value.
func (hs *headers) judge(h header, err error) {
	if err != nil {
		hs.fail(h, err.Error())
	}
}

// fail reports a fault of the header's value.
func (hs *headers) fail(h header, reason string) {
	if hs.err == nil {
		if v := hs.values[h]; v != "" {
			reason = fmt.Sprintf("%q %s", quote([]byte(v)), reason)
		}
		hs.report("header "+h.String(), reason)
	}
}

// report keeps the first fault.
func (hs *headers) report(part, reason string) {
	if hs.err == nil {
		hs.err = &Error{Kind: ErrHeader, Part: part, Reason: reason}
	}
}

// trace returns the W3C trace context, or none when it is malformed or ambiguous.
func (hs *headers) trace() (parent, state string) {
	if hs.times[headerTraceParent] != 1 || hs.times[headerTraceState] > 1 {
		return "", ""
	}
	return Trace(hs.values[headerTraceParent], hs.values[headerTraceState])
}

func parseUUID(s string) (event.ID, error) {
	id, err := event.ParseID(s)
	if err != nil {
		return event.ID{}, errors.New("is no UUID, or the one of zeros")
	}
	return id, nil
}

// parseInstant reads occurredAt: RFC 3339, no finer than a microsecond.
func parseInstant(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, errors.New("is no time in RFC 3339")
	}
	if why := unfit(t); why != "" {
		return time.Time{}, errors.New(why)
	}
	return t.UTC(), nil
}

func parseHop(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("is no whole number from 0 to %d", math.MaxInt32)
	}
	return int(n), nil
}

// Trace returns parent and state as they are when they follow the W3C Trace Context recommendation,
// and nothing otherwise. A trace is a help in finding faults and must never cause one.
func Trace(parent, state string) (string, string) {
	const form = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if len(parent) != len(form) || parent[:2] == "ff" {
		return "", ""
	}
	for i := range len(form) {
		if dash := form[i] == '-'; dash != (parent[i] == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(parent[i])) {
			return "", ""
		}
	}
	if strings.Trim(parent[3:35], "0") == "" || strings.Trim(parent[36:52], "0") == "" {
		return "", ""
	}
	const mostState = 512 // bytes that a vendor must pass on; beyond that it may be dropped
	if len(state) > mostState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		state = ""
	}
	return parent, state
}
