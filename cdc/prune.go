package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// pruner deletes outbox rows that are published and old enough.
//
// Which rows are published cannot be told by id or time: a transaction that
// took its id and time early may commit late (CDC-15). It is told by
// visibility. The sample takes a snapshot and, after it, the insert position
// of the log. A transaction with an xid below the snapshot's xmin has ended;
// if it committed, it did so before the snapshot, so its commit record was in
// the log and ends at or before that position. When the slot's confirmed
// position, as the server has it, has reached the sample's, every such
// transaction was sent to us whole, and every record of it was acknowledged
// (G3). A row that the DELETE sees was committed, and its xmin is below the
// sample's, so it is published. Rows of subtransactions have an xid of their
// own, above that of their transaction: below the bound means that the
// transaction is, too. The insert position is used because a commit with
// synchronous_commit = off is visible before it is written; the price is that
// on an otherwise idle server it is confirmed only with the next commit.
//
// Sample, comparison and DELETE use one connection, hence one history of one
// server; when it is lost the sample is forgotten. What drops partitions has a
// connection of its own, to the same run of the same server, or does nothing.
//
// Rows that were there before the slot was made by somebody else, without the
// snapshot that this package begins with, count as published: that position
// was chosen by whoever made the slot.
//
// A crash between two batches leaves some rows for the next one.
//
// Partitions are dropped over a connection of their own: looking through all
// rows of one takes long, and the position is kept over the first one.
type pruner struct {
	*source
	outbox prunable
	every  time.Duration
	next   time.Time
	drops  dropper

	sample   sample
	waiting  bool   // the sample's position is not confirmed yet
	safeXmin string // rows below it are published; empty when none are known to be
	off      bool   // this database does not let us
}

type sample struct {
	xmin   string
	at     wal.LSN
	server string // when it was started: it names one run of one server
}

const pruneBatch = 2000 // rows: some ten milliseconds of deletes

func newPruner(s *source) *pruner {
	after := s.config.PruneAfter
	outbox := prunable{table: s.cfg.table(), column: "occurredat", after: after}
	return &pruner{source: s, outbox: outbox, off: after < 0 || s.dropin != nil, every: max(s.config.StatusInterval, min(after/10, 30*time.Second)),
		drops: dropper{source: s, on: s.config.DropPartitions}}
}

// forget gives up what was learned over a connection that is lost.
func (p *pruner) forget() { p.waiting, p.safeXmin = false, "" }

// tick does what is due: at most one batch, so that the database has a pause
// of a status interval between two.
func (p *pruner) tick(ctx context.Context, db *pgx.Conn, confirmed wal.LSN) error {
	if p.off || time.Now().Before(p.next) {
		return nil
	}
	if p.waiting && confirmed >= p.sample.at {
		p.safeXmin, p.waiting = p.sample.xmin, false
	}
	if !p.waiting {
		var err error
		if p.sample, err = takeSample(ctx, db); err != nil {
			return err
		}
		p.waiting = true
	}
	if p.safeXmin == "" {
		return nil
	}
	n, err := p.deleteBatch(ctx, db)
	if err != nil {
		p.next = time.Now().Add(p.every)
		state := sqlState(err)
		p.off = state == noPrivilege || state == undefinedColumn // of occurredat
		return fmt.Errorf("prune, for good is %t: %w", p.off, err)
	}
	if n > 0 {
		p.metrics.pruned.Add(float64(n))
		p.log.Debug("pruned published rows", "rows", n)
	}
	if n < pruneBatch {
		p.next = time.Now().Add(p.every)
	}
	return nil
}

// deleteBatch deletes rows; of an outbox whose partitions are dropped only those
// in partitions that have no end.
func (p *pruner) deleteBatch(ctx context.Context, db *pgx.Conn) (int64, error) {
	if !p.drops.on || p.drops.forbidden.Load() {
		return p.outbox.delete(ctx, db, p.safeXmin)
	}
	all, err := p.outbox.partitions(ctx, db)
	if err != nil {
		return 0, err
	}
	p.drops.begin(ctx, all.old, sample{p.safeXmin, 0, p.sample.server})
	if !all.any {
		return p.outbox.delete(ctx, db, p.safeXmin)
	}
	total := int64(0)
	for _, t := range all.endless {
		of := p.outbox
		of.table = t
		n, err := of.delete(ctx, db, p.safeXmin)
		if total += n; err != nil || total >= pruneBatch {
			return total, err
		}
	}
	return total, nil
}

// The snapshot is taken first: the position must not be older than it. It is
// one statement, whose snapshot is taken before it runs.
const selectSample = `
SELECT pg_snapshot_xmin(pg_current_snapshot())::text, (pg_current_wal_insert_lsn() - '0/0')::bigint, ` + serverRun

const serverRun = `pg_postmaster_start_time()::text`

func takeSample(ctx context.Context, db *pgx.Conn) (s sample, err error) {
	var at int64
	if err = db.QueryRow(ctx, selectSample).Scan(&s.xmin, &at, &s.server); err != nil {
		return s, fmt.Errorf("sample for pruning: %w", err)
	}
	s.at = wal.LSN(at)
	return s, nil
}

// prunable is a table of which rows are deleted that are older than after.
type prunable struct {
	table  wal.Table
	column string // when a row was written
	after  time.Duration
}

// xid has no order of its own; age() counts back from the newest one, so the
// older is the larger. $2 is an xid8, whose lower half is the xid. The
// conditions are there twice because rows of two partitions may share a ctid.
//
// FOR UPDATE SKIP LOCKED would pass a row by that somebody holds, but needs the
// right to UPDATE, and nobody should have that on an outbox. So the batch waits
// for the row, no longer than lock_timeout, and is tried again later. Two
// pruners delete in the order of ctid, so they do not deadlock.
const deleteRows = `
DELETE FROM %[1]s
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM %[1]s
        WHERE %[2]s < now() - make_interval(secs => $1)
          AND age(xmin) > age(($2::text::xid8)::xid)
        ORDER BY %[2]s
        LIMIT $3))
   AND %[2]s < now() - make_interval(secs => $1)
   AND age(xmin) > age(($2::text::xid8)::xid)`

// delete deletes one batch of rows whose xid is below one.
func (p prunable) delete(ctx context.Context, db *pgx.Conn, safeXmin string) (int64, error) {
	tag, err := db.Exec(ctx, fmt.Sprintf(deleteRows, quoteTable(p.table), quoteIdentifier(p.column)), p.after.Seconds(), safeXmin, pruneBatch)
	return tag.RowsAffected(), err
}
