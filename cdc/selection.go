package cdc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// Selection says which rows of an outbox a tool takes.
type Selection struct {
	Source     string    // name of the source; empty when there is only one
	From, To   time.Time // rows of this time and before that one; zero is no bound
	IDs        []string  // these alone; none is all
	TimeColumn string    // when a row was written: occurredat, or what the router takes for it, by default
}

// selected is a table with what is taken of it. Rows go by their time, and those
// of one time, which are mostly those of one transaction, as they were written
// (see written).
type selected struct {
	Selection
	table  wal.Table
	column string // of the time; empty when the table has none
	none   string // set for the rows without a time, of this column
	tracks bool   // the server keeps the times of commits
}

// untimed are the rows that have no time, which stand behind the others. A bound leaves them out.
func (s selected) untimed() (selected, bool) {
	rest := s
	rest.column, rest.none = "", s.column
	return rest, s.column != "" && s.From.IsZero() && s.To.IsZero()
}

// place is where a row is in that order. It holds for as long as the table is
// not rewritten (VACUUM FULL, CLUSTER), which File tells.
type place struct {
	Time string `json:"time,omitempty"` // as PostgreSQL prints it
	Cmd  string `json:"command"`        // number of the command that wrote it, in its transaction
	OID  string `json:"table"`          // of the table, or partition
	CTID string `json:"ctid"`
	File string `json:"file"`
}

// pick finds the source that a selection names.
func pick(sources []*source, name string) (*source, error) {
	var names []string
	for _, s := range sources {
		if s.cfg.Name == name || name == "" && len(sources) == 1 {
			return s, nil
		}
		names = append(names, s.cfg.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("there are several sources, name one: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("there is no source %q: %s", name, strings.Join(names, ", "))
}

// narrow finds the tables of the source and the column of time in them.
func (s *source) narrow(ctx context.Context, db *pgx.Conn, sel Selection) ([]selected, error) {
	tables := []wal.Table{s.cfg.table()}
	column := "occurredat"
	if s.dropin != nil {
		all, err := s.capturedTables(ctx, db)
		if err != nil {
			return nil, err
		}
		tables = nil
		for _, t := range all {
			if t.Root == 0 || !capturesRoot(t, all) {
				tables = append(tables, t.Table)
			}
		}
		column = s.dropin.connector.Fields().Timestamp
	}
	if len(tables) == 0 {
		return nil, errors.New("no table of the database is captured")
	}
	var out []selected
	for _, t := range tables {
		one := selected{Selection: sel, table: t, column: cmp.Or(sel.TimeColumn, column)}
		if err := one.look(ctx, db); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

const hasTimeColumn = `
SELECT current_setting('track_commit_timestamp')::boolean, c.oid IS NOT NULL,
       EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped)
  FROM (VALUES (1)) AS one (n)
  LEFT JOIN (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
              WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')) AS c ON true`

func (s *selected) look(ctx context.Context, db *pgx.Conn) error {
	var table, column bool
	if err := db.QueryRow(ctx, hasTimeColumn, s.table.Schema, s.table.Name, s.column).Scan(&s.tracks, &table, &column); err != nil {
		return fmt.Errorf("look at table %s: %w", s.table, err)
	}
	switch {
	case !table:
		return fmt.Errorf("table %s does not exist", s.table)
	case column:
		return nil
	case s.TimeColumn != "":
		return fmt.Errorf("table %s has no column %s", s.table, s.TimeColumn)
	case !s.From.IsZero() || !s.To.IsZero():
		return fmt.Errorf("table %s has no column that says when a row was written; name one with --time-column", s.table)
	}
	s.column = ""
	return nil
}

// idColumn is where the ids are.
func (s *source) idColumn() string {
	if s.dropin != nil {
		return s.dropin.connector.Fields().ID
	}
	return "id"
}

// where is the condition, from a place on.
func (s selected) where(idColumn string, after *place) string {
	all := []string{"true"}
	and := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	at := func(t time.Time) string { return quoteLiteral(t.UTC().Format(time.RFC3339Nano)) + "::timestamptz" }
	column := "t." + quoteIdentifier(s.column)
	if !s.From.IsZero() {
		and("%s >= %s", column, at(s.From))
	}
	if !s.To.IsZero() {
		and("%s < %s", column, at(s.To))
	}
	if len(s.IDs) > 0 {
		quoted := make([]string, len(s.IDs))
		for i, id := range s.IDs {
			quoted[i] = quoteLiteral(id)
		}
		and("t.%s::text IN (%s)", quoteIdentifier(idColumn), strings.Join(quoted, ", "))
	}
	if s.none != "" {
		and("t.%s IS NULL", quoteIdentifier(s.none))
	}
	switch {
	case after == nil:
	case s.column == "":
		and("(t.tableoid, t.ctid) > (%s, %s)", quoteLiteral(after.OID), quoteLiteral(after.CTID))
	default:
		// The first condition says nothing new, and lets an index be used.
		and("%s >= %s AND (%[1]s, t.cmin::text::bigint, t.tableoid, t.ctid) > (%[2]s, %s, %s, %s)",
			column, quoteLiteral(after.Time), quoteLiteral(after.Cmd), quoteLiteral(after.OID), quoteLiteral(after.CTID))
	}
	return strings.Join(all, " AND ")
}

// page selects the next rows: the time of the record, the place, the columns.
// The time is that of the commit, when the server keeps it.
func (s selected) page(idColumn string, after *place, limit int) string {
	moment, order, timed := "NULL::timestamptz", "", ""
	if s.column != "" {
		timed = " AND t." + quoteIdentifier(s.column) + " IS NOT NULL"
		moment, order = "t."+quoteIdentifier(s.column)+"::timestamptz", "t."+quoteIdentifier(s.column)+", t.cmin::text::bigint, "
	}
	written := moment
	if s.tracks {
		moment = "coalesce(pg_xact_commit_timestamp(t.xmin), " + moment + ")"
	}
	return fmt.Sprintf("SELECT CASE WHEN isfinite(%[1]s) THEN (extract(epoch FROM %[1]s) * 1000000)::bigint END, %s::text, t.cmin, t.tableoid, t.ctid, pg_relation_filenode(t.tableoid), t.* FROM %s AS t WHERE %s ORDER BY %st.tableoid, t.ctid LIMIT %d",
		moment, written, quoteTable(s.table), s.where(idColumn, after)+timed, order, limit)
}

const placeColumns = 6 // before those of the table, in page

func placeOf(r reread) place {
	return place{Time: r.place[1], Cmd: r.place[2], OID: r.place[3], CTID: r.place[4], File: r.place[5]}
}

// check leaves out of a stored place what does not hold any more.
func (s selected) check(ctx context.Context, db *pgx.Conn, at *place) (*place, error) {
	if at == nil {
		return nil, nil
	}
	var file string
	if err := db.QueryRow(ctx, "SELECT coalesce(pg_relation_filenode($1::oid)::text, '')", at.OID).Scan(&file); err != nil {
		return nil, fmt.Errorf("look whether table %s was rewritten: %w", s.table, err)
	}
	switch {
	case file == at.File:
		return at, nil
	case s.column == "":
		return nil, fmt.Errorf("table %s was rewritten since, and without a column of time its rows cannot be told apart; begin anew", s.table)
	}
	return &place{Time: at.Time, Cmd: "-1", OID: "0", CTID: "(0,0)"}, nil // all rows of that time again
}
