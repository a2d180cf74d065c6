package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/tracker"
	"chorus/services/orders"
)

// Erased counts what was emptied of personal fields.
type Erased struct {
	States  int64 `json:"states"`  // of participants
	Calls   int64 `json:"calls"`   // bodies and texts of answers
	Letters int64 `json:"letters"` // bytes of dead letters
	Facts   int64 `json:"facts"`   // in the tracker's view
	Orders  int64 `json:"orders"`  // rows of the orders service
}

// Erase deletes what is personal about an order that has ended, in every database, as its owner: the customer, what was sent to providers, and the text of their
// answers. The ledger stays: that the order was there, its facts, verdicts, calls and attempts with their times and ends, and the sums. What has left the databases is not reached: topics keep
// their records for their retention, and an outbox its rows until cdc prunes it.
//
// Each database is a transaction of its own, with the action in its audit. A crash between two leaves what the next run completes, since
// erasing twice changes nothing. An order that has not ended, or of which a call or a dead letter is open, is refused.
func (s Server) Erase(ctx context.Context, no event.OrderNo, who, why string) (Erased, error) {
	var sum Erased
	if err := s.asOwner(ctx, string(event.Orders), func(tx pgx.Tx) error { return orders.Ended(ctx, tx, no) }); err != nil {
		return sum, err
	}
	for _, trial := range []bool{true, false} { // whoever refuses does so before anything is gone
		for _, db := range Databases() {
			if !db.Inbox { // not ours: the outside world's
				continue
			}
			done, err := s.eraseIn(ctx, db, no, audit.Entry{Who: who, Action: audit.Erase, Subject: "order", Order: no, Why: why}, trial)
			if err != nil {
				return sum, fmt.Errorf("erase in database %s: %w", db.Name, err)
			}
			sum = Erased{sum.States + done.States, sum.Calls + done.Calls, sum.Letters + done.Letters, sum.Facts + done.Facts, sum.Orders + done.Orders}
		}
	}
	return sum, nil
}

// errTrial rolls a trial back.
var errTrial = errors.New("only a trial")

func (s Server) eraseIn(ctx context.Context, db Database, no event.OrderNo, did audit.Entry, trial bool) (done Erased, err error) {
	err = s.asOwner(ctx, db.Name, func(tx pgx.Tx) (err error) {
		if done, err = db.erase(ctx, tx, no); err != nil || done == (Erased{}) {
			return err
		}
		if trial {
			return errTrial
		}
		return audit.Record(ctx, tx, did, struct{}{}, done)
	})
	if errors.Is(err, errTrial) {
		return Erased{}, nil
	}
	return done, err
}

// erase empties one database.
func (db Database) erase(ctx context.Context, tx pgx.Tx, no event.OrderNo) (e Erased, err error) {
	if db.Calls {
		calls, err := intent.Erase(ctx, tx, no)
		if err != nil {
			return e, err
		}
		e.Calls = int64(calls)
	}
	if e.Letters, err = inbox.Erase(ctx, tx, db.Name, no.String()); err != nil {
		return e, err
	}
	if db.States {
		if e.States, err = participant.Erase(ctx, tx, no); err != nil {
			return e, err
		}
	}
	switch db.Name {
	case string(event.Orders):
		e.Orders, err = orders.Erase(ctx, tx, no)
	case tracker.Name:
		var facts int
		facts, err = tracker.Erase(ctx, tx, no)
		e.Facts = int64(facts)
	}
	return e, err
}

// asOwner runs a transaction in a database as its owner.
func (s Server) asOwner(ctx context.Context, database string, do func(tx pgx.Tx) error) error {
	dsn, err := s.Owner(database)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to database %s as its owner: %w", database, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pg.InTx(ctx, conn, "as the owner of "+database, do)
}
