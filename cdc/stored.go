package cdc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/cdc/wal"
)

// positionTable is a small table in the source database that holds, for each
// slot, a position up to which all is in Kafka (D8). The slot's own position
// cannot tell whether it is still the slot that was left: one that somebody
// made anew, or moved, looks like any other, and what was committed in between
// would be missed in silence (E19).
//
// What it says is never ahead of Kafka, and the slot is told of no position
// beyond it. So a slot that is ahead of it is not the one that was left.
type positionTable struct {
	name   wal.Table
	strict bool // it was asked for: without it the source does not start
}

const (
	noPositionTable      = "none"
	defaultPositionTable = "chorus_cdc_position"
)

const createPositionTable = `
CREATE TABLE IF NOT EXISTS %s (
  slot      text PRIMARY KEY,
  system_id text NOT NULL,        -- of the server, which a dump does not take along
  timeline  integer NOT NULL,
  lsn       pg_lsn NOT NULL,      -- all that was committed before it is in Kafka
  updated   timestamptz NOT NULL
)`

const findTable = `
SELECT n.nspname, c.relname,
       has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass($1)`

// openPositionTable finds the table, or makes it: by default where the role's
// search_path begins. nil is a source that keeps none: it was turned off, or
// nobody asked for it and the role may not make it.
func (s *source) openPositionTable(ctx context.Context, db *pgx.Conn) (*positionTable, error) {
	name := s.cfg.PositionTable
	t := &positionTable{strict: name != ""}
	switch {
	case name == noPositionTable, s.exactlyOnce(), name == "" && s.dropin != nil:
		return nil, nil
	case name == "":
		name = quoteIdentifier(defaultPositionTable)
	default:
		schema, table, _ := strings.Cut(name, ".")
		name = quoteTable(wal.Table{Schema: schema, Name: table})
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var usable bool
	find := func() error { return db.QueryRow(ctx, findTable, name).Scan(&t.name.Schema, &t.name.Name, &usable) }
	err := find()
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = db.Exec(ctx, fmt.Sprintf(createPositionTable, name)); err == nil {
			err = find()
		}
	}
	switch {
	case err == nil && usable:
		return t, nil
	case err == nil:
		err = fmt.Errorf("the role may not SELECT, INSERT and UPDATE")
		if t.strict {
			return nil, fmt.Errorf("use position table %s: %w", t.name, err)
		}
	case t.strict || sqlState(err) != noPrivilege && sqlState(err) != noSchema:
		return nil, fmt.Errorf("make position table %s: %w", name, err)
	}
	if !s.unkept {
		s.unkept = true
		s.log.Warn("no position is kept beside the slot, so one that is made anew will not be noticed", "err", err)
	}
	return nil, nil
}

// stored is the row of a slot.
type stored struct {
	position
	updated time.Time
}

// read returns the row of a slot; nil is a slot that nobody published from.
func (t *positionTable) read(ctx context.Context, db *pgx.Conn, slot string) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var r stored
	var at int64
	err := db.QueryRow(ctx, "SELECT system_id, timeline, (lsn - '0/0')::bigint, updated FROM "+quoteTable(t.name)+" WHERE slot = $1", slot).
		Scan(&r.system, &r.timeline, &at, &r.updated)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read position table %s: %w", t.name, err)
	}
	r.at = wal.LSN(at)
	return &r, nil
}

// An owner that was frozen may write late: in one history the position does not go back.
const writePosition = `
INSERT INTO %s AS p (slot, system_id, timeline, lsn, updated) VALUES ($1, $2, $3, $4::text::pg_lsn, clock_timestamp())
ON CONFLICT (slot) DO UPDATE
   SET system_id = excluded.system_id, timeline = excluded.timeline, updated = excluded.updated,
       lsn = CASE WHEN (p.system_id, p.timeline) = (excluded.system_id, excluded.timeline) THEN greatest(p.lsn, excluded.lsn) ELSE excluded.lsn END`

func (t *positionTable) write(ctx context.Context, db *pgx.Conn, slot string, at position) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	if _, err := db.Exec(ctx, fmt.Sprintf(writePosition, quoteTable(t.name)), slot, at.system, at.timeline, at.at.String()); err != nil {
		return fmt.Errorf("write position table %s: %w", t.name, err)
	}
	return nil
}

// withForget completes the cure of a slot that is to be dropped.
func (s *source) withForget(t *positionTable, err error) error {
	if t == nil || !errors.As(err, new(lostSlot)) {
		return err
	}
	return fmt.Errorf("%w; and %s", err, t.forget(s.cfg.Slot))
}

