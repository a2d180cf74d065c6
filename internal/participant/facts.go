package participant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
)

// Handle is the door for facts. It is an inbox.Handler: the inbox rows and the fence are written by package inbox in the
// same transaction.
//
// A fact that cannot be read is a dead letter with its reason and costs no other fact anything. A
// type that the participant does not declare is passed over without a look at its value or a row in the inbox (D4).
//
// Calls that it plans are found by the workers' poll. The participant's own consumer uses Receive.
func (d *Door[S]) Handle(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	return d.handle(ctx, tx, facts, intent.Plan)
}

// handle takes facts; plan writes the calls down that they ask for.
func (d *Door[S]) handle(ctx context.Context, tx pgx.Tx, facts []inbox.Fact, plan planner) ([]inbox.Verdict, error) {
	verdicts := make([]inbox.Verdict, len(facts))
	items := make([]Item, 0, len(facts))
	where := make([]int, 0, len(facts)) // items[i] is facts[where[i]]
	for i, f := range facts {
		if t := event.Type(f.Type); event.Known(t) && !d.heard[heard{f.Topic, t}] {
			verdicts[i] = inbox.Verdict{Outcome: inbox.Passed, Why: string(d.spec.Name) + " does not react to " + f.Type + " in " + f.Topic}
			continue
		}
		env, dead, err := d.reader.Read(f)
		if err != nil {
			return nil, err
		}
		if dead != nil {
			verdicts[i] = *dead
			continue
		}
		items = append(items, Item{Order: env.Order, Input: decision.Delivered{Envelope: env}, Cause: causeOf(env)})
		where = append(where, i)
	}
	if len(items) == 0 {
		return verdicts, nil
	}
	answers, err := d.apply(ctx, tx, items, plan)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		verdicts[where[i]] = inbox.Verdict{Outcome: outcome(a.Verdict), Why: a.Why}
		if a.lines != nil {
			d.keepLines(facts[where[i]].ID, a.lines)
		}
	}
	return verdicts, nil
}

// outcome is what the inbox calls a verdict. Only a person can be refused; nobody waits for an answer to a fact.
func outcome(v decision.Verdict) inbox.Outcome {
	if v == decision.Refused {
		return inbox.Ignored
	}
	return inbox.Outcome(v)
}

// Committed is told by the inbox that a batch is in. It starts the calls that began with it and, at debug level, writes a line a decision. The
// inbox itself has told of dead letters.
func (d *Door[S]) Committed(facts []inbox.Fact, verdicts []inbox.Verdict) {
	d.takeBegun(facts).Go()
	if !d.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i, f := range facts {
		if v := verdicts[i]; v.Outcome != inbox.Dead {
			d.tell(slog.LevelDebug, f.Key, f.Type, string(v.Outcome), v.Why, d.takeLines(f.ID))
		}
	}
}

// causeOf is what a fact's consequences go back to.
func causeOf(env event.Envelope) Cause {
	return Cause{ID: env.ID, At: env.ID.Time(), Hop: env.Hop, TraceParent: env.TraceParent, TraceState: env.TraceState}
}

// Reader turns records into envelopes. A schema that is not known is learnt beside the
// transaction, never in it: meanwhile the partition waits.
type Reader struct {
	codec   *codec.Codec
	learner *learner
}

// NewReader returns a reader whose learning ends with ctx.
func NewReader(ctx context.Context, c *codec.Codec) *Reader {
	return &Reader{codec: c, learner: newLearner(ctx, c)}
}

// Read returns the envelope, or the verdict that sets the fact aside, or an error that makes the inbox come again.
func (r *Reader) Read(f inbox.Fact) (event.Envelope, *inbox.Verdict, error) {
	headers := make([]codec.Header, len(f.Headers))
	for i, h := range f.Headers {
		headers[i] = codec.Header(h)
	}
	env, err := r.codec.Envelope([]byte(f.Key), headers, f.Value)
	if err == nil {
		return env, nil, nil
	}
	var why *codec.Error
	if !errors.As(err, &why) {
		return env, nil, fmt.Errorf("read %s of %s: %w", f.Type, f.Key, err)
	}
	if why.SchemaID != 0 && !r.learner.hopeless(why.SchemaID) {
		return env, nil, inbox.Again(fmt.Errorf("read %s of %s: %w", f.Type, f.Key, err))
	}
	dead := inbox.DeadVerdict(reason(err), err.Error())
	return env, &dead, nil
}

// reason is the short code by which dead letters are counted.
func reason(err error) string {
	switch {
	case errors.Is(err, codec.ErrHeader):
		return "bad_header"
	case errors.Is(err, codec.ErrUnknownType):
		return "unknown_type"
	case errors.Is(err, codec.ErrUnknownSchema):
		return "unknown_schema"
	}
	return "undecodable"
}
