package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind is a kind of harm. Names in parentheses are the public failures that it stands for.
type Kind string

// The kinds, in the order in which they are done.
const (
	History    Kind = "history"    // a consumer starts on a topic with history (CON-03)
	Duplicates Kind = "duplicates" // facts are written again: next to the first, and much later
	Kill       Kind = "kill"       // it is killed in the middle, again and again (CON-01)
	Freeze     Kind = "freeze"     // it is frozen in the middle, another takes over, and it wakes (zombie)
	Rebalance  Kind = "rebalance"  // replicas come and go while facts flow (CON-11, CON-12)
	Poison     Kind = "poison"     // records that cannot be read are among good ones, the last one too (CON-05)
	Storm      Kind = "storm"      // nearly everything is broken
	Strangers  Kind = "strangers"  // ids are missing, empty, malformed or there twice (CON-10)
	Tombstone  Kind = "tombstone"  // a record has no value and a broken trace header (CON-04)
	Clocks     Kind = "clocks"     // facts claim to be of the past and of the future (CON-17)
	Replay     Kind = "replay"     // everything is read again, and written again
	Growth     Kind = "growth"     // the topic gets more partitions, which are written to at once (CON-03)
	Afterwards Kind = "afterwards" // no harm: all facts are judged once more at the end
)

// harm is how a kind is done. What follows is the same for all: see suite.settle.
type harm struct {
	kind Kind
	do   func(ctx context.Context, s *suite) error
}

var harms = []harm{
	{History, func(ctx context.Context, s *suite) error { return s.state(ctx, s.make(s.Scale)) }},
	{Duplicates, duplicates},
	{Kill, kill},
	{Freeze, freeze},
	{Rebalance, rebalance},
	{Poison, poison},
	{Storm, storm},
	{Strangers, strangers},
	{Tombstone, tombstone},
	{Clocks, clocks},
	{Replay, replay},
	{Growth, growth},
}

func duplicates(ctx context.Context, s *suite) error {
	if _, err := s.start(); err != nil {
		return err
	}
	facts := s.make(s.Scale)
	var twice []stated
	for i, f := range facts {
		twice = append(twice, f)
		if i%3 == 0 {
			twice = append(twice, f)
		}
	}
	s.facts = facts
	return errors.Join(s.repeat(ctx, twice), s.repeat(ctx, facts[:len(facts)/2]))
}

func kill(ctx context.Context, s *suite) error {
	const times = 3
	if err := s.state(ctx, s.make(4*s.Scale)); err != nil {
		return err
	}
	for i := range times {
		p, err := s.start()
		if err != nil {
			return err
		}
		if _, err := s.await(ctx, 1+i*len(s.facts)/times); err != nil {
			return err
		}
		if err := s.kill(p); err != nil {
			return err
		}
	}
	return nil
}

func freeze(ctx context.Context, s *suite) error {
	frozen, err := s.start()
	if err != nil {
		return err
	}
	if err := s.state(ctx, s.make(2*s.Scale)); err != nil {
		return err
	}
	if _, err := s.await(ctx, 1); err != nil {
		return err
	}
	if err := frozen.freeze(); err != nil {
		return err
	}
	if err := s.state(ctx, s.make(s.Scale)); err != nil {
		return errors.Join(err, frozen.thaw())
	}
	_, err = s.start()
	if err == nil {
		_, err = s.await(ctx, len(s.facts))
	}
	return errors.Join(err, frozen.thaw())
}

func rebalance(ctx context.Context, s *suite) error {
	for round := range 3 {
		p, err := s.start()
		if err != nil {
			return err
		}
		if err := s.state(ctx, s.make(s.Scale)); err != nil {
			return err
		}
		if _, err := s.await(ctx, (2*round+1)*s.Scale/2); err != nil {
			return err
		}
		if round == 1 {
			if err := s.stop(ctx, p); err != nil {
				return err
			}
		}
	}
	return s.stop(ctx, s.processes[0])
}

func clocks(ctx context.Context, s *suite) error {
	if _, err := s.start(); err != nil {
		return err
	}
	facts := s.make(s.Scale)
	for i := range facts {
		// Each a little before its predecessor, and some far off. Days are less than what anybody may have forgotten.
		skew := -time.Duration(i) * time.Second
		switch i % 40 {
		case 20:
			skew = 365 * 24 * time.Hour
		case 30:
			skew = -48 * time.Hour
		}
		facts[i].OccurredAt = facts[i].OccurredAt.Add(skew)
	}
	return s.state(ctx, facts)
}

func replay(ctx context.Context, s *suite) error {
	p, err := s.start()
	if err != nil {
		return err
	}
	facts := s.make(s.Scale)
	if err := s.state(ctx, facts); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(facts)); err != nil {
		return err
	}
	if s.Rewind != nil {
		if err := s.stop(ctx, p); err != nil {
			return err
		}
		if err := s.Rewind(ctx); err != nil {
			return fmt.Errorf("rewind: %w", err)
		}
		if _, err := s.start(); err != nil {
			return err
		}
	}
	return s.repeat(ctx, facts)
}

func growth(ctx context.Context, s *suite) error {
	if _, err := s.start(); err != nil {
		return err
	}
	if err := s.state(ctx, s.make(s.Scale/10)); err != nil {
		return err
	}
	if _, err := s.await(ctx, len(s.facts)); err != nil {
		return err
	}
	answers, err := kadm.NewClient(s.byKey).CreatePartitions(ctx, 3, s.Topic)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("add partitions to %s: %w", s.Topic, err)
	}
	// Into the new partitions alone, under keys of their own: what moved has no order with what was before.
	var records []*kgo.Record
	for p := range s.Partitions + 3 {
		for n := range 20 {
			f := s.fact(fmt.Sprintf("%s-new-%d", s.kind, p), n)
			r := s.record(f)
			r.Partition = p
			records = append(records, r)
			s.facts = append(s.facts, f)
		}
	}
	if err := s.lookAgain(); err != nil { // a client learns of partitions when it looks
		return err
	}
	if err := s.exact.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("write to new partitions: %w", err)
	}
	return nil
}
