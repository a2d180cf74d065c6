package simulated

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"chorus/internal/pg"
)

// maxBatch bounds how many calls share a transaction.
const maxBatch = 256

// batchTimeout bounds one transaction, its reruns included.
const batchTimeout = 30 * time.Second

// A lane is a provider's one writer. Calls that arrive while it commits wait and are committed together by the next
// transaction: that spares most commits under load, and lets any number of charges of one customer pass without queueing
// for the customer's row.
type lane struct {
	log      *slog.Logger
	provider *provider
	run      func(context.Context, *provider, []*command) ([]answer, error)
	in       chan submission
	quit     chan struct{} // closed: finish what is queued and end
	ended    chan struct{}
}

type submission struct {
	command *command
	done    chan outcome // holds one
}

type outcome struct {
	answer answer
	err    error
}

var errStopping = errors.New("the provider is stopping")

func newLane(log *slog.Logger, p *provider, s *store) *lane {
	return &lane{
		log: log, provider: p, run: s.run,
		in: make(chan submission, maxBatch), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// submit waits until the command is committed or refused. After an error the command may have been applied all the same
// (a commit whose answer was lost); the caller's key finds out.
func (l *lane) submit(c *command) (answer, error) {
	s := submission{c, make(chan outcome, 1)}
	select {
	case l.in <- s:
	case <-l.ended:
		return answer{}, errStopping
	}
	select {
	case o := <-s.done:
		return o.answer, o.err
	case <-l.ended:
	}
	select { // the last batch may have held it
	case o := <-s.done:
		return o.answer, o.err
	default:
		return answer{}, errStopping
	}
}

// work commits batches until quit is closed and the queue is empty.
func (l *lane) work(ctx context.Context) {
	defer close(l.ended)
	for {
		select {
		case s := <-l.in:
			l.turn(ctx, s)
			continue
		default:
		}
		select {
		case s := <-l.in:
			l.turn(ctx, s)
		case <-l.quit:
			return
		}
	}
}

// mostRest bounds the rest after a transaction.
const mostRest = 20 * time.Millisecond

// turn commits a batch and rests for as long as that took, so that on a busy machine more calls share the next one. A call that
// comes after a pause is committed at once.
func (l *lane) turn(ctx context.Context, first submission) {
	began := time.Now()
	l.commit(ctx, l.gather(first))
	t := time.NewTimer(min(time.Since(began), mostRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.quit:
	}
}

func (l *lane) gather(first submission) []submission {
	batch := []submission{first}
	for len(batch) < maxBatch {
		select {
		case s := <-l.in:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch. When the server refuses its data, each call runs alone, so that the one at fault alone fails.
func (l *lane) commit(ctx context.Context, batch []submission) {
	ctx, stop := context.WithTimeout(ctx, batchTimeout)
	defer stop()
	cs := make([]*command, len(batch))
	for i, s := range batch {
		cs[i] = s.command
	}
	answers, err := l.run(ctx, l.provider, cs)
	if pg.Fault(err) && len(batch) > 1 {
		for _, s := range batch {
			l.commit(ctx, []submission{s})
		}
		return
	}
	if err != nil {
		l.log.Error("calls not recorded", "provider", l.provider.name, "calls", len(batch), "err", err)
	}
	for i, s := range batch {
		if err != nil {
			s.done <- outcome{err: err}
			continue
		}
		s.done <- outcome{answer: answers[i]}
	}
}
