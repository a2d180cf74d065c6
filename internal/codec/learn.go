package codec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
)

// Resolver returns the text of the schema that a registry knows by an id. An error that
// is ErrUnknownSchema says that there is none; any other, that the registry could not be asked.
type Resolver func(ctx context.Context, id int) (text string, err error)

// An id that the registry did not know is asked for again after forgetAfter, because registries in
// a cluster may lag. No more than mostMissing such ids are remembered: who writes nonsense could invent any number of them.
const (
	forgetAfter = time.Minute
	mostMissing = 1000
)

// learner asks the registry, one question at a time.
type learner struct {
	turn    chan struct{} // holds a token while nobody asks; guards missing and the replacing of Codec.known
	resolve Resolver
	missing map[int]missing
}

// missing is an id of which the registry said that it has no such schema, or one that cannot be used.
type missing struct {
	since time.Time
	err   *Error
}

func newLearner() learner {
	l := learner{turn: make(chan struct{}, 1), missing: map[int]missing{}}
	l.turn <- struct{}{}
	return l
}

// LearnFrom names the registry for Learn. It must be called before the codec is shared.
func (c *Codec) LearnFrom(r Resolver) { c.learner.resolve = r }

// Learn makes the schema of that id known, by asking the registry, so that what Decode refused with
// ErrUnknownSchema can be decoded again. It returns nil when the schema is known now; an *Error when
// the record cannot be read (no such schema, or not that of a fact we know); any other error when the registry
// could not be asked or ctx ended: then nothing is remembered, and the caller asks again later (SCH-12).
// However many records and goroutines meet an id, the registry is asked once; what it does not know it is not asked for a minute.
func (c *Codec) Learn(ctx context.Context, id int) error {
	select {
	case <-c.learner.turn:
	case <-ctx.Done():
		return fmt.Errorf("learn schema id %d: %w", id, ctx.Err())
	}
	defer func() { c.learner.turn <- struct{}{} }()

	if (*c.known.Load())[id] != nil {
		return nil
	}
	if m, ok := c.learner.missing[id]; ok && time.Since(m.since) < forgetAfter {
		return m.err
	}
	s, err := c.ask(ctx, id)
	var final *Error
	switch {
	case errors.As(err, &final):
		c.learner.remember(final)
		return final
	case err != nil:
		return fmt.Errorf("learn schema id %d: %w", id, err)
	}
	known := maps.Clone(*c.known.Load())
	known[id] = s
	c.known.Store(&known)
	return nil
}

func (c *Codec) ask(ctx context.Context, id int) (*schema, error) {
	unknown := &Error{Kind: ErrUnknownSchema, Part: "value", SchemaID: id}
	if c.learner.resolve == nil {
		unknown.Reason = fmt.Sprintf("schema id %d is not known, and there is no registry to ask", id)
		return nil, unknown
	}
	text, err := c.learner.resolve(ctx, id)
	if errors.Is(err, ErrUnknownSchema) {
		unknown.Reason = fmt.Sprintf("the registry knows no schema id %d", id)
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	present := map[event.Type]*avsc.Type{}
	for t, s := range c.writers {
		present[t] = s.shape
	}
	s, err := compile(text, present)
	if err != nil {
		unknown.Reason = fmt.Sprintf("schema id %d cannot be used: %v", id, err)
		return nil, unknown
	}
	s.id = id
	return s, nil
}

// remember keeps an id that cannot be learned for a while.
func (l *learner) remember(e *Error) {
	if len(l.missing) >= mostMissing {
		clear(l.missing)
	}
	l.missing[e.SchemaID] = missing{time.Now(), e}
}
