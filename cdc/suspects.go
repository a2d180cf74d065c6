package cdc

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// suspects are records that Kafka has refused for a reason that was not
// foreseen: a broker has rules of its own. All records of a request are refused
// with the one that is to blame, so each of them is sent alone by the next
// session, and the one that is refused then is it. What is known is forgotten
// with the process, and found out again.
type suspects struct {
	mu     sync.Mutex // guards what follows
	seen   map[[32]byte]bool
	guilty map[[32]byte]string // reason
	alone  [32]byte            // the record that is sent alone now
}

// final are the refusals that no repetition changes.
var final = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage,
	kerr.UnsupportedForMessageFormat, kerr.PolicyViolation, kerr.InvalidTopicException, kerr.InvalidRequiredAcks}

func digest(r *kgo.Record) (sum [32]byte) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Topic), r.Key, r.Value} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write(part)
	}
	for _, x := range r.Headers {
		_, _ = h.Write([]byte(x.Key))
		_, _ = h.Write(x.Value)
	}
	h.Sum(sum[:0])
	return sum
}

// add notes a record that was refused.
func (s *suspects) add(err error, r *kgo.Record) {
	is := false
	for _, f := range final {
		is = is || errors.Is(err, f)
	}
	if !is {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen, s.guilty = map[[32]byte]bool{}, map[[32]byte]string{}
	}
	d := digest(r)
	if d == s.alone {
		s.guilty[d] = err.Error()
		delete(s.seen, d)
	} else if len(s.seen) < 4*maxInFlight {
		s.seen[d] = true
	}
}

// judge tells what is known of a record.
func (s *suspects) judge(r *kgo.Record) (suspect bool, guilty string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen)+len(s.guilty) == 0 {
		return false, ""
	}
	d := digest(r)
	return s.seen[d], s.guilty[d]
}

func (s *suspects) sendAlone(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone = digest(r)
}

// cleared says that the record that was sent alone is in Kafka.
func (s *suspects) cleared() {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, s.alone)
	s.alone = [32]byte{}
}

// forget makes a record as good as any: it is kept now, and may be tried again.
func (s *suspects) forget(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilty, digest(r))
}

// sendSuspect sends a record: alone when it is suspect, and not at all when it
// was found to be refused.
func (p *publisher) sendSuspect(ctx context.Context, q *parcel) error {
	if p.kept == nil || !p.kept.takes {
		return p.send(ctx, q)
	}
	r := &q.Record
	suspect, guilty := p.suspects.judge(r)
	switch {
	case guilty != "":
		p.suspects.forget(r)
		return p.keep(ctx, r, guilty)
	case !suspect:
		return p.send(ctx, q)
	}
	if err := p.drainAll(ctx); err != nil {
		return err
	}
	p.suspects.sendAlone(r)
	if err := p.send(ctx, q); err != nil {
		return err
	}
	if err := p.drainAll(ctx); err != nil {
		return err
	}
	p.suspects.cleared()
	return nil
}

// drainAll waits until everything that was sent is in Kafka, in the middle of a
// transaction too.
func (p *publisher) drainAll(ctx context.Context) error {
	for p.flight.unacked() > 0 {
		if p.exactly != nil {
			p.exactly.gathering.press()
		}
		if err := p.flight.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
