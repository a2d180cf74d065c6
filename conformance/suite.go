package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// suite is one run.
type suite struct {
	Subject
	byKey *kgo.Client // puts records where their key belongs
	exact *kgo.Client // puts them into the partition that they name

	all       []stated        // of the kinds that are done
	elsewhere map[string]bool // ids whose effects the present kind does not judge

	// Of the present kind of harm:
	kind      Kind
	facts     []stated
	next      map[string]int // N of a key's next fact
	processes []*process
	revived   int
	faults    []string
}

// Run does every kind of harm to the consumer, or only those named, one after the other, and reports. The error says why the suite itself could not go on (no broker, a hook that fails);
// the report is then of what was done.
func Run(ctx context.Context, subject Subject, kinds ...Kind) (Report, error) {
	subject, err := subject.withDefaults()
	if err != nil {
		return Report{}, err
	}
	s := &suite{Subject: subject, elsewhere: map[string]bool{}}
	if s.byKey, err = kgo.NewClient(kgo.SeedBrokers(subject.Brokers...)); err != nil {
		return Report{}, fmt.Errorf("make a Kafka client: %w", err)
	}
	defer s.byKey.Close()
	if err := s.lookAgain(); err != nil {
		return Report{}, err
	}
	defer func() { s.exact.Close() }()
	if _, err := kadm.NewClient(s.byKey).CreateTopic(ctx, subject.Partitions, -1, nil, subject.Topic); err != nil {
		return Report{}, fmt.Errorf("make topic %s, which has to be the suite's own: %w", subject.Topic, err)
	}
	var report Report
	for _, h := range harms {
		if len(kinds) > 0 && !slices.Contains(kinds, h.kind) {
			continue
		}
		result, err := s.do(ctx, h)
		report.Results = append(report.Results, result)
		if err != nil {
			return report, fmt.Errorf("%s: %w", h.kind, err)
		}
	}
	result, err := s.afterwards(ctx)
	report.Results = append(report.Results, result)
	return report, err
}

// lookAgain makes the exact client, or a new one that sees the topic as it is now.
func (s *suite) lookAgain() error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	if s.exact != nil {
		s.exact.Close()
	}
	s.exact = client
	return nil
}

// do does one kind of harm. It begins and ends without a process.
func (s *suite) do(ctx context.Context, h harm) (result Result, err error) {
	began := time.Now()
	s.kind, s.facts, s.next, s.revived, s.faults = h.kind, nil, map[string]int{}, 0, nil
	defer func() {
		err = errors.Join(err, s.killAll())
		result.Took = time.Since(began)
	}()
	result.Kind = h.kind
	if err := h.do(ctx, s); err != nil {
		return result, err
	}
	if err := s.settle(ctx); err != nil {
		return result, err
	}
	result.Facts = len(s.good())
	if err := s.compare(ctx); err != nil {
		return result, err
	}
	result.Faults = s.faults
	return result, nil
}

// afterwards judges all facts of all kinds once more: harm may show late.
func (s *suite) afterwards(ctx context.Context) (Result, error) {
	began := time.Now()
	result := Result{Kind: Afterwards}
	effects, err := s.Effects(ctx)
	if err != nil {
		return result, fmt.Errorf("read effects: %w", err)
	}
	for _, f := range s.all {
		delete(s.elsewhere, f.ID)
	}
	s.facts = s.all
	result.Facts = len(s.good())
	result.Faults = judge(s.all, effects, s.elsewhere)
	result.Took = time.Since(began)
	return result, nil
}

// settle writes a last fact into each partition, waits until everything has taken effect, and asks all processes to end.
func (s *suite) settle(ctx context.Context) error {
	if len(s.processes) == 0 {
		if _, err := s.start(); err != nil {
			return err
		}
	}
	partitions, err := kadm.NewClient(s.byKey).ListTopics(ctx, s.Topic)
	if err == nil {
		err = partitions.Error()
	}
	if err != nil {
		return fmt.Errorf("list partitions of %s: %w", s.Topic, err)
	}
	var last []*kgo.Record
	for p := range partitions[s.Topic].Partitions {
		f := s.fact(fmt.Sprintf("%s-end-%d", s.kind, p), 0)
		r := s.record(f)
		r.Partition = p
		last = append(last, r)
		s.facts = append(s.facts, f)
	}
	if err := s.exact.ProduceSync(ctx, last...).FirstErr(); err != nil {
		return fmt.Errorf("write the last facts: %w", err)
	}
	if _, err := s.await(ctx, len(s.good())); err != nil {
		return err
	}
	for len(s.processes) > 0 {
		if err := s.stop(ctx, s.processes[0]); err != nil {
			return err
		}
	}
	return nil
}

