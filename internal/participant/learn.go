package participant

import (
	"context"
	"errors"
	"sync"
	"time"

	"chorus/internal/codec"
)

// A schema that the registry does not have is asked for again after forgetAfter: a registry may lag, and a dead letter that is
// redriven then must be readable. No more than mostHopeless are remembered, because who writes nonsense can invent any number.
const (
	forgetAfter  = time.Minute
	mostHopeless = 1000
)

// learner asks the registry for unknown schemas, one question at a time for each, outside any transaction.
type learner struct {
	ctx   context.Context
	codec *codec.Codec

	mu   sync.Mutex        // guards what follows
	open map[int]bool      // being asked
	lost map[int]time.Time // when the registry said that there is no such schema
}

func newLearner(ctx context.Context, c *codec.Codec) *learner {
	return &learner{ctx: ctx, codec: c, open: map[int]bool{}, lost: map[int]time.Time{}}
}

// hopeless reports whether the registry has refused the id. Otherwise it starts to ask, unless somebody does already; the
// caller comes again.
func (l *learner) hopeless(id int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, lost := l.lost[id]; lost && time.Since(since) < forgetAfter {
		return true
	}
	if !l.open[id] {
		l.open[id] = true
		go l.ask(id) // ends with l.ctx or the registry's answer; it holds nothing that a stop must wait for
	}
	return false
}

func (l *learner) ask(id int) {
	err := l.codec.Learn(l.ctx, id)
	var refused *codec.Error
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
	delete(l.lost, id)
	if !errors.As(err, &refused) {
		return
	}
	if len(l.lost) >= mostHopeless {
		clear(l.lost)
	}
	l.lost[id] = time.Now()
}
