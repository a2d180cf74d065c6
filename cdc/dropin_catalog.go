package cdc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// captured is a table of the database whose rows a drop-in publishes.
type captured struct {
	OID         uint32
	Table       wal.Table
	Partitioned bool
	Root        uint32 // of a partition: the table at the top; 0 for others
	Published   bool   // the publication holds it
}

const selectTables = `
SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', coalesce(CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid END, 0)::oid
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_t%'
 ORDER BY n.nspname, c.relname`

const selectPublished = `SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = $1`

// inspect reads what the database says about a source and whether it can be
// read as it stands.
func (s *source) inspect(ctx context.Context, db *pgx.Conn) (catalog, error) {
	c, err := s.cfg.catalog(ctx, db)
	if err != nil {
		return c, err
	}
	if s.dropin == nil {
		return c, c.check(s.cfg)
	}
	if c.Tables, err = s.capturedTables(ctx, db); err != nil {
		return c, err
	}
	return c, s.checkDropIn(c)
}

func (s *source) capturedTables(ctx context.Context, db *pgx.Conn) ([]captured, error) {
	published, err := publishedTables(ctx, db, s.cfg.Publication)
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, selectTables)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	var all []captured
	inPart := map[uint32]bool{} // tables of which a partition is published under its own name
	var t captured
	_, err = pgx.ForEachRow(rows, []any{&t.OID, &t.Table.Schema, &t.Table.Name, &t.Partitioned, &t.Root}, func() error {
		t.Published = published[t.Table]
		if t.Root != 0 && t.Published {
			inPart[t.Root] = true
		}
		if s.dropin.connector.Captures(t.Table.Schema, t.Table.Name) {
			all = append(all, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	for i := range all {
		all[i].Published = all[i].Published || inPart[all[i].OID]
	}
	return all, nil
}

func publishedTables(ctx context.Context, db *pgx.Conn, publication string) (map[wal.Table]bool, error) {
	rows, err := db.Query(ctx, selectPublished, publication)
	if err != nil {
		return nil, fmt.Errorf("read the tables of publication %s: %w", publication, err)
	}
	tables := map[wal.Table]bool{}
	var t wal.Table
	if _, err := pgx.ForEachRow(rows, []any{&t.Schema, &t.Name}, func() error {
		tables[t] = true
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the tables of publication %s: %w", publication, err)
	}
	return tables, nil
}

// checkDropIn says why the source cannot be read as it stands, or nil when it
// can be or when what is missing can be made.
func (s *source) checkDropIn(c catalog) error {
	d := s.dropin.connector
	if err := c.checkServer(s.cfg); err != nil {
		return err
	}
	switch {
	case c.Slot && !c.Publication:
		return publicationMissing(s.cfg)
	case !c.Publication && d.AutoCreate == "disabled":
		return problem{fmt.Sprintf("publication %s does not exist, and publication.autocreate.mode is disabled", s.cfg.Publication), "create it before the slot"}
	case d.AutoCreate == "filtered" && len(c.Tables) == 0:
		return problem{"no table of the database is captured", "correct table.include.list, or create the table; the publisher goes on by itself"}
	case c.Publication && !c.Inserts:
		return problem{fmt.Sprintf("publication %s does not publish inserts", s.cfg.Publication),
			fmt.Sprintf("ALTER PUBLICATION %s SET (publish = %s)", quoteIdentifier(s.cfg.Publication), quoteLiteral(d.Publish))}
	}
	viaRoot := c.ViaRoot || !c.Publication && d.ViaRoot
	for _, t := range c.Tables {
		switch {
		case !d.Unrouted && !d.Routes(debezium.Name{Schema: t.Table.Schema, Table: t.Table.Name}):
			return problem{fmt.Sprintf("table %s is captured and the router is not for it by %s; its rows, which Debezium publishes as change events, are none of an outbox", t.Table, d.Predicate),
				"take it from table.include.list, or leave its rows out with --ignore-option=" + d.Predicate}
		case t.Partitioned && !viaRoot && !capturesPartitions(t, c.Tables):
			return problem{fmt.Sprintf("table %s is partitioned, and its rows would come under the names of the partitions, which are not captured", t.Table),
				"set publish.via.partition.root=true, and on a publication that is there publish_via_partition_root"}
		case c.Publication && !t.Published && t.Root == 0 && d.AutoCreate != "no_tables":
			return problem{fmt.Sprintf("publication %s does not hold table %s", s.cfg.Publication, t.Table),
				fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s", quoteIdentifier(s.cfg.Publication), quoteTable(t.Table))}
		}
	}
	return nil
}

func capturesPartitions(root captured, all []captured) bool {
	return slices.ContainsFunc(all, func(t captured) bool { return t.Root == root.OID })
}

func capturesRoot(partition captured, all []captured) bool {
	return slices.ContainsFunc(all, func(t captured) bool { return t.OID == partition.Root })
}

// createDropInPublication makes the publication of a drop-in, as the connector would.
func (s *source) createDropInPublication(ctx context.Context, db *pgx.Conn, tables []captured) error {
	d := s.dropin.connector
	of := ""
	switch d.AutoCreate {
	case "all_tables":
		of = "FOR ALL TABLES "
	case "filtered":
		var names []string
		for _, t := range tables {
			names = append(names, quoteTable(t.Table))
		}
		of = "FOR TABLE " + strings.Join(names, ", ") + " "
	}
	options := "publish = " + quoteLiteral(d.Publish)
	if d.ViaRoot {
		options += ", publish_via_partition_root = true"
	}
	sql := fmt.Sprintf("CREATE PUBLICATION %s %sWITH (%s)", quoteIdentifier(s.cfg.Publication), of, options)
	if _, err := db.Exec(ctx, sql); err != nil {
		return fmt.Errorf("create publication %s: %w", s.cfg.Publication, err)
	}
	return nil
}

func quoteTable(t wal.Table) string {
	return quoteIdentifier(t.Schema) + "." + quoteIdentifier(t.Name)
}
