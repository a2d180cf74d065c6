package cdc

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// tableReader makes of rows that a table holds the records that they make in the
// stream. It is for tools: recover, replay, check.
type tableReader struct {
	*source
	db   *pgx.Conn
	conn *pgconn.PgConn // whose values have the forms of the stream's
}

// openTables connects for a tool. Its caller closes what it gets.
func (s *source) openTables(ctx context.Context, db *pgx.Conn, statementTimeout time.Duration) (*tableReader, error) {
	conn, _, err := connectReplication(ctx, s.cfg.DSN, 0)
	if err != nil {
		return nil, fmt.Errorf("connect for replication: %w", err)
	}
	if err := run(ctx, conn, fmt.Sprintf("SET statement_timeout = %d", statementTimeout.Milliseconds())); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return &tableReader{source: s, db: db, conn: conn}, nil
}

func (r *tableReader) close(ctx context.Context) { _ = r.conn.Close(context.WithoutCancel(ctx)) }

// reread is a row that was read again.
type reread struct {
	id     []byte
	record *kgo.Record // its partition is -1 unless the row names one; nil when none is made of it (a filter of Debezium's)
	place  []string    // the values before the table's columns
}

// each makes a record of each row that a query selects: first columns that say
// where the row is, of which the first is the time of the record in microseconds
// since 1970 and NULL when it is not known; then all columns of the table.
func (r *tableReader) each(ctx context.Context, t wal.Table, places int, query string, do func(reread) error) error {
	results := r.conn.Exec(ctx, query)
	defer func() { _ = results.Close() }()
	for results.NextResult() {
		reader := results.ResultReader()
		if len(reader.FieldDescriptions()) == 0 {
			continue // an error, which Close returns
		}
		record, err := r.maker(ctx, t, reader.FieldDescriptions()[places:])
		if err != nil {
			return err
		}
		for reader.NextRow() {
			values := reader.Values()
			out, err := record(recordTime(values[0]), values[places:])
			if err != nil {
				return err
			}
			for _, v := range values[:places] {
				out.place = append(out.place, string(v))
			}
			if err := do(out); err != nil {
				return err
			}
		}
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("read table %s: %w", t, err)
	}
	return nil
}

func recordTime(micros []byte) time.Time {
	if n, err := strconv.ParseInt(string(micros), 10, 64); err == nil {
		return time.UnixMicro(n)
	}
	return time.Now()
}

// maker makes records of rows with these columns.
func (r *tableReader) maker(ctx context.Context, t wal.Table, columns []pgconn.FieldDescription) (func(at time.Time, values [][]byte) (reread, error), error) {
	if r.dropin != nil {
		return r.dropInMaker(ctx, t, columns)
	}
	layout, err := layoutOf(columns)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t, err)
	}
	return func(at time.Time, values [][]byte) (reread, error) {
		row, err := layout.Row(values)
		if err != nil {
			return reread{}, err
		}
		return reread{id: row.ID, record: record(ownTopic(row.AggregateType), at, &row)}, nil
	}, nil
}

func (r *tableReader) dropInMaker(ctx context.Context, t wal.Table, columns []pgconn.FieldDescription) (func(at time.Time, values [][]byte) (reread, error), error) {
	relation := &wal.Relation{Table: t}
	id := -1
	for i, f := range columns {
		relation.OID = f.TableOID
		relation.Columns = append(relation.Columns, wal.Attribute{Name: f.Name, Type: f.DataTypeOID, Mod: f.TypeModifier})
		if f.Name == r.dropin.connector.Fields().ID {
			id = i
		}
	}
	table, err := r.compile(ctx, r.db, relation)
	if err != nil {
		return nil, err
	}
	return func(at time.Time, values [][]byte) (reread, error) {
		out, err := table.Route(debezium.Read, values, nil)
		switch {
		case err != nil:
			return reread{}, fmt.Errorf("row of %s: %w", t, err)
		case out.Record == nil:
			return reread{}, nil
		}
		made := reread{record: kafkaRecord(out.Record, at)}
		if id >= 0 {
			made.id = values[id]
		}
		return made, nil
	}, nil
}
