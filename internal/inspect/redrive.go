package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/pg"
)

// StillDeadError says that a dead letter cannot be handled now either.
type StillDeadError struct{ Reason, Detail string }

func (e *StillDeadError) Error() string {
	return "it still cannot be handled: " + e.Reason + ": " + e.Detail
}

// Redrive hands a dead letter to the participant's door again. A preview does everything and rolls it back, so it says what the pure
// decision makes of the fact in today's state. One that stays dead is a *StillDeadError; one that may not be redriven has an error of package inbox.
func (s Source) Redrive(ctx context.Context, id int64, how RedriveRequest) (Redriven, error) {
	options := inbox.RedriveOptions{Force: how.Force, InOrder: how.InOrder, Preview: how.Preview, Changed: audited(ctx, audit.Redrive, how.Reason)}
	v, err := inbox.Redrive(ctx, s.DB, id, options, s.Handler)
	switch {
	case err == nil && v.Outcome == inbox.Dead:
		return Redriven{}, &StillDeadError{v.Reason, v.Why}
	case err == nil:
		return Redriven{Verdict: string(v.Outcome), Why: v.Why, Preview: how.Preview}, nil
	case refused(err) || pg.Transient(err) || errors.Is(err, pgx.ErrNoRows):
		return Redriven{}, err
	}
	letter, lost := inbox.Letter(ctx, s.DB, id)
	if lost != nil || letter.State != inbox.Open {
		return Redriven{}, err
	}
	return Redriven{}, &StillDeadError{letter.Reason, letter.Detail} // the failure was noted in the letter
}

// Discard closes a dead letter unhandled. reason says on what grounds.
func (s Source) Discard(ctx context.Context, id int64, reason string) error {
	return inbox.Discard(ctx, s.DB, id, reason, audited(ctx, audit.Discard, reason))
}

// audited records who changes a dead letter, in the transaction that does.
func audited(ctx context.Context, action, why string) inbox.Changed {
	who := audit.Of(ctx)
	return func(ctx context.Context, tx pgx.Tx, before, after inbox.DeadLetter) error {
		e := audit.Entry{Who: who, Action: action, Subject: fmt.Sprintf("dead letter %d", before.ID), Why: why}
		if no, err := event.ParseOrderNo(string(before.Record.Key)); err == nil {
			e.Order = no // of any other key no order is found
		}
		return audit.Record(ctx, tx, e, stateOf(before), stateOf(after))
	}
}

// letterState is what an action changes in a letter.
type letterState struct {
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
	Fact     string `json:"fact,omitempty"`
	Closed   string `json:"closed,omitempty"` // why
}

func stateOf(l inbox.DeadLetter) letterState {
	return letterState{l.State, l.Reason, l.Attempts, l.EventType, l.ClosedWhy}
}
