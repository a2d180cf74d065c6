package conformance

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Subject is the consumer under test. Brokers, Topic, Start and Effects must be set.
type Subject struct {
	Brokers    []string // host:port
	Topic      string   // made by the suite; nobody else writes to it
	Partitions int32    // of the topic at first; 0 means 3

	// Start returns a process of the consumer, not yet started. Several run at once, as replicas of one consumer; they share what replicas share, and end on SIGTERM with exit code 0.
	Start func() *exec.Cmd
	// Effects returns all effects so far. Those of one key are in the order in which they happened.
	Effects func(ctx context.Context) ([]Effect, error)

	// Aside, when set, counts the records that the consumer has set aside (dead letters). Without it the suite cannot tell one that was set aside from one that was dropped.
	Aside func(ctx context.Context) (int, error)
	// Rewind, when set, has the consumer read the topic from its beginning. It is called while no process runs.
	Rewind func(ctx context.Context) error
	// Provider, when set, is what the consumer calls once for each fact.
	Provider *Provider

	// Record returns the value and headers of a fact; nil means what docs/wire-format.md says, with the JSON value {"n":17}. A value that begins with the bytes 00 ff must be one that the consumer cannot read.
	Record func(Fact) (value []byte, headers []Header)

	Scale    int           // facts of a kind of harm, roughly; 0 means 1,000
	Patience time.Duration // longest wait for an effect, an exit or a takeover; 0 means 1 minute. It has to be well above the consumer's session timeout.
}

// Fact is what one record states.
type Fact struct {
	ID         string // UUID
	Key        string
	N          int // rises within a key
	OccurredAt time.Time
}

// Effect is what the consumer made of a fact.
type Effect struct {
	Fact string // the fact's id, as it was in the header
	Key  string
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

func (s Subject) withDefaults() (Subject, error) {
	var faults []error
	if len(s.Brokers) == 0 {
		faults = append(faults, errors.New("no brokers"))
	}
	if s.Topic == "" {
		faults = append(faults, errors.New("no topic"))
	}
	if s.Start == nil {
		faults = append(faults, errors.New("nothing to start"))
	}
	if s.Effects == nil {
		faults = append(faults, errors.New("no way to read effects"))
	}
	if s.Partitions < 0 || s.Scale < 0 || s.Patience < 0 {
		faults = append(faults, errors.New("partitions, scale and patience are not negative"))
	}
	if err := errors.Join(faults...); err != nil {
		return s, fmt.Errorf("conformance subject: %w", err)
	}
	if s.Partitions == 0 {
		s.Partitions = 3
	}
	if s.Scale == 0 {
		s.Scale = 1000
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	if s.Record == nil {
		s.Record = wireFormat
	}
	return s, nil
}

// wireFormat is docs/wire-format.md's.
func wireFormat(f Fact) ([]byte, []Header) {
	text := func(key, value string) Header { return Header{key, []byte(value)} }
	return fmt.Appendf(nil, `{"n":%d}`, f.N), []Header{
		text("id", f.ID), text("eventType", "Tested"), text("aggregateType", "conformance"),
		text("occurredAt", f.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z")),
		text("correlationId", f.Key), text("causationId", ""), text("hop", "0"),
	}
}
