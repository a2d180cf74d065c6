// Package intent keeps the calls that a service owes to the outside world, and makes them (D7).
//
// [Workers.Plan] writes an intent in the door's transaction. If there is room, that transaction also leases the call to this process and records that an
// exchange begins, and the exchange is made after its commit ([Begun]). What had no room, waits for its next attempt or was left by another process the
// workers claim: they lease what is due, record that an exchange begins, make it outside any transaction (G6), and record its end. What an exchange means and what
// follows is decided by decision.Call; its outcome goes back through the door in the same transaction that ends the call.
//
// It owns the tables calls, call_bodies, call_sent, call_attempts and call_pauses in the service's database: the result table.
//
// What a crash leaves:
//   - after Plan, without a lease: a call that is due; any worker takes it.
//   - after the lease, or after a transaction that planned and leased, before or during the exchange, or before its end is recorded: a start row without an end row. When the
//     lease has run out, the next worker records the exchange as lost, which makes an effect unknown, and
//     asks by key before anything else (G7).
//   - after the end is recorded: nothing; that transaction also holds what follows from it.
//
// A lease is fenced by a token that rises with each lease and each record: a worker that froze and woke up
// finds another token, and its transaction rolls back.
package intent

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the package's migrations, for pg.Migrate.
func Schema() fs.FS { return schema }

// AppendOnly lists the tables of which the service's role may only insert and read rows (pg.RestrictToInsert).
func AppendOnly() []string { return []string{"call_attempts"} }

// ErrLeaseLost says that another worker has the call, or had it and recorded it.
var ErrLeaseLost = errors.New("the lease of the call is lost")

// Cause is what a call was planned because of. The facts that follow from its answer carry it on.
type Cause struct {
	CausationID event.ID // the fact or request
	Hop         int      // of that fact
	TraceParent string
	TraceState  string
	Key         string // of the call
}

// Answer is the end of a call, on its way to the door.
type Answer struct {
	Order    event.OrderNo
	Answered decision.Answered
	Cause    Cause
}

// Door takes answers into the service, all in one transaction: lock and load their orders, decide in the order
// given, save, and last run fence, which ends the calls if they are still ours. An error of fence (ErrLeaseLost, or the
// database's) rolls everything back and is returned wrapped. The transaction may be run again, fence with it.
type Door interface {
	Answer(ctx context.Context, answers []Answer, fence func(ctx context.Context, tx pgx.Tx) error) error
}
