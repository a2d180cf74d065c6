package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// serverFacts are settings of the server and what is left of its limits.
type serverFacts struct {
	Version       int // server_version_num
	WALLevel      string
	Standby       bool
	SenderTimeout int64 // ms; 0 is none
	KeepSize      int64 // MB; -1 is no limit
	IdleTimeout   string
	Senders       [2]int // in use, at most
	Slots         [2]int
	Role          string
	Super, Replication,
	MayCreate bool // makes a publication in this database
}

const readServer = `
SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery(),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       coalesce(current_setting('idle_replication_slot_timeout', true), ''),
       (SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')::int,
       (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')::int,
       r.rolname, r.rolsuper, r.rolreplication, has_database_privilege(current_database(), 'CREATE')
  FROM pg_roles AS r
 WHERE r.rolname = current_user`

func readServerFacts(ctx context.Context, db *pgx.Conn) (f serverFacts, err error) {
	if err = db.QueryRow(ctx, readServer).Scan(&f.Version, &f.WALLevel, &f.Standby, &f.SenderTimeout, &f.KeepSize, &f.IdleTimeout,
		&f.Senders[0], &f.Senders[1], &f.Slots[0], &f.Slots[1], &f.Role, &f.Super, &f.Replication, &f.MayCreate); err != nil {
		return f, fmt.Errorf("read the server's settings: %w", err)
	}
	return f, nil
}

// checkSource goes from the connection inwards, and stops where nothing more
// can be seen.
func (c *checker) checkSource(ctx context.Context) {
	db, err := c.connect(ctx)
	if err != nil {
		c.problem("connection", "correct the source's URL, or the server's listen_addresses and pg_hba.conf", "%v", err)
		return
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	facts, err := readServerFacts(ctx, db)
	if err != nil {
		c.unknown("server", "", "%v", err)
		return
	}
	c.ok("connection", "as %s to database %s, PostgreSQL %d.%d", facts.Role, db.Config().Database, facts.Version/10000, facts.Version%10000)
	c.checkSettings(facts)
	conn, system := c.checkReplication(ctx, facts)
	if conn != nil {
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	}
	cat, err := c.cfg.catalog(ctx, db)
	if err == nil && c.dropin != nil {
		cat.Tables, err = c.capturedTables(ctx, db)
	}
	if err != nil {
		c.unknown("catalog", "", "%v", err)
		return
	}
	c.checkRoom(facts, cat)
	c.checkPublication(ctx, db, cat)
	tables := c.tables(cat)
	for _, t := range tables {
		c.checkTable(ctx, db, cat, t)
	}
	c.checkSlot(ctx, db, cat)
	if conn != nil {
		c.checkPosition(ctx, db, conn, system, cat)
	}
	c.checkQuarantine(ctx, db)
	c.checkStart(ctx, db)
	c.checkClock(ctx, db)
	if c.out != nil {
		c.checkDelivery(ctx)
		c.checkTopics(ctx, db, tables)
	}
}

// checkSettings judges what is in postgresql.conf.
func (c *checker) checkSettings(f serverFacts) {
	if f.Version < 140000 {
		c.problem("version", "upgrade PostgreSQL", "PostgreSQL %d is older than 14", f.Version/10000)
	}
	if f.WALLevel != "logical" {
		c.problem("wal_level", "ALTER SYSTEM SET wal_level = 'logical', and restart PostgreSQL", "wal_level is %s", f.WALLevel)
	} else {
		c.ok("wal_level", "logical")
	}
	if f.Standby {
		c.problem("primary", "name the primary in the source's URL", "the server is a standby")
	}
	switch {
	case f.SenderTimeout == 0:
		c.warn("wal_sender_timeout", "ALTER SYSTEM SET wal_sender_timeout = '10s'",
			"there is none: a publisher whose machine vanished holds the slot until somebody ends its session")
	case f.SenderTimeout > int64(5*time.Minute/time.Millisecond):
		c.warn("wal_sender_timeout", "ALTER SYSTEM SET wal_sender_timeout = '10s'",
			"%s: a standby waits that long for the slot of a publisher that is frozen", time.Duration(f.SenderTimeout)*time.Millisecond)
	default:
		c.ok("wal_sender_timeout", "%s: a standby waits that long for the slot of a publisher that is frozen", time.Duration(f.SenderTimeout)*time.Millisecond)
	}
	if f.KeepSize < 0 {
		c.warn("max_slot_wal_keep_size", "ALTER SYSTEM SET max_slot_wal_keep_size = '…', below what the disk has room for",
			"there is no limit: while nothing is published the log grows until the disk is full, and the database stops")
	} else {
		c.ok("max_slot_wal_keep_size", "%d MB: the slot is lost when the publisher is further behind", f.KeepSize)
	}
	if f.IdleTimeout != "" && f.IdleTimeout != "0" {
		c.warn("idle_replication_slot_timeout", "ALTER SYSTEM SET idle_replication_slot_timeout = 0",
			"%s: the slot is lost when no publisher streams from it for that long", f.IdleTimeout)
	}
}

// checkReplication tries what the role is for. The connection is nil when it
// does not work.
func (c *checker) checkReplication(ctx context.Context, f serverFacts) (conn *pgconn.PgConn, system pglogrepl.IdentifySystemResult) {
	const check = "replication"
	if !f.Replication && !f.Super {
		c.problem(check, fmt.Sprintf("ALTER ROLE %s REPLICATION", quoteIdentifier(f.Role)), "role %s may not replicate", f.Role)
		return nil, system
	}
	conn, _, err := connectReplication(ctx, c.cfg.DSN, 0)
	if err != nil {
		c.problem(check, "where pg_hba.conf stands in the way it needs a line for the database (logical replication is no matter of the keyword replication); "+
			"where all senders are in use, raise max_wal_senders", "no replication connection: %v", err)
		return nil, system
	}
	if system, err = pglogrepl.IdentifySystem(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		c.problem(check, "", "identify system: %v", err)
		return nil, system
	}
	c.ok(check, "role %s replicates; system %s, timeline %d", f.Role, system.SystemID, system.Timeline)
	return conn, system
}

// checkRoom counts what is left of the server's limits. What the publisher
// itself has already counts as left.
func (c *checker) checkRoom(f serverFacts, cat catalog) {
	senders := f.Senders[1] - f.Senders[0]
	if cat.ActivePID != 0 {
		senders++
	}
	if senders < 1 {
		c.problem("max_wal_senders", "raise max_wal_senders and restart PostgreSQL", "all %d are in use", f.Senders[1])
	} else {
		c.ok("max_wal_senders", "%d of %d are left", senders, f.Senders[1])
	}
	slots, need := f.Slots[1]-f.Slots[0], 2 // the first rows are read through a temporary one
	if cat.Slot {
		need = 0
	}
	if slots < need {
		c.problem("max_replication_slots", "raise max_replication_slots and restart PostgreSQL, or drop slots that nobody reads",
			"%d of %d are left, and making slot %s takes %d for a moment", slots, f.Slots[1], c.cfg.Slot, need)
	} else {
		c.ok("max_replication_slots", "%d of %d are left", slots, f.Slots[1])
	}
}
