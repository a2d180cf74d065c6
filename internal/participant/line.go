package participant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
)

// line is one decision in full: what is needed to make it again, and what came of it. The log has it, as JSON in the
// attribute decision, at debug level alone: it holds the customer's data, and writing it takes longer than deciding.
type line struct {
	Participant event.Participant `json:"participant"`
	Order       event.OrderNo     `json:"order"`
	Input       any               `json:"input"`
	Before      any               `json:"before"`
	After       any               `json:"after"`
	Verdict     decision.Verdict  `json:"verdict"`
	Why         string            `json:"why"`
	Facts       []lineFact        `json:"facts,omitempty"`
	Intents     []decision.Intent `json:"intents,omitempty"`
	Hold        decision.HoldOp   `json:"hold,omitempty"`
}

type lineFact struct {
	Type       event.Type `json:"type"`
	Generation int        `json:"generation,omitempty"`
	Body       event.Fact `json:"body"`
}

// lineInput is any decision.Input. A fact's body is what the JSON format of the topics has, which can be read back.
type lineInput struct {
	Kind        string             `json:"kind"` // delivered, requested, answered, weighed or elapsed
	ID          event.ID           `json:"id,omitzero"`
	Type        string             `json:"type,omitempty"` // of the fact, or of the request as Go has it: decision.Cancel
	Body        json.RawMessage    `json:"body,omitempty"`
	Owner       event.Participant  `json:"owner,omitempty"`
	CausationID event.ID           `json:"causation_id,omitzero"`
	Hop         int                `json:"hop,omitempty"`
	At          time.Time          `json:"at,omitzero"`
	Answered    *decision.Answered `json:"answered,omitempty"`
	Weighed     *decision.Weighed  `json:"weighed,omitempty"`
}

func newLine[S any](name event.Participant, order event.OrderNo, before S, in decision.Input, d decision.Decision[S]) line {
	l := line{
		Participant: name, Order: order, Input: in, Before: before, After: d.State,
		Verdict: d.Verdict, Why: d.Why, Intents: d.Intents, Hold: d.Hold,
	}
	for _, e := range d.Facts {
		l.Facts = append(l.Facts, lineFact{e.Fact.Type(), e.Generation, e.Fact})
	}
	return l
}

// plain writes facts as JSON text, under the embedded schemas: what a log says does not depend on a registry.
func plain() (*codec.Codec, error) { return codec.New(nil, codec.JSON) }

func (l line) encode(facts *codec.Codec) (json.RawMessage, error) {
	in, err := encodeInput(facts, l.Input.(decision.Input))
	if err != nil {
		return nil, err
	}
	l.Input = in
	return json.Marshal(l)
}

func encodeInput(facts *codec.Codec, in decision.Input) (l lineInput, err error) {
	switch in := in.(type) {
	case decision.Delivered:
		l = lineInput{
			Kind: "delivered", ID: in.ID, Type: string(in.Fact.Type()), Owner: in.Owner,
			CausationID: in.CausationID, Hop: in.Hop, At: in.OccurredAt,
		}
		l.Body, err = facts.Encode(in.Fact)
		return l, err
	case decision.Requested:
		l = lineInput{Kind: "requested", ID: in.ID, Type: fmt.Sprintf("%T", in.Request), At: in.At}
		l.Body, err = json.Marshal(in.Request)
		return l, err
	case decision.Answered:
		return lineInput{Kind: "answered", Answered: &in}, nil
	case decision.Weighed:
		return lineInput{Kind: "weighed", Weighed: &in}, nil
	case decision.Elapsed:
		return lineInput{Kind: "elapsed", At: in.At}, nil
	}
	return l, fmt.Errorf("an input of type %T has no form in the log", in)
}

func (d *Door[S]) line(order event.OrderNo, before S, in decision.Input, after decision.Decision[S]) (json.RawMessage, error) {
	facts, err := d.plain()
	if err != nil {
		return nil, err
	}
	return newLine(d.spec.Name, order, before, in, after).encode(facts)
}

// keepLines holds the decisions about a fact back until its transaction has committed. Those of a transaction that
// was rolled back are replaced when the fact comes again.
func (d *Door[S]) keepLines(fact event.ID, lines []json.RawMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines[fact] = lines
}

func (d *Door[S]) takeLines(fact event.ID) []json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines[fact]
	delete(d.lines, fact)
	return lines
}

// tellAnswer writes the log's line of an input that is not a fact.
func (d *Door[S]) tellAnswer(level slog.Level, order event.OrderNo, what string, a Answer[S]) {
	d.tell(level, order.String(), what, string(a.Verdict), a.Why, a.lines)
}

// tell writes one line a decision: those in full if there are any.
func (d *Door[S]) tell(level slog.Level, order, what, verdict, why string, lines []json.RawMessage) {
	ctx := context.Background()
	attrs := []slog.Attr{
		slog.String("order", order), slog.String("input", what), slog.String("verdict", verdict), slog.String("why", why),
	}
	if len(lines) == 0 {
		d.log.LogAttrs(ctx, level, "decided", attrs...)
	}
	for _, l := range lines {
		d.log.LogAttrs(ctx, level, "decided", append(attrs[:len(attrs):len(attrs)], slog.Any("decision", l))...)
	}
}

// FindLine returns the decision that a line of the log holds, in slog's text or JSON form.
func FindLine(log []byte) (decision []byte, found bool) {
	var structured struct {
		Decision json.RawMessage `json:"decision"`
	}
	if json.Unmarshal(log, &structured) == nil {
		return structured.Decision, structured.Decision != nil
	}
	_, rest, found := bytes.Cut(log, []byte(" decision="))
	if !found {
		return nil, false
	}
	quoted, err := strconv.QuotedPrefix(string(rest))
	if err != nil {
		return nil, false
	}
	text, err := strconv.Unquote(quoted)
	return []byte(text), err == nil
}
