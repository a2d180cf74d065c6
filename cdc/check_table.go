package cdc

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// tableFacts are what the catalog says of a table that is published.
type tableFacts struct {
	OID                   uint32
	Select, Delete, Owner bool // what the role may
	Logged                bool
	Hides                 bool     // row security shows the role not all rows
	Identity              bool     // updates and deletes can be published: it has a replica identity
	Columns               []string // what the publication publishes; nil for all
	Filter                string   // rows the publication publishes; empty for all
}

// Columns and filter came with PostgreSQL 15, hence by way of JSON.
const readTable = `
SELECT c.oid, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'DELETE'), pg_has_role(c.relowner, 'USAGE'),
       c.relpersistence <> 'u', row_security_active(c.oid),
       NOT EXISTS (SELECT FROM (SELECT c.oid UNION SELECT relid FROM pg_partition_tree(c.oid)) AS part (oid)
                     JOIN pg_class AS leaf ON leaf.oid = part.oid
                    WHERE leaf.relkind = 'r'
                      AND (leaf.relreplident = 'n'
                           OR leaf.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = leaf.oid AND i.indisprimary))),
       ARRAY(SELECT jsonb_array_elements_text(CASE WHEN p.attnames IS NOT NULL THEN p.attnames ELSE '[]' END)),
       coalesce(p.filter, '')
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN (SELECT t.schemaname, t.tablename, to_jsonb(t) -> 'attnames' AS attnames, to_jsonb(t) ->> 'rowfilter' AS filter
               FROM pg_publication_tables AS t WHERE t.pubname = $3) AS p
         ON p.schemaname = n.nspname AND p.tablename = c.relname
 WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')`

func readTableFacts(ctx context.Context, db *pgx.Conn, t wal.Table, publication string) (f tableFacts, err error) {
	if err = db.QueryRow(ctx, readTable, t.Schema, t.Name, publication).Scan(&f.OID, &f.Select, &f.Delete, &f.Owner,
		&f.Logged, &f.Hides, &f.Identity, &f.Columns, &f.Filter); err != nil {
		return f, fmt.Errorf("read table %s: %w", t, err)
	}
	return f, nil
}

// tables are those whose rows are to be published, and are there.
func (c *checker) tables(cat catalog) []wal.Table {
	if c.dropin == nil {
		if !cat.Table {
			c.problem("table", "create it", "table %s does not exist", c.cfg.Table)
			return nil
		}
		return []wal.Table{c.cfg.table()}
	}
	var all []wal.Table
	for _, t := range cat.Tables {
		if t.Root == 0 || !capturesRoot(t, cat.Tables) {
			all = append(all, t.Table)
		}
	}
	if all == nil {
		c.problem("table", "correct table.include.list, or create the table", "no table of the database is captured")
	}
	return all
}

// checkTable judges one table, and what the publication makes of it.
func (c *checker) checkTable(ctx context.Context, db *pgx.Conn, cat catalog, t wal.Table) {
	f, err := readTableFacts(ctx, db, t, c.cfg.Publication)
	if err != nil {
		c.unknown("table", "", "%v", err)
		return
	}
	if !f.Logged {
		c.problem("table", fmt.Sprintf("ALTER TABLE %s SET LOGGED", quoteTable(t)), "table %s is unlogged: its rows never come", t)
	}
	c.checkRights(cat, t, f)
	c.checkColumns(ctx, db, t, f)
	if !cat.Publication {
		return
	}
	if f.Filter != "" {
		c.warn("publication", "publish all rows, if that was not meant", "of table %s it publishes only rows WHERE %s", t, f.Filter)
	}
	c.checkIdentity(t, f)
}

