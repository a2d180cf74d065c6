package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// errSlotBusy is another session that streams from the slot: a second
// instance, or what the server still takes for one that died.
var errSlotBusy = errors.New("slot busy")

// problem is a state of the database that somebody has to repair, and how.
type problem struct{ what, cure string }

func (p problem) Error() string { return p.what + ": " + p.cure }

// lostSlot is a problem whose cure is a new slot.
type lostSlot struct{ problem }

func (l lostSlot) Unwrap() error { return l.problem }

// catalog is what the database says about a source.
type catalog struct {
	WALLevel    string
	Silence     time.Duration // wal_sender_timeout
	Table       bool
	Partitioned bool

	Publication bool
	Inserts     bool // it publishes inserts
	ViaRoot     bool // it publishes rows of partitions under the name of the root
	HoldsTable  bool
	Binary      bool     // all columns that are read are of types that are read in binary form
	LeftOut     []string // columns of an outbox that the table has and the publication leaves out

	Slot      bool
	Plugin    string
	Here      bool // the slot is of this database
	ActivePID int  // of the session that streams from it
	Confirmed wal.LSN
	WALStatus string
	Invalid   string // why the slot is of no use any more, as PostgreSQL 16 and later say it
	Failover  bool   // the slot is kept on the server's standbys, too
	Failable  bool   // the server knows such slots

	Tables []captured // of a drop-in
}

const readCatalog = `
SELECT current_setting('wal_level'),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'),
       t.relkind IS NOT NULL, coalesce(t.relkind = 'p', false),
       p.pubname IS NOT NULL, coalesce(p.pubinsert, false), coalesce(p.pubviaroot, false),
       EXISTS (SELECT FROM pg_publication_tables AS pt
                WHERE pt.pubname = $3 AND pt.schemaname = $1 AND pt.tablename = $2),
       ARRAY(SELECT a.attname::text
               FROM pg_publication_tables AS pt JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
              WHERE pt.pubname = $3 AND pt.schemaname = $1 AND pt.tablename = $2 AND a.attname = ANY ($5)
                AND NOT to_jsonb(pt) -> 'attnames' ? a.attname::text
              ORDER BY a.attnum),
       t.oid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute AS a
              WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY ($5) AND NOT a.atttypid = ANY ($6)),
       s.slot_name IS NOT NULL, coalesce(s.plugin, ''), coalesce(s.database = current_database(), false),
       coalesce(s.active_pid, 0), coalesce(s.confirmed_flush_lsn - '0/0', 0)::bigint, coalesce(s.wal_status, ''),
       coalesce(to_jsonb(s) ->> 'invalidation_reason', CASE WHEN to_jsonb(s) ->> 'conflicting' = 'true' THEN 'conflict with recovery' END, ''),
       coalesce(to_jsonb(s) ->> 'failover' = 'true', false), current_setting('server_version_num')::int >= 170000
  FROM (VALUES (1)) AS one (n)
  LEFT JOIN (SELECT c.oid, c.relkind FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
              WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')) AS t ON true
  LEFT JOIN pg_publication AS p ON p.pubname = $3
  LEFT JOIN pg_replication_slots AS s ON s.slot_name = $4`

func (s Source) catalog(ctx context.Context, db *pgx.Conn) (c catalog, err error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	t := s.table()
	var timeout, confirmed int64
	if err = db.QueryRow(ctx, readCatalog, t.Schema, t.Name, s.Publication, s.Slot, wal.Columns(), wal.BinaryTypes()).Scan(
		&c.WALLevel, &timeout, &c.Table, &c.Partitioned,
		&c.Publication, &c.Inserts, &c.ViaRoot, &c.HoldsTable, &c.LeftOut, &c.Binary,
		&c.Slot, &c.Plugin, &c.Here, &c.ActivePID, &confirmed, &c.WALStatus,
		&c.Invalid, &c.Failover, &c.Failable); err != nil {
		return c, fmt.Errorf("read the catalog: %w", err)
	}
	c.Silence = time.Duration(timeout) * time.Millisecond
	c.Confirmed = wal.LSN(confirmed)
	return c, nil
}

