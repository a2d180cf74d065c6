package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// publishTables publishes what the connection's snapshot sees of the captured
// tables of a drop-in, as they lie there, and waits until Kafka has it all.
func (s *source) publishTables(ctx context.Context, db *pgx.Conn, conn *pgconn.PgConn, out *producer, at wal.LSN, tables []captured) (rows int, err error) {
	work, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p := &publisher{source: s, out: out, flight: newFlight(0), fail: fail, told: map[string]bool{}}
	if err := p.begin(wal.Tx{Start: at - 1, Committed: time.Now()}); err != nil { // their own times are not known
		return 0, err
	}
	for _, t := range tables {
		if t.Root != 0 && capturesRoot(t, tables) {
			continue // read with the table at the top
		}
		n, err := p.publishCaptured(work, db, conn, t)
		rows += n
		if err != nil {
			return rows, fmt.Errorf("table %s: %w", t.Table, err)
		}
	}
	if err := p.commit(work, at); err != nil {
		return rows, err
	}
	if err := p.flight.drain(work); err != nil {
		return rows, err
	}
	return rows, context.Cause(work)
}

func (p *publisher) publishCaptured(ctx context.Context, db *pgx.Conn, conn *pgconn.PgConn, t captured) (rows int, err error) {
	sql := "SELECT * FROM " + quoteTable(t.Table)
	if o := p.dropin.connector.Overrides[t.Table.String()]; o != "" {
		sql = o
	}
	results := conn.Exec(ctx, sql)
	defer func() { _ = results.Close() }()
	for results.NextResult() {
		reader := results.ResultReader()
		relation := &wal.Relation{OID: t.OID, Table: t.Table}
		for _, f := range reader.FieldDescriptions() {
			relation.Columns = append(relation.Columns, wal.Attribute{Name: f.Name, Type: f.DataTypeOID, Mod: f.TypeModifier})
		}
		table, err := p.compile(ctx, db, relation)
		if err != nil {
			return rows, err
		}
		for reader.NextRow() {
			out, err := table.Route(debezium.Read, reader.Values(), nil)
			if err := p.emit(ctx, out, err, t.Table); err != nil {
				return rows, err
			}
			rows++
		}
	}
	return rows, results.Close()
}
