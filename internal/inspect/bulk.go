package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"chorus/internal/web"
)

// Bulk redrives, or previews, many dead letters of one participant, one after another. It keeps no books: what is done is closed in the
// participant's database, in the transaction that did it, so a bulk that was killed goes on when it is begun again with the same filter, and two that run at
// once share the work. An order's facts of one topic are handled in their order: where one stays dead, the later ones wait (InOrder).
type Bulk struct {
	Client  Client
	Preview bool
	Force   bool
	Reason  string                          // why, for the audit
	Pace    func(ctx context.Context) error // waited for before each letter; nil for no limit
}

// Outcome is what became of one letter of a bulk.
type Outcome struct {
	Letter  Letter `json:"-"`
	Verdict string `json:"verdict"` // applied, remembered, ignored, or one of the following
	Why     string `json:"why,omitempty"`
}

// What becomes of a letter that is not redriven.
const (
	StaysDead = "dead"    // it still cannot be handled
	Refused   = "refused" // it is too old, was handled or closed in the meantime, or is behind a dead letter that the filter leaves out
	Waits     = "waits"   // an earlier fact of its order has just stayed dead
)

// patience is how long a participant that is away is waited for.
const patience = time.Minute

// Matching lists all that a filter chooses, in the order in which they must be handled.
func (c Client) Matching(ctx context.Context, f LetterFilter) ([]Letter, error) {
	const page = 500
	var all []Letter
	for {
		got, err := c.Letters(ctx, f, page)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
		if len(got) < page {
			break
		}
		f.After = got[len(got)-1].ID
	}
	InOrder(all)
	return all, nil
}

// InOrder sorts letters of one participant by their places in the topics.
func InOrder(letters []Letter) {
	slices.SortFunc(letters, func(a, b Letter) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}

// Run handles letters as Matching has them and tells each one's outcome. It ends early with ctx, or when the participant stays away.
func (b Bulk) Run(ctx context.Context, letters []Letter, tell func(Outcome)) error {
	type line struct{ topic, key string }
	first := map[line]int64{} // the letter that an order's later facts wait for
	for _, l := range letters {
		of := line{l.Topic, l.Key}
		if before := first[of]; before != 0 {
			tell(Outcome{l, Waits, fmt.Sprintf("behind dead letter %d of the same order", before)})
			continue
		}
		if b.Pace != nil {
			if err := b.Pace(ctx); err != nil {
				return err
			}
		}
		out, err := b.one(ctx, l)
		if err != nil {
			return err
		}
		if out.Verdict == StaysDead {
			first[of] = l.ID
		}
		tell(out)
	}
	return nil
}

// one waits for a participant that is away, with growing pauses. To ask again is safe: a letter that was redriven is closed.
func (b Bulk) one(ctx context.Context, l Letter) (Outcome, error) {
	how := RedriveRequest{Preview: b.Preview, Force: b.Force, InOrder: !b.Preview, Reason: b.Reason}
	wait := backoff.NewExponentialBackOff()
	return backoff.Retry(ctx, func() (Outcome, error) {
		v, err := b.Client.Redrive(ctx, l.ID, how)
		var p *web.Problem
		switch {
		case err == nil:
			return Outcome{l, v.Verdict, v.Why}, nil
		case !errors.As(err, &p), p.Status >= 500:
			return Outcome{}, fmt.Errorf("redrive dead letter %d: %w", l.ID, err)
		case p.Status == http.StatusUnprocessableEntity:
			return Outcome{l, StaysDead, p.Error()}, nil
		case p.Status == http.StatusConflict || p.Status == http.StatusNotFound:
			return Outcome{l, Refused, p.Error()}, nil
		}
		return Outcome{}, backoff.Permanent(fmt.Errorf("redrive dead letter %d: %w", l.ID, err))
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(patience))
}
