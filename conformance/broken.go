package conformance

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// broken makes a fact that cannot be read.
func (s *suite) broken(key string) stated {
	f := s.fact(key, 0)
	f.bad = true
	return f
}

func poison(ctx context.Context, s *suite) error {
	before, err := s.aside(ctx)
	if err != nil {
		return err
	}
	if _, err := s.start(); err != nil {
		return err
	}
	var facts []stated
	bad := 0
	for i, f := range s.make(s.Scale) {
		if i%50 == 25 {
			facts = append(facts, s.broken(f.Key))
			bad++
		}
		facts = append(facts, f)
	}
	facts = append(facts, s.broken(facts[len(facts)-1].Key))
	bad++
	if err := s.state(ctx, facts); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(s.good())); err != nil {
		return err
	}
	if err := s.setAside(ctx, before, bad); err != nil {
		return err
	}
	// After a restart, the last one is not met again.
	if err := s.stop(ctx, s.processes[0]); err != nil {
		return err
	}
	if _, err := s.start(); err != nil {
		return err
	}
	if err := s.state(ctx, s.make(16)); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(s.good())); err != nil {
		return err
	}
	return s.setAside(ctx, before, bad)
}

func storm(ctx context.Context, s *suite) error {
	before, err := s.aside(ctx)
	if err != nil {
		return err
	}
	if _, err := s.start(); err != nil {
		return err
	}
	var facts []stated
	good := s.make(s.Scale / 10)
	for i, f := range good {
		for range 99 {
			facts = append(facts, s.broken(fmt.Sprintf("%s-%d", f.Key, i)))
		}
		facts = append(facts, f)
	}
	if err := s.state(ctx, facts); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(good)); err != nil {
		return err
	}
	return s.setAside(ctx, before, len(facts)-len(good))
}

func strangers(ctx context.Context, s *suite) error {
	before, err := s.aside(ctx)
	if err != nil {
		return err
	}
	if _, err := s.start(); err != nil {
		return err
	}
	id := func(values ...string) func([]kgo.RecordHeader) []kgo.RecordHeader {
		return func(headers []kgo.RecordHeader) (out []kgo.RecordHeader) {
			for _, h := range headers {
				if h.Key != "id" {
					out = append(out, h)
				}
			}
			for _, v := range values {
				out = append(out, kgo.RecordHeader{Key: "id", Value: []byte(v)})
			}
			return out
		}
	}
	other := s.broken("other")
	s.facts = append(s.facts, other)
	var records []*kgo.Record
	bad := 0
	for i, f := range s.make(s.Scale / 10) {
		records = append(records, s.record(f))
		s.facts = append(s.facts, f)
		if i%10 != 5 {
			continue
		}
		for _, change := range []func([]kgo.RecordHeader) []kgo.RecordHeader{
			id(), id(""), id("not-a-uuid"), id(f.ID, other.ID), id("00000000-0000-0000-0000-000000000000"),
		} {
			r := s.record(f)
			r.Headers = change(r.Headers)
			records = append(records, r)
			bad++
		}
	}
	if err := s.write(ctx, records...); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(s.good())); err != nil {
		return err
	}
	return s.setAside(ctx, before, bad)
}

func tombstone(ctx context.Context, s *suite) error {
	if _, err := s.start(); err != nil {
		return err
	}
	for i, trace := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-zz", "", string(make([]byte, 2000))} {
		f := s.fact(fmt.Sprintf("%s-%d", s.kind, i), 0)
		s.elsewhere[f.ID] = true // handled or set aside, by the consumer's own rule
		r := s.record(f)
		r.Value = nil
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(trace)})
		if err := s.write(ctx, r); err != nil {
			return err
		}
	}
	return s.state(ctx, s.make(s.Scale/10))
}

// aside counts what has been set aside; 0 where the suite is not told.
func (s *suite) aside(ctx context.Context) (int, error) {
	if s.Aside == nil {
		return 0, nil
	}
	n, err := s.Aside(ctx)
	if err != nil {
		return 0, fmt.Errorf("count what was set aside: %w", err)
	}
	return n, nil
}

// setAside judges how many records have been set aside since before.
func (s *suite) setAside(ctx context.Context, before, want int) error {
	if s.Aside == nil {
		return nil
	}
	n := 0
	ok, err := s.until(ctx, func() (bool, error) {
		now, err := s.aside(ctx)
		n = now - before
		return n >= want, err
	})
	if err == nil && (!ok || n != want) {
		s.fault("%d records are set aside, want %d", n, want)
	}
	return err
}