// lookBack opens the position table and reads what it says of the slot, and
// refuses to make a slot that was there before.
func (s *source) lookBack(ctx context.Context, db *pgx.Conn, c catalog) (*positionTable, *stored, error) {
	t, err := s.openPositionTable(ctx, db)
	if t == nil || err != nil {
		return nil, nil, err
	}
	left, err := t.read(ctx, db, s.cfg.Slot)
	switch {
	case err != nil:
		return nil, nil, err
	case left == nil || c.Slot:
		return t, left, nil
	}
	var system string
	if err := db.QueryRow(ctx, "SELECT system_identifier::text FROM pg_control_system()").Scan(&system); err != nil {
		return nil, nil, fmt.Errorf("ask for the server's identifier: %w", err)
	}
	return nil, nil, t.missing(s.cfg, left, system)
}

// goOnFrom says where to go on when the slot stands at here: not before what this
// process, or the position table, knows to be in Kafka.
func (s *source) goOnFrom(ctx context.Context, conn *pgconn.PgConn, g ground, here position) (position, error) {
	if g.left != nil {
		history := func() (wal.LSN, bool, error) { return timelineEnd(ctx, conn, here.timeline, g.left.timeline) }
		if err := g.table.judge(s.cfg, g.left, here, history); err != nil {
			return here, err
		}
	}
	known := []position{s.resume}
	if g.left != nil {
		known = append(known, g.left.position)
	}
	for _, p := range known {
		if p.system == here.system && p.timeline == here.timeline {
			here.at = max(here.at, p.at)
		}
	}
	return here, nil
}

// timelineEnd is where timeline was ended that became of was; ok is false when
// it did not.
func timelineEnd(ctx context.Context, conn *pgconn.PgConn, timeline, was int32) (end wal.LSN, ok bool, err error) {
	history, err := pglogrepl.TimelineHistory(ctx, conn, timeline)
	if err != nil {
		return 0, false, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	for line := range strings.Lines(string(history.Content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != strconv.Itoa(int(was)) {
			continue
		}
		at, err := pglogrepl.ParseLSN(fields[1])
		return wal.LSN(at), err == nil, err
	}
	return 0, false, nil
}

// forget is the statement by which somebody says that the past is dealt with.
func (t *positionTable) forget(slot string) string {
	return fmt.Sprintf("DELETE FROM %s WHERE slot = %s", quoteTable(t.name), quoteLiteral(slot))
}

// missing is why a slot that is not there must not be made: it was there before.
func (t *positionTable) missing(s Source, r *stored, system string) error {
	if system != r.system {
		return t.elsewhere(s, r, system)
	}
	return problem{fmt.Sprintf("slot %s is missing; until %s it was there, and all before %s is published. What was committed since then may be in no topic",
		s.Slot, r.updated.UTC().Format(time.RFC3339), r.at),
		t.forget(s.Slot) + "; slot and publication are then made anew, and the rows that the table still holds are published (again)"}
}

// elsewhere is why a position of another server is of no use on this one.
func (t *positionTable) elsewhere(s Source, r *stored, system string) error {
	return problem{fmt.Sprintf("table %s speaks of server %s, and this is server %s: the database was restored from a dump, copied or upgraded, and slot %s is not the one that was left",
		t.name, r.system, system, s.Slot), then + t.forget(s.Slot)}
}

// then is the first half of most cures.
const then = "publish what may be missing, which chorus cdc recover does for what the table still holds; then "

// judge says why the slot is not the one that the row speaks of, or nil. history
// tells where another timeline ended, for one that is followed by the present one.
func (t *positionTable) judge(s Source, r *stored, here position, history func() (end wal.LSN, ok bool, err error)) error {
	switch {
	case r.system != here.system:
		return t.elsewhere(s, r, here.system)
	case r.timeline != here.timeline:
		end, ok, err := history()
		switch {
		case err != nil:
			return err
		case !ok || here.at > end:
			return problem{fmt.Sprintf("the server is on timeline %d, slot %s was left on timeline %d, and at %s it is not the same slot: it was made after a promotion or a restore",
				here.timeline, s.Slot, r.timeline, here.at), then + t.forget(s.Slot)}
		}
		return nil // the slot has come along, and stands where both histories are one
	case here.at > r.at:
		return problem{fmt.Sprintf("slot %s is at %s, ahead of %s, up to which all is published: somebody has made it anew or moved it, and what was committed in between may be in no topic",
			s.Slot, here.at, r.at), then + t.forget(s.Slot)}
	}
	return nil
}
