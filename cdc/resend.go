package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"
)

// resender publishes records of rows that were read again, in batches that are
// acknowledged before the next one is sent. So what was sent is known at each
// moment, and two records of a key never change places.
type resender struct {
	out   *producer
	mark  []kgo.RecordHeader // behind each record's own
	limit *rate.Limiter      // records a second; nil for none

	batch []*kgo.Record
	bytes int
	sent  int
	done  func(n int) error // told of each batch when Kafka has it; may be nil
}

const (
	resendRecords = 500
	resendBytes   = 1 << 20
)

func (r *resender) add(ctx context.Context, rec *kgo.Record) error {
	if r.limit != nil {
		if err := r.limit.Wait(ctx); err != nil {
			return err
		}
	}
	t, err := r.topic(ctx, rec.Topic)
	if err != nil {
		return err
	}
	rec.Headers = append(rec.Headers, r.mark...)
	n := size(rec)
	switch {
	case n+batchSlack > t.limit:
		return fmt.Errorf("a record of key %q has %d bytes, topic %s takes %d; raise its max.message.bytes", rec.Key, n, t.name, t.limit)
	case rec.Partition >= t.partitions:
		return fmt.Errorf("topic %s has %d partitions, and a row asks for partition %d", t.name, t.partitions, rec.Partition)
	}
	r.batch, r.bytes = append(r.batch, rec), r.bytes+n
	if len(r.batch) >= r.records() || r.bytes >= resendBytes {
		return r.flush(ctx)
	}
	return nil
}

// records is how many are sent together: no more than a fifth of a second's.
func (r *resender) records() int {
	if r.limit == nil {
		return resendRecords
	}
	return max(1, min(resendRecords, int(r.limit.Limit())/5))
}

// topic looks a topic up once. Nobody waits here for a topic to be made.
func (r *resender) topic(ctx context.Context, name string) (*topic, error) {
	if t := r.out.topics[name]; t != nil {
		return t, nil
	}
	if !validTopic(name) {
		return nil, fmt.Errorf("%q cannot be a topic's name", name)
	}
	t, err := r.out.lookUp(ctx, name)
	if err != nil {
		return nil, err
	}
	r.out.limits.Store(name, int32(t.limit))
	r.out.topics[name] = t
	return t, nil
}

// patienceOfTools is how long Kafka may take to acknowledge a batch. A person is
// waiting, and what was acknowledged is noted.
const patienceOfTools = time.Minute

// flush sends what was added and waits until Kafka has it.
func (r *resender) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patienceOfTools)
	defer cancel()
	if err := r.out.client.ProduceSync(ctx, r.batch...).FirstErr(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no acknowledgement within %s", patienceOfTools)
		}
		return fmt.Errorf("publish %d records: %w", len(r.batch), err)
	}
	n := len(r.batch)
	r.sent += n
	r.batch, r.bytes = r.batch[:0], 0
	if r.done != nil {
		return r.done(n)
	}
	return nil
}