// check says why the source cannot be read as it stands, or nil when it can be
// or when what is missing can be made.
func (c catalog) check(s Source) error {
	if c.WALLevel == "logical" && !c.Table {
		return problem{fmt.Sprintf("table %s does not exist", s.Table), "create it; the publisher goes on by itself"}
	}
	if err := c.checkServer(s); err != nil {
		return err
	}
	switch {
	case c.Slot && !c.Publication:
		// Made now it would not help: decoding looks at the catalog as it was
		// when each row was written (CDC-07).
		return publicationMissing(s)
	case !c.Publication:
		return nil // both are made
	case !c.Inserts:
		return problem{fmt.Sprintf("publication %s does not publish inserts", s.Publication),
			fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert')", quoteIdentifier(s.Publication))}
	case c.Partitioned && !c.ViaRoot:
		return problem{fmt.Sprintf("table %s is partitioned and publication %s would publish its rows under the names of the partitions", s.Table, s.Publication),
			fmt.Sprintf("ALTER PUBLICATION %s SET (publish_via_partition_root = true)", quoteIdentifier(s.Publication))}
	case !c.HoldsTable:
		return problem{fmt.Sprintf("publication %s does not hold table %s", s.Publication, s.Table),
			fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s", quoteIdentifier(s.Publication), s.quotedTable())}
	case len(c.LeftOut) > 0:
		return problem{fmt.Sprintf("publication %s leaves out columns of table %s: %s", s.Publication, s.Table, strings.Join(c.LeftOut, ", ")),
			fmt.Sprintf("ALTER PUBLICATION %s SET TABLE %s without a list of columns, or with them in it", quoteIdentifier(s.Publication), s.quotedTable())}
	}
	return nil
}

// checkServer says why the server or the slot cannot serve.
func (c catalog) checkServer(s Source) error {
	switch {
	case c.WALLevel != "logical":
		return problem{fmt.Sprintf("wal_level is %s", c.WALLevel), "set it to logical and restart PostgreSQL"}
	case c.Slot && c.Plugin != "pgoutput":
		return problem{fmt.Sprintf("slot %s is of plugin %q, not pgoutput", s.Slot, c.Plugin), "name another slot, or drop this one"}
	case c.Slot && !c.Here:
		return problem{fmt.Sprintf("slot %s is of another database", s.Slot), "name another slot"}
	case c.WALStatus == "lost" && c.Invalid == "":
		return lost(s, fmt.Sprintf("slot %s is lost: PostgreSQL removed the log that it needed (max_slot_wal_keep_size)", s.Slot))
	case c.WALStatus == "lost" || c.Invalid != "":
		return lost(s, fmt.Sprintf("slot %s is lost: PostgreSQL invalidated it (%s)", s.Slot, c.Invalid))
	case s.Failover && !c.Failable:
		return problem{"failover slots need PostgreSQL 17", "upgrade the server, or leave failover out"}
	case c.ActivePID != 0:
		return fmt.Errorf("%w: session %d streams from slot %s", errSlotBusy, c.ActivePID, s.Slot)
	}
	return nil
}

// publicationMissing is SQLSTATE 42704 of the stream, and the same state seen
// beforehand: the slot is older than the publication.
func publicationMissing(s Source) error {
	return lost(s, fmt.Sprintf("publication %s does not exist, or did not when rows after the position of slot %s were written", s.Publication, s.Slot))
}

func lost(s Source, what string) error { return lostSlot{problem{what, recreate(s)}} }

// recreate is the cure for a slot whose log cannot be read any more. The new
// slot begins with the rows that are in the table.
func recreate(s Source) string {
	return fmt.Sprintf("SELECT pg_drop_replication_slot(%s); publication and slot are then made anew, in this order, "+
		"and all rows that the table still holds are published (again)", quoteLiteral(s.Slot))
}

// createPublication makes the publication. It must exist before the slot.
func (s Source) createPublication(ctx context.Context, db *pgx.Conn, partitioned bool) error {
	options := "publish = 'insert'"
	if partitioned {
		options += ", publish_via_partition_root = true"
	}
	if _, err := db.Exec(ctx, fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE %s WITH (%s)",
		quoteIdentifier(s.Publication), s.quotedTable(), options)); err != nil {
		return fmt.Errorf("create publication %s: %w", s.Publication, err)
	}
	return nil
}

func (s Source) quotedTable() string { return quoteTable(s.table()) }
