package quarantine

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Table is the name of the table, in the schema public.
const Table = "public.chorus_cdc_quarantine"

// Schema makes the table. It may be run by somebody who is not the publisher.
const Schema = `
CREATE TABLE IF NOT EXISTS public.chorus_cdc_quarantine (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source     text NOT NULL,
  commit_lsn bigint NOT NULL,      -- of the row: the start of its commit record; with sequence the order within a key
  sequence   bigint NOT NULL,      -- and its number in the transaction
  topic      text NOT NULL,
  partition  integer NOT NULL,     -- -1: the key decides
  key        bytea,
  value      bytea,
  headers    jsonb NOT NULL,       -- [{"key": text, "value": base64}]
  timestamp  timestamptz NOT NULL,
  state      text NOT NULL DEFAULT 'kept' CHECK (state IN ('kept', 'asked', 'sending', 'published', 'skipped')),
  batch      bigint,               -- of an exactly-once source, when it was last sent
  reason     text NOT NULL,        -- why Kafka refuses it; empty for one behind another of its key
  note       text NOT NULL DEFAULT '', -- why it was skipped
  kept_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at timestamptz,
  settled_by text,
  UNIQUE (source, commit_lsn, sequence)
);
CREATE INDEX IF NOT EXISTS chorus_cdc_quarantine_held ON public.chorus_cdc_quarantine (source, topic, key, commit_lsn, sequence) WHERE state IN ('kept', 'asked', 'sending');
`

// Rights are what the publisher's role needs on the table.
const Rights = "SELECT, INSERT, UPDATE"

// ErrNoTable is a database without the table.
var ErrNoTable = errors.New("no quarantine table " + Table)

// Found tells whether the table is there and may be written to.
func Found(ctx context.Context, db *pgx.Conn) (there, mayWrite bool, err error) {
	err = db.QueryRow(ctx, `
		SELECT c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE'), false)
		  FROM (SELECT to_regclass($1)::oid AS oid) AS c`, Table).Scan(&there, &mayWrite)
	if err != nil {
		err = fmt.Errorf("look for the quarantine table: %w", err)
	}
	return there, mayWrite, err
}

// Make makes the table.
func Make(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, Schema, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create table %s: %w", Table, err)
	}
	return nil
}

// noTable turns the database's word for a missing table into ErrNoTable.
func noTable(err error) error {
	const undefinedTable = "42P01"
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == undefinedTable {
		return fmt.Errorf("%w: %w", ErrNoTable, err)
	}
	return err
}
