package cdc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/quarantine"
)

// How many records from the quarantine are sent together: so few that they are
// in one Kafka transaction, with the number of their batch.
const (
	retryRows  = 500
	retryBytes = 1 << 20
)

// settleKept publishes what somebody has asked for. It is called between two
// transactions, with no record of the key on its way, and returns when Kafka
// has what was sent: what is read next comes behind it.
func (s *session) settleKept(ctx context.Context) error {
	k := s.kept
	if s.start < k.known.Ahead {
		// What was kept may be further on than what Kafka has: earlier rows of its key come again in this session, and first (G2).
		return nil
	}
	k.due.Store(false)
	err := s.settleKeys(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNewLimit):
		return err
	case err != nil:
		s.log.Warn("rows of the quarantine are not published yet", "err", err) // the watch sees them again
	}
	return nil
}

func (s *session) settleKeys(ctx context.Context) error {
	k := s.kept
	if err := k.connect(ctx); err != nil {
		return err
	}
	if !s.settled {
		batch := uint64(0) // at-least-once: whether Kafka has them is not known
		if s.exactly != nil {
			batch = s.exactly.from.Batch
		}
		if err := quarantine.Settle(ctx, k.db, s.cfg.Name, batch); err != nil {
			return err
		}
		s.settled = true
	}
	asked, err := quarantine.Asked(ctx, k.db, s.cfg.Name)
	if err != nil {
		return err
	}
	for _, a := range asked {
		if err := s.retryKey(ctx, a.Topic, a.Key); err != nil {
			return fmt.Errorf("topic %s, key %q: %w", a.Topic, a.Key, err)
		}
	}
	now, err := quarantine.Read(ctx, k.db, s.cfg.Name, math.MaxInt64)
	if err != nil {
		return err
	}
	k.known.Held = now.Held
	return k.count(ctx)
}

// retryKey publishes the rows of a key in order, up to one that is refused.
func (s *session) retryKey(ctx context.Context, topic string, key []byte) error {
	for {
		rows, err := quarantine.Next(ctx, s.kept.db, s.cfg.Name, topic, key, retryRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		t, err := s.out.lookUpUnless(ctx, topic, false)
		var why refusal
		switch {
		case errors.As(err, &why):
			return s.refuseAgain(ctx, rows[0], why)
		case err != nil:
			return err
		}
		if known, ok := s.out.limits.Load(topic); ok && known.(int32) < int32(t.limit) {
			return errNewLimit
		}
		s.out.limits.Store(topic, int32(t.limit))
		b, no := s.batchOf(t, rows)
		if len(b.records) > 0 {
			if err := s.sendKept(ctx, b); err != nil {
				return err
			}
		}
		if no != nil {
			return s.refuseAgain(ctx, rows[len(b.records)], *no)
		}
	}
}

// batch is what is sent together from the quarantine.
type batch struct {
	records []*kgo.Record
	ids     []int64
	alone   bool // one record that was refused among others
}

// batchOf is the batch that the rows begin with, up to one that is refused.
func (s *session) batchOf(t *topic, rows []quarantine.Row) (b batch, no *refusal) {
	bytes := 0
	for _, row := range rows {
		r := messageOf(row)
		n := size(r)
		suspect, guilty := s.suspects.judge(r)
		switch bytes += n; {
		case guilty != "":
			s.suspects.forget(r)
			return b, &refusal{guilty, true}
		case t.refuses(r, n) != nil:
			return b, t.refuses(r, n)
		case len(b.records) > 0 && (suspect || bytes > retryBytes):
			return b, nil
		}
		b.records, b.ids = append(b.records, r), append(b.ids, row.ID)
		if b.alone = suspect; suspect {
			return b, nil
		}
	}
	return b, nil
}

func (s *session) refuseAgain(ctx context.Context, row quarantine.Row, why refusal) error {
	s.log.Warn("record of the quarantine is still refused", "topic", row.Topic, "key", string(row.Key), "id", row.ID, "reason", why.reason)
	return quarantine.Refuse(ctx, s.kept.db, s.cfg.Name, row, why.reason)
}

// sendKept sends a batch and waits until Kafka has it.
//
// A crash before the marks leaves records that are there and not marked: with
// at-least-once they are sent again, with exactly-once the number of the batch,
// which is in the position, tells that they are there.
func (s *session) sendKept(ctx context.Context, b batch) error {
	if err := s.flight.drain(ctx); err != nil {
		return err
	}
	number := uint64(math.MaxInt64)
	if s.exactly != nil {
		number = s.exactly.batch() + 1
	}
	if err := quarantine.Send(ctx, s.kept.db, b.ids, number); err != nil {
		return err
	}
	if b.alone {
		s.suspects.sendAlone(b.records[0])
	}
	s.tx, s.start, s.at = s.flight.begin(), 0, time.Now()
	s.sequence, s.done, s.batch = 0, 0, number
	for _, r := range b.records {
		s.sequence++
		q := s.wrap(*r)
		q.size, q.spent = size(r), true
		if err := s.send(ctx, q); err != nil {
			return err
		}
	}
	if err := s.commit(ctx, s.flight.through()); err != nil {
		return err
	}
	if err := s.flight.drain(ctx); err != nil {
		return err
	}
	if b.alone {
		s.suspects.cleared()
	}
	s.log.Info("published records of the quarantine", "topic", b.records[0].Topic, "key", string(b.records[0].Key), "records", len(b.records))
	return quarantine.Published(ctx, s.kept.db, b.ids)
}
