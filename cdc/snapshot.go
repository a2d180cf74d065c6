package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/cdc/wal"
)

// createSlot makes the slot, and before it the publication if there is none.
//
// A slot sends what is committed after it was made. Rows that were there
// before (a service that was quicker than its publisher) must not be lost, so
// they are published first, and then the slot is made for the very position at
// which they were read:
//
//  1. a temporary slot is made, and the snapshot that belongs to its position used;
//  2. the table is read in that snapshot, published, and acknowledged;
//  3. the temporary slot is copied to the permanent one.
//
// The temporary slot goes with its connection, so a crash before step 3 leaves
// nothing, and all is done again: rows twice, none lost. A crash after it
// leaves the slot, and the stream goes on where the snapshot ended.
//
// The order of commits is not known for these rows; they are sent by
// occurredat, and as they were written (see written).
//
// With exactly-once the rows are one Kafka transaction; see firstRows.
func (s *source) createSlot(ctx context.Context, db *pgx.Conn, c catalog) error {
	if !c.Publication {
		if err := s.createPublication(ctx, db, c); err != nil {
			return err
		}
		s.log.Info("created publication", "publication", s.cfg.Publication)
	}
	conn, _, err := connectReplication(ctx, s.cfg.DSN, 0)
	if err != nil {
		return fmt.Errorf("connect for replication: %w", err)
	}
	// The temporary slot lives until here.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	temporary := s.cfg.Slot[:min(len(s.cfg.Slot), 58)] + "_init"
	if err := run(ctx, conn, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	s.busyWith("making the slot, which waits for the end of all transactions that write now")
	made, err := pglogrepl.CreateReplicationSlot(ctx, conn, temporary, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: true, SnapshotAction: "USE_SNAPSHOT", Mode: pglogrepl.LogicalReplication})
	if err != nil {
		return fmt.Errorf("create slot %s: %w", temporary, err)
	}
	at, err := pglogrepl.ParseLSN(made.ConsistentPoint)
	if err != nil {
		return fmt.Errorf("create slot %s: %w", temporary, err)
	}
	s.busyWith("publishing the rows that are older than the slot")
	out, first, err := s.beginFirst(ctx, conn)
	if err != nil {
		return err
	}
	defer out.client.Close()
	rows, err := s.publishOlder(ctx, db, conn, out, wal.LSN(at), c)
	if err != nil {
		return fmt.Errorf("publish the rows that are older than the slot: %w", err)
	}
	if s.dropin != nil && s.dropin.connector.Only {
		return errors.Join(first.commit(ctx, 0, rows), errSnapshotOnly)
	}
	if _, err := db.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2, false)", temporary, s.cfg.Slot); err != nil {
		return fmt.Errorf("create slot %s: %w", s.cfg.Slot, err)
	}
	if err := first.commit(ctx, wal.LSN(at), rows); err != nil {
		return err
	}
	s.log.Info("created slot", "slot", s.cfg.Slot, "lsn", wal.LSN(at).String(), "older_rows", rows)
	return nil
}

// errSnapshotOnly ends a source that was to publish what is there, and nothing
// else (snapshot.mode=initial_only). No slot is left behind.
var errSnapshotOnly = errors.New("the rows that were there are published, and snapshot.mode=initial_only ends there")

func (s *source) createPublication(ctx context.Context, db *pgx.Conn, c catalog) error {
	if s.dropin != nil {
		return s.createDropInPublication(ctx, db, c.Tables)
	}
	return s.cfg.createPublication(ctx, db, c.Partitioned)
}

// publishOlder publishes what the connection's snapshot sees.
func (s *source) publishOlder(ctx context.Context, db *pgx.Conn, conn *pgconn.PgConn, out *producer, at wal.LSN, c catalog) (rows int, err error) {
	switch {
	case s.dropin == nil:
		return s.publishTable(ctx, conn, out, at)
	case s.dropin.connector.Snapshot:
		return s.publishTables(ctx, db, conn, out, at, c.Tables)
	}
	return 0, nil
}

// publishTable publishes what the connection's snapshot sees of the table, and
// waits until Kafka has it all.
func (s *source) publishTable(ctx context.Context, conn *pgconn.PgConn, out *producer, at wal.LSN) (rows int, err error) {
	work, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p := &publisher{source: s, out: out, flight: newFlight(0), fail: fail}
	names, err := columns(work, conn, s.cfg)
	if err != nil {
		return 0, err
	}
	if err := p.begin(wal.Tx{Start: at - 1, Committed: time.Now()}); err != nil { // their own times are not known
		return 0, err
	}
	err = readRows(work, conn, selectRows(names, s.cfg), func(layout *wal.Layout, values [][]byte) error {
		row, err := layout.Row(values)
		if err == nil {
			err = p.publish(work, &row)
		}
		if err == nil {
			rows++
		}
		return err
	})
	if errors.Is(err, wal.ErrTable) {
		err = fmt.Errorf("table %s: %w", s.cfg.Table, err)
	}
	if err != nil {
		return rows, err
	}
	if err := p.commit(work, at); err != nil {
		return rows, err
	}
	if err := p.flight.drain(work); err != nil {
		return rows, err
	}
	return rows, context.Cause(work)
}

// readRows goes through the rows of an outbox that a query has selected. The
// values live until the next row.
func readRows(ctx context.Context, conn *pgconn.PgConn, query string, each func(layout *wal.Layout, values [][]byte) error) error {
	results := conn.Exec(ctx, query)
	defer func() { _ = results.Close() }()
	for results.NextResult() {
		reader := results.ResultReader()
		if len(reader.FieldDescriptions()) == 0 {
			continue // an error, which Close returns
		}
		layout, err := layoutOf(reader.FieldDescriptions())
		if err != nil {
			return err
		}
		for reader.NextRow() {
			if err := each(&layout, reader.Values()); err != nil {
				return err
			}
		}
	}
	return results.Close()
}

// layoutOf finds the columns of an outbox among those of a query.
func layoutOf(columns []pgconn.FieldDescription) (wal.Layout, error) {
	layout := wal.NewLayout()
	for i, f := range columns {
		layout.Add(i, f.Name, f.DataTypeOID)
	}
	if missing := layout.Missing(); missing != nil {
		return layout, fmt.Errorf("%w: there is no column %s", wal.ErrTable, strings.Join(missing, ", "))
	}
	return layout, nil
}

// written is the order in which the rows of a transaction, which are of one time,
// were written: by the number of the command, and those of one command as they
// lie in the table. PostgreSQL may put a later row of a command into a gap
// before an earlier one; nothing in the table tells.
const written = "cmin::text::bigint, ctid"

// selectRows names the columns: those of an outbox that the table has.
func selectRows(names []string, s Source) string {
	quoted := make([]string, len(names))
	order := "ctid"
	for i, n := range names {
		quoted[i] = quoteIdentifier(n)
		if n == "occurredat" {
			order = "occurredat, " + written
		}
	}
	return fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", strings.Join(quoted, ", "), s.quotedTable(), order)
}

// columns reads the names of the table's columns in the connection's snapshot.
func columns(ctx context.Context, conn *pgconn.PgConn, s Source) ([]string, error) {
	t := s.table()
	results, err := conn.Exec(ctx, fmt.Sprintf(`
		SELECT a.attname
		  FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
		 WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped`,
		quoteLiteral(t.Schema), quoteLiteral(t.Name))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", s.Table, err)
	}
	var names []string
	for _, row := range results[0].Rows {
		if wal.IsColumn(string(row[0])) {
			names = append(names, string(row[0]))
		}
	}
	return names, nil
}

func run(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
