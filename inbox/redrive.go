package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
)

// Reasons why a dead letter is not redriven. Nothing has changed then.
var (
	ErrClosed  = errors.New("the dead letter is not open")
	ErrHandled = errors.New("the fact has been handled in the meantime")
	ErrTooOld  = errors.New("the inbox may have forgotten that this fact was handled; force it if that does no harm")
	ErrHeld    = errors.New("an earlier fact of this key is set aside: redrive or discard that one first")
)

// Changed is told, last in the transaction that changes a dead letter, what the letter was and what it is: for a record of who did it. Its error
// rolls the change back.
type Changed func(ctx context.Context, tx pgx.Tx, before, after DeadLetter) error

// errPreview rolls a preview back.
var errPreview = errors.New("only a preview")

// RedriveOptions are for a person who knows better, and for many letters at a time.
type RedriveOptions struct {
	Force   bool    // redrive a letter that is too_old
	InOrder bool    // refuse it (ErrHeld) while an earlier fact of its key in the same topic is a dead letter
	Preview bool    // find out what it would come to at this moment, and change nothing: a fact that would stay dead has the verdict Dead
	Changed Changed // when set, told when the letter is closed, or a failure is noted in it
}

// Redrive hands a dead letter's fact to the Handler again. Its effect, the verdict in the inbox and the letter's new state are one transaction, and the verdict is compared and set: a
// redrive that runs twice, or against a redelivery, takes effect once. If the Handler fails, the letter stays open with the new reason, one more attempt and its first failure's time.
func Redrive(ctx context.Context, db DB, id int64, opts RedriveOptions, handler Handler) (Verdict, error) {
	what := fmt.Sprintf("redrive dead letter %d", id)
	l, err := Letter(ctx, db, id)
	if err != nil {
		return Verdict{}, fmt.Errorf("%s: %w", what, err)
	}
	verdict, failed, err := redrive(ctx, db, what, l, opts, handler)
	switch {
	case opts.Preview && failed != nil:
		return DeadVerdict(failed.reason, failed.detail), nil
	case errors.Is(err, errPreview):
		return verdict, nil
	case failed == nil:
		return verdict, err
	}
	return Verdict{}, errors.Join(err, noteFailure(ctx, db, l, *failed, opts.Changed))
}

// redrive is one attempt. failed is set when the fact itself is at fault, and is not noted yet.
func redrive(ctx context.Context, db DB, what string, l DeadLetter, opts RedriveOptions, handler Handler) (verdict Verdict, failed *failure, err error) {
	err = pg.InTx(ctx, db, what, func(tx pgx.Tx) error {
		verdict, failed = Verdict{}, nil
		switch {
		case l.State != Open:
			return ErrClosed
		case l.Reason == ReasonTooOld && !opts.Force:
			return ErrTooOld
		}
		it := identify(l.Record)
		if it.failed != nil {
			failed = it.failed
			return Permanent(errors.New(it.failed.detail), it.failed.reason)
		}
		if err := reopen(ctx, tx, l, it); err != nil {
			return err
		}
		if l.Reason == ReasonHeld {
			if err := checkFirst(ctx, tx, l); err != nil {
				return err
			}
		}
		if opts.InOrder {
			if err := checkEarlier(ctx, tx, l); err != nil {
				return err
			}
		}
		verdicts, err := call(ctx, handler, guardedTx{tx}, []Fact{it.fact})
		if err == nil && len(verdicts) != 1 {
			err = fmt.Errorf("%d verdicts for one fact", len(verdicts))
		}
		if err == nil && verdicts[0].Outcome == Dead {
			err = Permanent(errors.New(verdicts[0].Why), verdicts[0].Reason)
		}
		if err != nil {
			if class, reason := classify(err); class != again {
				failed = &failure{reason, err.Error()}
			}
			return err
		}
		verdict = verdicts[0]
		if verdict.Outcome == "" {
			verdict.Outcome = Applied
		}
		if opts.Preview {
			return errPreview
		}
		if err := settleLetter(ctx, tx, l, verdict); err != nil {
			return err
		}
		return opts.Changed.tell(ctx, tx, l)
	})
	return verdict, failed, err
}

// tell reads what the letter is now.
func (c Changed) tell(ctx context.Context, tx pgx.Tx, before DeadLetter) error {
	if c == nil {
		return nil
	}
	after, err := Letter(ctx, tx, before.ID)
	if err != nil {
		return err
	}
	return c(ctx, tx, before, after)
}

// noteFailure keeps in the letter why it could not be handled this time.
func noteFailure(ctx context.Context, db DB, l DeadLetter, f failure, changed Changed) error {
	return pg.InTx(ctx, db, fmt.Sprintf("record the failed redrive of dead letter %d", l.ID), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
UPDATE dead_letters SET attempts = attempts + 1, last_failed_at = now(), reason = CASE WHEN reason = $4 THEN reason ELSE $2 END, detail = $3
WHERE id = $1 AND state = 'open'`, l.ID, clean(f.reason, 100), clean(f.detail, 4000), ReasonTooOld)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return changed.tell(ctx, tx, l)
	})
}

// reopen locks the inbox row, which is the order that the door locks in, and then the letter.
func reopen(ctx context.Context, tx pgx.Tx, l DeadLetter, it item) error {
	tag, err := tx.Exec(ctx, `
INSERT INTO inbox (consumer, event_id, verdict, occurred_at, topic, partition, "offset")
VALUES ($1, $2, 'dead', $3, $4, $5, $6)
ON CONFLICT (consumer, event_id) DO UPDATE SET verdict = 'dead' WHERE inbox.verdict = 'dead'`,
		l.Consumer, it.fact.ID, it.fact.OccurredAt, it.fact.Topic, it.fact.Partition, it.fact.Offset)
	if err != nil {
		return fmt.Errorf("lock the inbox row: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrHandled
	}
	tag, err = tx.Exec(ctx, `UPDATE dead_letters SET attempts = attempts + 1 WHERE id = $1 AND state = 'open'`, l.ID)
	if err != nil {
		return fmt.Errorf("lock the dead letter: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrClosed
	}
	return nil
}

func settleLetter(ctx context.Context, tx pgx.Tx, l DeadLetter, v Verdict) error {
	outcome, why := v.columns()
	if _, err := tx.Exec(ctx, `UPDATE inbox SET verdict = $3, why = $4, handled_at = now() WHERE consumer = $1 AND event_id = $2`,
		l.Consumer, l.EventID, outcome, why); err != nil {
		return fmt.Errorf("save the verdict: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE dead_letters SET state = 'redriven', closed_at = now(), closed_why = $2 WHERE id = $1`, l.ID, why); err != nil {
		return fmt.Errorf("close the dead letter: %w", err)
	}
	return nil
}

// Discard closes a dead letter without handling it. why says who decided that and on what grounds; it must not be empty. The fact stays dead in the inbox, so a redelivery is a duplicate.
// changed may be nil.
func Discard(ctx context.Context, db DB, id int64, why string, changed Changed) error {
	what := fmt.Sprintf("discard dead letter %d", id)
	if why == "" {
		return fmt.Errorf("%s: no reason given", what)
	}
	return pg.InTx(ctx, db, what, func(tx pgx.Tx) error {
		l, err := Letter(ctx, tx, id)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE dead_letters SET state = 'discarded', closed_at = now(), closed_why = $2 WHERE id = $1 AND state = 'open'`, id, clean(why, 500))
		switch {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return ErrClosed
		}
		return changed.tell(ctx, tx, l)
	})
}
