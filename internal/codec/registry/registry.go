// Package registry registers chorus's schemas with a schema registry that speaks
// Confluent's REST interface, and asks it for ids and texts. The subjects are the records' full names.
//
// Schemas are registered by a deploy step. A service asks for the ids once, when it starts, and for the text of an id that it
// meets in a topic and does not know; nothing here is called for a record that is known, so a registry that is away stops nothing
// but a start (SCH-12). Register is safe to repeat: a crash in the middle leaves some schemas registered, and the next run
// registers the rest. No schema is registered before all were found compatible with what the registry holds.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/sr"

	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/schemas"
)

// Client talks to one registry. It may be used by any number of goroutines.
type Client struct {
	sr      *sr.Client
	where   string // the address without credentials
	log     *slog.Logger
	initial time.Duration // the first wait for a registry that is away; each later one is longer
}

// A registry that is away is asked again after initialWait, then at longer intervals up to longestWait.
const (
	initialWait = 250 * time.Millisecond
	longestWait = 5 * time.Second
	callTimeout = 5 * time.Second
)

// New returns a client of the registry at address, such as http://localhost:8081 or
// http://user:password@host/apis/ccompat/v7. It does not connect.
func New(address string, log *slog.Logger) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("registry address: want http://host:port or https://host:port, with a path where the registry has one")
	}
	opts := []sr.ClientOpt{sr.HTTPClient(&http.Client{Timeout: callTimeout}), sr.UserAgent("chorus")}
	if u.User != nil {
		password, _ := u.User.Password()
		opts = append(opts, sr.BasicAuth(u.User.Username(), password))
		u.User = nil // errors and logs hold the address
	}
	cl, err := sr.NewClient(append(opts, sr.URLs(u.String()))...)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", u, err)
	}
	return &Client{sr: cl, where: u.String(), log: log, initial: initialWait}, nil
}

// MissingError says that the registry does not hold schemas which a service needs.
type MissingError struct {
	Registry string
	Subjects []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("registry %s has no present schema of %v: run chorus schemas register", e.Registry, e.Subjects)
}

// IDs returns the registry's id of each fact's present schema, for codec.New. It waits, until ctx ends, for
// a registry that is away. Schemas that are not registered are a *MissingError.
func (c *Client) IDs(ctx context.Context) (map[event.Type]int, error) {
	ids := map[event.Type]int{}
	var missing []string
	for _, s := range schemas.List() {
		found, err := c.lookup(ctx, s)
		if err != nil {
			return nil, err
		}
		if found.ID == 0 {
			missing = append(missing, s.Subject)
		}
		ids[event.Type(s.Type)] = found.ID
	}
	if len(missing) > 0 {
		return nil, &MissingError{Registry: c.where, Subjects: missing}
	}
	return ids, nil
}

// Text is a codec.Resolver. It asks once, for at most five seconds: whoever met the unknown id decides
// when to ask again, and what to do meanwhile.
func (c *Client) Text(ctx context.Context, id int) (string, error) {
	s, err := c.sr.SchemaByID(ctx, id)
	if notFound(err) {
		return "", fmt.Errorf("registry %s: %w: id %d", c.where, codec.ErrUnknownSchema, id)
	}
	if err != nil {
		return "", fmt.Errorf("ask registry %s for schema id %d: %w", c.where, id, err)
	}
	if s.Type != sr.TypeAvro {
		return "", fmt.Errorf("registry %s: %w: id %d is %s, not Avro", c.where, codec.ErrUnknownSchema, id, s.Type)
	}
	return s.Schema, nil
}

// lookup asks for a schema; the zero answer says that it is not registered.
func (c *Client) lookup(ctx context.Context, s schemas.Schema) (sr.SubjectSchema, error) {
	return retry(ctx, c, "look up schema "+s.Subject, func() (sr.SubjectSchema, error) {
		found, err := c.sr.LookupSchema(ctx, s.Subject, sr.Schema{Schema: s.Text})
		if notFound(err) {
			return sr.SubjectSchema{}, nil
		}
		return found, err
	})
}

// retry calls the registry until it answers or ctx ends. What it refuses (4xx) is not repeated.
func retry[T any](ctx context.Context, c *Client, what string, call func() (T, error)) (T, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = c.initial, longestWait
	var last error
	v, err := backoff.Retry(ctx, func() (T, error) {
		v, err := call()
		if err != nil {
			last = err
		}
		if refused(err) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		c.log.Warn("schema registry is away", "registry", c.where, "trying", what, "wait", wait, "err", err)
	}))
	switch {
	case err == nil:
		return v, nil
	case errors.Is(last, err):
		return v, fmt.Errorf("%s at %s: %w", what, c.where, err)
	}
	return v, fmt.Errorf("%s at %s: %w; the last answer: %w", what, c.where, err, last)
}

// refused reports whether the registry is there and will say the same again.
func refused(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && answer.StatusCode < 500 &&
		answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusRequestTimeout
}

// notFound reports whether the registry says that it has no such schema. A 404 without its code comes
// from something else, such as a wrong path in the address.
func notFound(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && sr.IsNotFoundError(answer.ErrorCode)
}
