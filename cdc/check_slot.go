package cdc

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// slotFacts are what pg_replication_slots says and the publisher need not know.
type slotFacts struct {
	Lag, Safe          *int64 // bytes to the end of the log; bytes that may still be written before the slot is lost
	Status, Why        string // wal_status; invalidation_reason of PostgreSQL 17 on
	Failover, Failable bool   // the slot goes to the standby; the server knows such slots
	Holder             string // who streams
}

const readSlot = `
SELECT (CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() - s.confirmed_flush_lsn END)::bigint, s.safe_wal_size,
       coalesce(s.wal_status, ''), coalesce(to_jsonb(s) ->> 'invalidation_reason', ''),
       coalesce((to_jsonb(s) ->> 'failover')::boolean, false), to_jsonb(s) ? 'failover',
       coalesce((SELECT format('%s of %s at %s', coalesce(nullif(a.application_name, ''), 'a session'), a.usename, coalesce(host(a.client_addr), 'the server itself'))
                   FROM pg_stat_activity AS a WHERE a.pid = s.active_pid), '')
  FROM pg_replication_slots AS s
 WHERE s.slot_name = $1`

// checkPublication judges the publication, and its age: one that is younger than
// what the slot has still to decode is none (CDC-07).
func (c *checker) checkPublication(ctx context.Context, db *pgx.Conn, cat catalog) {
	const check = "publication"
	switch {
	case !cat.Publication && !cat.Slot:
		c.ok(check, "%s is made with the slot at the first start", c.cfg.Publication)
		return
	case !cat.Publication:
		return // the slot was made without it: the last finding says so
	}
	if err := db.QueryRow(ctx, readOperations, c.cfg.Publication).Scan(&c.updates, &c.deletes); err != nil {
		c.unknown(check, "", "read publication %s: %v", c.cfg.Publication, err)
		return
	}
	says := "publishes inserts"
	if c.updates {
		says += ", updates"
	}
	if c.deletes {
		says += ", deletes"
	}
	if cat.Inserts {
		c.ok(check, "%s %s", c.cfg.Publication, says)
	}
}

// checkSlot judges the slot.
func (c *checker) checkSlot(ctx context.Context, db *pgx.Conn, cat catalog) {
	const check = "slot"
	if !cat.Slot {
		c.ok(check, "%s is made at the first start, which then publishes what is in the table", c.cfg.Slot)
		return
	}
	var f slotFacts
	if err := db.QueryRow(ctx, readSlot, c.cfg.Slot).Scan(&f.Lag, &f.Safe, &f.Status, &f.Why, &f.Failover, &f.Failable, &f.Holder); err != nil {
		c.unknown(check, "", "read slot %s: %v", c.cfg.Slot, err)
		return
	}
	lag := "of unknown lag"
	if f.Lag != nil {
		lag = fmt.Sprintf("%s behind", bytesText(*f.Lag))
	}
	held := "nobody streams from it"
	if cat.ActivePID != 0 {
		held = fmt.Sprintf("session %d streams from it: %s", cat.ActivePID, f.Holder)
	}
	switch f.Status {
	case "lost":
		return // the last finding says so
	case "unreserved":
		c.warn(check, "have it published now, or raise max_slot_wal_keep_size", "%s is about to be lost at the next checkpoint; %s, %s", c.cfg.Slot, lag, held)
	default:
		safe := ""
		if f.Safe != nil {
			safe = fmt.Sprintf("; lost after %s more", bytesText(*f.Safe))
		}
		c.ok(check, "%s is %s (wal_status %s%s); %s", c.cfg.Slot, lag, f.Status, safe, held)
	}
	if f.Failable && !f.Failover {
		c.warn("failover", "make the slot anew with failover = true, if the server has standbys that are promoted",
			"slot %s does not go to a standby: after a promotion it is missing", c.cfg.Slot)
	}
	if cat.ActivePID == 0 && cat.Publication {
		c.peek(ctx)
	}
}

// peek decodes the first change that the slot has to offer, without taking it.
const peek = `
SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1, NULL, 1, 'proto_version', '1', 'publication_names', $2)`

func (c *checker) peek(ctx context.Context) {
	const check = "publication before slot"
	leftOut := false // PostgreSQL 18 warns of it; older ones fail
	db, err := c.connect(ctx, func(cfg *pgx.ConnConfig) {
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { leftOut = leftOut || n.Code == notYet }
	})
	if err != nil {
		c.unknown(check, "", "peek into slot %s: %v", c.cfg.Slot, err)
		return
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	var n int
	err = db.QueryRow(ctx, peek, c.cfg.Slot, quoteIdentifier(c.cfg.Publication)).Scan(&n)
	switch state := sqlState(err); {
	case leftOut:
		c.problem(check, recreate(c.cfg), "publication %s is younger than rows which slot %s has still to decode", c.cfg.Publication, c.cfg.Slot)
	case err == nil:
		c.ok(check, "what slot %s has to offer next can be decoded", c.cfg.Slot)
	case state == undefinedObject:
		c.problem(check, recreate(c.cfg), "publication %s is younger than rows which slot %s has still to decode", c.cfg.Publication, c.cfg.Slot)
	case state == queryCanceled:
		c.unknown(check, "", "the log of slot %s is too long to look through within the statement timeout", c.cfg.Slot)
	case state == objectInUse:
		c.ok(check, "another session has just taken the slot")
	default:
		c.unknown(check, "", "peek into slot %s: %v", c.cfg.Slot, err)
	}
}

const queryCanceled = "57014"

// checkStart asks what the publisher itself asks before it starts, so that
// check never contents itself with what would stop it.
func (c *checker) checkStart(ctx context.Context, db *pgx.Conn) {
	const check = "start"
	_, err := c.inspect(ctx, db)
	var p problem
	switch {
	case err == nil:
		c.ok(check, "a publisher would start")
	case errors.Is(err, errSlotBusy):
		c.ok(check, "a publisher is running; another one would wait for it")
	case errors.As(err, &p):
		c.problem(check, p.cure, "%s", p.what)
	default:
		c.problem(check, "", "%v", err)
	}
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	const unit = 1024
	value, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for len(units) > 1 && value >= unit {
		value, units = value/unit, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
