package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
	"chorus/schemas"
)

// Status is what a registry says about one fact's present schema.
type Status struct {
	Schema   schemas.Schema
	ID       int      // in that registry; 0 while not registered
	Version  int      // in that registry
	Versions int      // how many the registry holds of the subject
	Problems []string // why versions there and the present schema cannot read each other (FULL_TRANSITIVE); none when it may be registered
}

// IncompatibleError says that a schema and what the registry holds cannot read each other (SCH-13).
type IncompatibleError struct {
	Subject  string
	Problems []string
}

func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("schema %s is not compatible with the registry's: %s", e.Subject, strings.Join(e.Problems, "; "))
}

// Check compares the schemas with the registry and changes nothing. It waits, until ctx ends, for a registry that is away. Versions are
// compared here, whatever level the registry is set to.
func (c *Client) Check(ctx context.Context) ([]Status, error) {
	var all []Status
	for _, s := range schemas.List() {
		st := Status{Schema: s}
		held, err := c.versions(ctx, s.Subject)
		if err != nil {
			return nil, err
		}
		st.Versions = len(held)
		if len(held) > 0 {
			found, err := c.lookup(ctx, s)
			if err != nil {
				return nil, err
			}
			st.ID, st.Version = found.ID, found.Version
		}
		if st.Problems, err = problems(s, held); err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

func problems(s schemas.Schema, held []sr.SubjectSchema) ([]string, error) {
	present, err := avsc.Parse(s.Text)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", s.Subject, err)
	}
	var all []string
	for _, h := range held {
		older, err := avsc.Parse(h.Schema.Schema)
		if err != nil {
			all = append(all, fmt.Sprintf("version %d: %v", h.Version, err))
			continue
		}
		for _, p := range avsc.Full(older, present) {
			all = append(all, fmt.Sprintf("version %d: %s", h.Version, p))
		}
	}
	return all, nil
}

// Register registers the schemas that are not in the registry yet, and returns the ids of all, for codec.New. If any is incompatible none
// is registered, and the error holds an *IncompatibleError for each. It waits, until ctx ends, for a registry that is away.
func (c *Client) Register(ctx context.Context) (map[event.Type]int, error) {
	all, err := c.Check(ctx)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, st := range all {
		if len(st.Problems) > 0 {
			faults = append(faults, &IncompatibleError{Subject: st.Schema.Subject, Problems: st.Problems})
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	ids := map[event.Type]int{}
	for _, st := range all {
		if st.ID == 0 {
			if st.ID, err = c.register(ctx, st.Schema); err != nil {
				return nil, err
			}
		}
		ids[event.Type(st.Schema.Type)] = st.ID
	}
	return ids, nil
}

func (c *Client) register(ctx context.Context, s schemas.Schema) (int, error) {
	id, err := retry(ctx, c, "register schema "+s.Subject, func() (int, error) {
		return c.sr.RegisterSchema(ctx, s.Subject, sr.Schema{Schema: s.Text}, -1, -1)
	})
	var answer *sr.ResponseError
	if errors.As(err, &answer) && answer.StatusCode == 409 {
		return 0, &IncompatibleError{Subject: s.Subject, Problems: []string{answer.Error()}}
	}
	if err != nil {
		return 0, err
	}
	c.log.Info("schema registered", "subject", s.Subject, "id", id)
	c.protect(ctx, s.Subject)
	return id, nil
}

// protect asks the registry to keep up FULL_TRANSITIVE for the subject against others too. A registry that will not
// is no reason to stop: Check compares by itself.
func (c *Client) protect(ctx context.Context, subject string) {
	for _, r := range c.sr.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFullTransitive}, subject) {
		if r.Err != nil {
			c.log.Warn("schema registry keeps another compatibility level", "subject", subject, "want", sr.CompatFullTransitive.String(), "err", r.Err)
		}
	}
}

// Entry is one version of one of our subjects in a registry.
type Entry struct {
	Subject string
	Version int
	ID      int
	Present bool // it is the schema that this version of chorus writes
}

// List returns what the registry holds of our facts' schemas, by fact and version. It waits, until ctx ends, for a registry that is away.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	var all []Entry
	for _, s := range schemas.List() {
		held, err := c.versions(ctx, s.Subject)
		if err != nil {
			return nil, err
		}
		if len(held) == 0 {
			continue
		}
		present, err := c.lookup(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, h := range held {
			all = append(all, Entry{Subject: s.Subject, Version: h.Version, ID: h.ID, Present: h.ID == present.ID})
		}
	}
	return all, nil
}

// versions returns all versions of a subject, oldest first; none when the registry does not know it.
func (c *Client) versions(ctx context.Context, subject string) ([]sr.SubjectSchema, error) {
	return retry(ctx, c, "read versions of schema "+subject, func() ([]sr.SubjectSchema, error) {
		held, err := c.sr.Schemas(ctx, subject)
		if notFound(err) {
			return nil, nil
		}
		return held, err
	})
}