func (c *checker) checkRights(cat catalog, t wal.Table, f tableFacts) {
	role := "the role of the source's URL"
	switch {
	case !f.Select:
		c.problem("rights", fmt.Sprintf("GRANT SELECT ON %s TO …", quoteTable(t)), "%s may not read table %s", role, t)
	case c.dropin == nil && c.config.PruneAfter > 0 && !f.Delete:
		c.warn("rights", fmt.Sprintf("GRANT DELETE ON %s TO …, or --prune-after=-1s", quoteTable(t)), "%s may not delete from table %s: published rows stay", role, t)
	default:
		c.ok("rights", "on table %s", t)
	}
	if f.Hides {
		c.warn("row security", "ALTER ROLE … BYPASSRLS", "policies hide rows of table %s: those older than the slot, and what recover and replay read", t)
	}
	if !cat.Publication && !f.Owner {
		c.problem("publication", "create it as the table's owner, before the slot", "publication %s does not exist, and %s, which does not own table %s, may not make it",
			c.cfg.Publication, role, t)
	}
}

// checkColumns looks for the columns of an outbox, in the table and in what is
// published of it.
func (c *checker) checkColumns(ctx context.Context, db *pgx.Conn, t wal.Table, f tableFacts) {
	const check = "columns"
	missing, err := c.missingColumns(ctx, db, t, f.OID, nil)
	if err != nil {
		c.unknown(check, "", "%v", err)
		return
	}
	if missing != nil {
		c.problem(check, "add them, or name the ones that are there", "table %s has no column %s", t, strings.Join(missing, ", "))
		return
	}
	if len(f.Columns) > 0 {
		if missing, err = c.missingColumns(ctx, db, t, f.OID, f.Columns); err == nil && missing != nil {
			c.problem(check, fmt.Sprintf("publish all columns of %s", quoteTable(t)), "publication %s leaves out column %s", c.cfg.Publication, strings.Join(missing, ", "))
			return
		}
	}
	c.ok(check, "table %s has what its rows need", t)
}

const selectAttributes = `
SELECT a.attname, a.atttypid, a.atttypmod
  FROM pg_attribute AS a
 WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND (cardinality($2::text[]) = 0 OR a.attname = ANY ($2))
 ORDER BY a.attnum`

// missingColumns says what is needed and not among the table's columns, or not
// among those of its columns that are named.
func (c *checker) missingColumns(ctx context.Context, db *pgx.Conn, t wal.Table, oid uint32, named []string) ([]string, error) {
	if named == nil {
		named = []string{}
	}
	rows, err := db.Query(ctx, selectAttributes, oid, named)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", t, err)
	}
	relation := &wal.Relation{OID: oid, Table: t}
	var a wal.Attribute
	if _, err := pgx.ForEachRow(rows, []any{&a.Name, &a.Type, &a.Mod}, func() error {
		relation.Columns = append(relation.Columns, a)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", t, err)
	}
	if c.dropin == nil {
		layout := wal.NewLayout()
		for i, a := range relation.Columns {
			layout.Add(i, a.Name, a.Type)
		}
		return layout.Missing(), nil
	}
	table, err := c.compile(ctx, db, relation)
	if err != nil {
		return nil, err
	}
	return table.Missing(), nil
}

const readOperations = `SELECT pubupdate, pubdelete FROM pg_publication WHERE pubname = $1`

// checkIdentity: a table whose updates or deletes are published, and that has
// nothing to tell its rows by, refuses them (SQLSTATE 55000). That hits the
// application and our pruner, not the publisher.
func (c *checker) checkIdentity(t wal.Table, f tableFacts) {
	const check = "replica identity"
	switch {
	case !c.updates && !c.deletes:
		c.ok(check, "not needed for table %s: only inserts are published", t)
	case f.Identity:
		c.ok(check, "table %s has one", t)
	default:
		c.problem(check, fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert'), or give the table a primary key, or ALTER TABLE %s REPLICA IDENTITY FULL",
			quoteIdentifier(c.cfg.Publication), quoteTable(t)),
			"table %s has none and publication %s publishes updates or deletes: PostgreSQL refuses them, to the application and to pruning", t, c.cfg.Publication)
	}
}
