package inbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"chorus/internal/pg"
)

// ErrFenced says that another owner has claimed the partition: nothing more may be done for it under the old claim.
var ErrFenced = errors.New("partition claimed by another owner")

type permanentError struct {
	error
	reason string
}

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that the fact itself causes, so that trying again is no use: it becomes a dead letter at once. reason is a
// short code, by which dead letters are counted.
func Permanent(err error, reason string) error { return permanentError{err, reason} }

type againError struct{ error }

func (e againError) Unwrap() error { return e.error }

// Again marks an error that says nothing about the fact, because something that it needs is out of order: the fact is tried until it works, and its partition waits.
func Again(err error) error { return againError{err} }

// class says what to do about a failed transaction.
type class int

const (
	unknown class = iota // try a few times, then a dead letter
	again                // the surroundings' fault: try until it works
	never                // the fact's fault: a dead letter
)

// Dead letters' reasons that this package gives itself.
const (
	ReasonNoID      = "id_missing"
	ReasonEmptyID   = "id_empty"
	ReasonBadID     = "id_malformed"
	ReasonTwoIDs    = "id_repeated"
	ReasonTwoTypes  = "type_repeated"
	ReasonNoKey     = "key_missing"
	ReasonTooOld    = "too_old"
	ReasonHeld      = "held" // behind another dead letter of its key; see Config.HoldKeys
	ReasonPanic     = "panic"
	ReasonRefused   = "refused_by_database" // a constraint or a value that a column cannot hold
	ReasonExhausted = "attempts_exhausted"
)

// classify tells whose fault a failed transaction is, by SQLSTATE and type, never by text.
func classify(err error) (class, string) {
	var p permanentError
	var a againError
	switch {
	case errors.As(err, &p):
		return never, p.reason
	case errors.As(err, &a):
		return again, ""
	case errors.Is(err, context.DeadlineExceeded):
		return unknown, ReasonExhausted // the batch's own time limit: a slow fact, or a dead network, which resume finds out
	}
	switch code := pg.Code(err); code {
	case "57014", "25P03": // statement or idle-in-transaction timeout: the fact is slow, or this process was frozen
		return unknown, ReasonExhausted
	case "42P01", "42703", "42883", "42501", "3F000", "3D000", "28000", "28P01", "26000":
		return again, "" // the schema or the rights are not what the program expects: a deployment, which no fact may pay for
	}
	switch {
	case pg.Transient(err), errors.Is(err, pgconn.ErrConnClosed):
		return again, ""
	case pg.Fault(err):
		return never, ReasonRefused
	}
	return unknown, ReasonExhausted
}

// mostConflicts is how often in a row a batch runs again at once after a conflict with another transaction.
const mostConflicts = 8

// conflict reports a serialization failure: the other transaction has committed, so running again at once succeeds. A deadlock's
// survivor has not, and is better given some time.
func conflict(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40001"
}
