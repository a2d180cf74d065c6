package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// refuses says why the topic takes no such record, of n bytes; nil when it does.
func (t *topic) refuses(r *kgo.Record, n int) *refusal {
	switch {
	case n+batchSlack > t.limit:
		return &refusal{fmt.Sprintf("a row%s makes a record of %d bytes, topic %s takes %d; raise its max.message.bytes", of(r), n, t.name, t.limit), true}
	case r.Partition >= t.partitions:
		return &refusal{fmt.Sprintf("topic %s has %d partitions, and a row%s asks for partition %d", t.name, t.partitions, of(r), r.Partition), true}
	case t.ahead > 0 && t.isAhead(r.Timestamp):
		return &refusal{fmt.Sprintf("a row%s makes a record of %s, topic %s takes none that far ahead", of(r), r.Timestamp.UTC().Format(time.RFC3339), t.name), true}
	case t.behind > 0 && time.Since(r.Timestamp) > t.behind:
		return &refusal{fmt.Sprintf("a row%s makes a record of %s, topic %s takes none that old", of(r), r.Timestamp.UTC().Format(time.RFC3339), t.name), true}
	case t.compacted && r.Key == nil:
		return &refusal{fmt.Sprintf("a row%s has no key, and topic %s is compacted", of(r), t.name), true}
	}
	return nil
}

// isAhead tells whether a record's time lies too far ahead. The clock is asked
// only for one that would have been too far ahead when it was asked last.
func (t *topic) isAhead(at time.Time) bool {
	if !at.After(t.latest) {
		return false
	}
	t.latest = time.Now().Add(t.ahead)
	return at.After(t.latest)
}

// of names the row of a record.
func of(r *kgo.Record) string {
	text := ""
	if r.Key != nil {
		text = fmt.Sprintf(" with key %q", r.Key)
	}
	for _, h := range r.Headers {
		if h.Key == "id" {
			return fmt.Sprintf("%s and id %s", text, h.Value)
		}
	}
	return text
}

// errNewLimit ends a session so that the next one, with a new client, works
// with the topic's new limit.
var errNewLimit = errors.New("topic takes larger records now")

// admit asks Kafka whether it takes a record, for as long as it does not answer,
// and for as long as it does not take it; when such a record is put into
// quarantine or dropped, why is the reason instead.
func (p *publisher) admit(ctx context.Context, r *kgo.Record, n int, key string) (why *refusal, err error) {
	before := p.out.topics[key]
	err = p.insist(ctx, func() error {
		t, err := p.out.lookUpUnless(ctx, r.Topic, p.kept != nil && p.kept.takes)
		if err == nil {
			if before != nil && t.limit > before.limit {
				return errNewLimit
			}
			p.out.limits.Store(t.name, int32(t.limit))
			t.key, p.out.topics[key] = key, t
			if no := t.refuses(r, n); no != nil {
				err = *no
			}
		}
		var no refusal
		if errors.As(err, &no) && (p.kept != nil && p.kept.takes || no.record && p.tolerates()) {
			why = &no
			return nil
		}
		return err
	})
	return why, err
}

// tolerates tells whether rows that cannot be published are dropped.
func (s *source) tolerates() bool { return s.dropin != nil && s.dropin.connector.Tolerate }

// drop gives a row up, as errors.tolerance=all demands.
func (p *publisher) drop(why string) {
	p.metrics.ignored.WithLabelValues("tolerated").Inc()
	p.log.Warn("row is dropped, as errors.tolerance=all demands", "reason", why)
}