// compare judges the present kind.
func (s *suite) compare(ctx context.Context) error {
	effects, err := s.Effects(ctx)
	if err != nil {
		return fmt.Errorf("read effects: %w", err)
	}
	s.faults = append(s.faults, judge(s.facts, effects, s.elsewhere)...)
	if s.Provider != nil {
		done, found := s.Provider.Done(), map[string][]string{}
		for _, f := range s.good() {
			switch n := done[f.ID]; {
			case n == 0:
				found["facts were never brought to the provider"] = append(found["facts were never brought to the provider"], f.name())
			case n > 1:
				found["facts were done by the provider more than once"] = append(found["facts were done by the provider more than once"], fmt.Sprintf("%s (%d times)", f.name(), n))
			}
		}
		s.faults = append(s.faults, list(found)...)
	}
	s.all = append(s.all, s.facts...)
	for _, f := range s.facts {
		s.elsewhere[f.ID] = true
	}
	for _, e := range effects {
		s.elsewhere[e.Fact] = true // a stranger is reported once
	}
	return nil
}

// good are the facts of the present kind that have to take effect.
func (s *suite) good() []stated {
	var good []stated
	for _, f := range s.facts {
		if !f.bad {
			good = append(good, f)
		}
	}
	return good
}

// await waits until n of the present kind's facts have taken effect, and been brought to the provider, and tells whether that was within the suite's patience.
func (s *suite) await(ctx context.Context, n int) (bool, error) {
	wanted := map[string]bool{}
	for _, f := range s.good() {
		wanted[f.ID] = true
	}
	return s.until(ctx, func() (bool, error) {
		effects, err := s.Effects(ctx)
		if err != nil {
			return false, fmt.Errorf("read effects: %w", err)
		}
		missing := maps.Clone(wanted)
		for _, e := range effects {
			delete(missing, e.Fact)
		}
		if s.Provider != nil && n == len(wanted) {
			done := s.Provider.Done()
			for id := range wanted {
				if done[id] == 0 {
					return false, nil
				}
			}
		}
		return len(wanted)-len(missing) >= n, nil
	})
}

// until waits for a condition, for the suite's patience at most.
func (s *suite) until(ctx context.Context, ok func() (bool, error)) (bool, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(s.Patience); ; {
		if done, err := ok(); done || err != nil {
			return done, err
		}
		if err := s.revive(); err != nil {
			return false, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (s *suite) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// fact makes a good fact of a key.
func (s *suite) fact(key string, n int) stated {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	h := hex.EncodeToString(id[:])
	return stated{Fact: Fact{
		ID:  h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:],
		Key: key, N: n, OccurredAt: time.Now().Truncate(time.Microsecond),
	}}
}

// make makes n good facts over the kind's keys.
func (s *suite) make(n int) []stated {
	const keys = 16
	out := make([]stated, n)
	for i := range out {
		key := fmt.Sprintf("%s-%d", s.kind, i%keys)
		s.next[key]++
		out[i] = s.fact(key, s.next[key])
	}
	return out
}

// record is a fact as it is written.
func (s *suite) record(f stated) *kgo.Record {
	value, headers := s.Record(f.Fact)
	r := &kgo.Record{Topic: s.Topic, Key: []byte(f.Key), Value: value}
	if f.bad {
		r.Value = append([]byte{0x00, 0xff}, value...)
	}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	return r
}

// state writes facts for the first time.
func (s *suite) state(ctx context.Context, facts []stated) error {
	s.facts = append(s.facts, facts...)
	return s.repeat(ctx, facts)
}

// repeat writes facts.
func (s *suite) repeat(ctx context.Context, facts []stated) error {
	records := make([]*kgo.Record, len(facts))
	for i, f := range facts {
		records[i] = s.record(f)
	}
	return s.write(ctx, records...)
}

func (s *suite) write(ctx context.Context, records ...*kgo.Record) error {
	if err := s.byKey.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("write facts: %w", err)
	}
	return nil
}
