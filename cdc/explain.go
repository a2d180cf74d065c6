package cdc

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that mean something particular here.
const (
	objectInUse     = "55006" // START_REPLICATION: the slot is another session's
	undefinedObject = "42704" // in the stream: the publication, at the time of a row
	notYet          = "55000" // a warning in the stream: the same from PostgreSQL 18 on, which leaves the row out
	noPrivilege     = "42501"
	undefinedColumn = "42703"
	undefinedTable  = "42P01"
	noSchema        = "3F000" // none of the search_path is there
	internalError   = "XX000" // in the stream: a flaw of the server
)

// explain turns what PostgreSQL says into what it means here.
func (s *source) explain(err error) error {
	switch sqlState(err) {
	case objectInUse:
		return fmt.Errorf("%w: %w", errSlotBusy, err)
	case undefinedObject, notYet:
		return fmt.Errorf("%w (%w)", publicationMissing(s.cfg), err)
	}
	return err
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
