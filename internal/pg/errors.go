package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Code returns the SQLSTATE in err, "" when the server sent none.
func Code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// Transient reports whether err is about the state of the server, the
// connection to it or its load, so that the same work may succeed later. It does
// not say that the work had no effect: a commit whose answer was lost may have
// happened. It is false for nil and when the caller ended the work.
func Transient(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return transientCode(pgErr)
	}
	var connect *pgconn.ConnectError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case pgconn.Timeout(err): // of connecting, or of the caller's attempt
		return true
	case errors.As(err, &connect):
		return network(err)
	}
	// pgconn.SafeToRetry covers a connection found closed before anything was sent.
	return network(err) || pgconn.SafeToRetry(err)
}

func network(err error) bool {
	var netErr net.Error
	var errno syscall.Errno
	return errors.As(err, &netErr) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

// transientCode goes by appendix A of PostgreSQL's manual.
func transientCode(err *pgconn.PgError) bool {
	switch err.Code[:min(2, len(err.Code))] {
	case "08", // connection exception
		"53": // insufficient resources: connections, memory, disk
		return true
	}
	switch err.Code {
	case "40001", "40P01", "40003", // serialization, deadlock, completion unknown
		"57P01", "57P02", "57P03", // shutdown, crash, starting up
		"57P05",          // idle session ended
		"57014",          // statement timeout
		"55P03",          // lock timeout
		"55006",          // object in use: a slot or database of another session
		"25P03", "25P04", // transaction idle or open for too long
		"25006",          // read only: a standby, or a primary of a moment ago
		"58000", "58030": // system and I/O errors
		return true
	}
	return stalePlan(err)
}

// Fault reports whether err says that the values themselves are impossible: out
// of range, against a constraint, too large for an index (classes 22, 23 and 54).
// Only such an error can be laid on the record being handled; a missing table or
// right, say, is a fault of the installation, and nothing may be given up for it.
func Fault(err error) bool {
	code := Code(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "22", "23", "54":
		return true
	}
	return false
}

// stalePlan reports that a prepared statement's result changed by a migration.
// The code 0A000 alone also means features that PostgreSQL does not have.
func stalePlan(err *pgconn.PgError) bool {
	return err.Code == "0A000" && err.Routine == "RevalidateCachedQuery"
}

// rerun reports whether a transaction that ended with err did nothing for
// certain and may succeed when run again at once.
func rerun(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	return pgErr.Code == "40001" || pgErr.Code == "40P01" || stalePlan(pgErr)
}
