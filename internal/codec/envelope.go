package codec

import (
	"fmt"
	"math"
	"slices"
	"time"

	"chorus/internal/event"
	"chorus/outbox"
)

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// Row returns the outbox row of a fact. An envelope that no consumer could read back is refused. OccurredAt is cut
// to the microsecond; a malformed trace context is left out.
func (c *Codec) Row(e event.Envelope) (outbox.Row, error) {
	if e.Fact == nil {
		return outbox.Row{}, fmt.Errorf("write fact %s of order %s: there is none", e.ID, e.Order)
	}
	at := e.OccurredAt.UTC().Truncate(time.Microsecond)
	fault := unfit(at)
	switch {
	case e.ID.IsZero():
		fault = "it has no id"
	case e.Order < 1:
		fault = "it has no order"
	case !slices.Contains(event.Owners(), e.Owner):
		fault = fmt.Sprintf("%q owns no topic", e.Owner)
	case e.Hop < 0 || e.Hop > math.MaxInt32:
		fault = fmt.Sprintf("hop is %d", e.Hop)
	case fault != "":
		fault = "its time " + fault
	}
	if fault != "" {
		return outbox.Row{}, fmt.Errorf("write %s %s of order %s: %s", e.Fact.Type(), e.ID, e.Order, fault)
	}
	payload, err := c.Encode(e.Fact)
	if err != nil {
		return outbox.Row{}, fmt.Errorf("write fact %s of order %s: %w", e.ID, e.Order, err)
	}
	order := e.Order.String()
	row := outbox.Row{
		ID: e.ID, AggregateType: string(e.Owner), AggregateID: order, Type: string(e.Fact.Type()), Payload: payload,
		OccurredAt: at, CorrelationID: order, CausationID: e.CausationID.String(), Hop: e.Hop,
	}
	row.TraceParent, row.TraceState = Trace(e.TraceParent, e.TraceState)
	return row, nil
}

// Envelope reads a record. Every error is an *Error that names the header or the part of the value at fault (CON-10): key and
// headers are judged first, each of them missing, empty, there twice or malformed. Headers that are not ours are ignored. A
// malformed trace context starts a new trace and nothing else (CON-04). causationId may be empty: nothing known caused the fact.
func (c *Codec) Envelope(key []byte, headers []Header, value []byte) (event.Envelope, error) {
	e, t, err := envelope(key, headers)
	if err != nil {
		return event.Envelope{}, err
	}
	if e.Fact, err = c.Decode(t, value); err != nil {
		return event.Envelope{}, err
	}
	return e, nil
}

// envelope reads everything but the value, which it leaves to whoever knows the type.
func envelope(key []byte, all []Header) (event.Envelope, event.Type, error) {
	h := collect(all)
	var e event.Envelope
	var err error
	e.ID, err = parseUUID(h.text(headerID))
	h.judge(headerID, err)
	t := event.Type(h.text(headerEventType))
	e.Owner = event.Participant(h.text(headerAggregateType))
	if !slices.Contains(event.Owners(), e.Owner) {
		h.fail(headerAggregateType, "owns no topic")
	}
	e.OccurredAt, err = parseInstant(h.text(headerOccurredAt))
	h.judge(headerOccurredAt, err)
	e.Hop, err = parseHop(h.text(headerHop))
	h.judge(headerHop, err)
	if cause := h.maybe(headerCausationID); cause != "" {
		e.CausationID, err = parseUUID(cause)
		h.judge(headerCausationID, err)
	}
	if len(key) == 0 {
		h.report("key", "is missing: it is the order's number")
	} else if e.Order, err = event.ParseOrderNo(string(key)); err != nil {
		h.report("key", fmt.Sprintf("%q is no order's number: digits, from 1, without leading zeros", quote(key)))
	}
	if about := h.text(headerCorrelationID); about != string(key) {
		h.fail(headerCorrelationID, fmt.Sprintf("is not the key, %q", quote(key)))
	}
	e.TraceParent, e.TraceState = h.trace()
	if h.err != nil {
		return event.Envelope{}, "", h.err
	}
	return e, t, nil
}
