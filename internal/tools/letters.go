package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/inspect"
)

// Letter names a dead letter on the command line, as in billing/12.
type Letter struct {
	Service event.Participant
	ID      int64
}

// UnmarshalText is for kong.
func (l *Letter) UnmarshalText(text []byte) error {
	service, id, ok := strings.Cut(string(text), "/")
	n, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("dead letter %q: want SERVICE/NUMBER, as in billing/12", text)
	}
	*l = Letter{event.Participant(service), n}
	return holds(l.Service)
}

func (l Letter) String() string { return fmt.Sprintf("%s/%d", l.Service, l.ID) }

// holds refuses who is none that may hold dead letters.
func holds(who event.Participant) error {
	if !slices.Contains(holders(), who) {
		return fmt.Errorf("there is no service %s; dead letters are held by %s", who, names(holders()))
	}
	return nil
}

// Instant is a time on the command line: RFC 3339, or how long ago.
type Instant struct{ time.Time }

// UnmarshalText is for kong.
func (i *Instant) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil {
		i.Time = time.Now().Add(-ago)
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("time %q: want a duration ago, as in 2h, or a time, as in 2026-01-12T09:30:00Z", text)
	}
	i.Time = at
	return nil
}

// LetterFilter chooses dead letters on the command line.
type LetterFilter struct {
	Service string  `help:"Only of this consumer: a service, or tracker." placeholder:"NAME"`
	Type    string  `help:"Only facts of this type." placeholder:"FACT"`
	Reason  string  `help:"Only with this reason, as in undecodable." placeholder:"CODE"`
	Order   *Number `help:"Only of this order." placeholder:"NUMBER"`
	Since   Instant `help:"Only those that first failed at or after a time, or so long ago." placeholder:"TIME|2h"`
	Before  Instant `help:"Only those that first failed before a time." placeholder:"TIME|2h"`
}

// any reports whether something is chosen by it.
func (f LetterFilter) any() bool {
	return f.Service != "" || f.Type != "" || f.Reason != "" || f.Order != nil || !f.Since.IsZero() || !f.Before.IsZero()
}

// find reads the letters of a state that the filter chooses, those of each service in the order in which they must be handled.
func (f LetterFilter) find(ctx context.Context, all addresses, state string) ([]inspect.Letter, error) {
	who := holders()
	if f.Service != "" {
		who = []event.Participant{event.Participant(f.Service)}
		if err := holds(who[0]); err != nil {
			return nil, err
		}
	}
	filter := inspect.LetterFilter{State: state, Type: f.Type, Reason: f.Reason, Since: f.Since.Time, Before: f.Before.Time}
	if f.Order != nil {
		filter.Key = f.Order.String()
	}
	letters := []inspect.Letter{}
	for _, p := range who {
		client, err := all.participant(p)
		if err != nil {
			return nil, err
		}
		of, err := client.Matching(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("dead letters of %s: %w", p, err)
		}
		letters = append(letters, of...)
	}
	return letters, nil
}

// LetterChoice is the letters that are named, or all open ones that a filter chooses.
type LetterChoice struct {
	Letters      []Letter `arg:"" optional:"" help:"SERVICE/NUMBER, as the list has it; several are allowed."`
	All          bool     `help:"All open ones that the filters choose; without a filter, all there are."`
	LetterFilter `embed:""`
}

// find reads them.
func (c LetterChoice) find(ctx context.Context, all addresses) ([]inspect.Letter, error) {
	switch {
	case c.All == (len(c.Letters) > 0):
		return nil, errors.New("name letters, or say --all, with filters or without")
	case c.All:
		return c.LetterFilter.find(ctx, all, "open")
	case c.any():
		return nil, errors.New("filters go with --all, not with letters that are named")
	}
	var letters []inspect.Letter
	for _, which := range c.Letters {
		_, l, err := findLetter(ctx, all, which)
		if err != nil {
			return nil, err
		}
		letters = append(letters, l)
	}
	slices.SortStableFunc(letters, func(a, b inspect.Letter) int { return cmp.Compare(a.Participant, b.Participant) })
	return letters, nil
}

func findLetter(ctx context.Context, all addresses, which Letter) (inspect.Client, inspect.Letter, error) {
	client, err := all.participant(which.Service)
	if err != nil {
		return client, inspect.Letter{}, err
	}
	l, err := client.Letter(ctx, which.ID)
	if err != nil {
		err = fmt.Errorf("dead letter %s: %w", which, err)
	}
	return client, l, err
}
