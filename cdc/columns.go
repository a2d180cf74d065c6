package cdc

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/debezium"
)

// columnFacts are what the catalog knows of a column and the stream does not say.
type columnFacts struct {
	notNull    bool
	key        bool   // of the primary key, or else of the first unique index
	expression string // of the default
}

const selectColumnFacts = `
SELECT a.attname, a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       coalesce(a.attnum = ANY (i.indkey::smallint[]), false)
  FROM pg_attribute AS a
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = ''
  LEFT JOIN (SELECT x.indkey
               FROM pg_index AS x JOIN pg_class AS n ON n.oid = x.indexrelid
              WHERE x.indrelid = $1 AND x.indisunique AND x.indpred IS NULL AND x.indexprs IS NULL
              ORDER BY x.indisprimary DESC, n.relname
              LIMIT 1) AS i ON true
 WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped`

// readColumnFacts reads them by name. A table that is gone has none.
func readColumnFacts(ctx context.Context, db *pgx.Conn, oid uint32) (map[string]columnFacts, error) {
	rows, err := db.Query(ctx, selectColumnFacts, oid)
	if err != nil {
		return nil, fmt.Errorf("read the columns of table %d: %w", oid, err)
	}
	facts := map[string]columnFacts{}
	var name string
	var f columnFacts
	if _, err := pgx.ForEachRow(rows, []any{&name, &f.notNull, &f.expression, &f.key}, func() error {
		facts[name] = f
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the columns of table %d: %w", oid, err)
	}
	return facts, nil
}

// typeReader resolves types: domains to what is beneath, arrays to their elements.
type typeReader struct {
	db    *pgx.Conn
	known map[uint32]debezium.Type // without Mod
}

const selectType = `
SELECT t.typname, t.typtype::text, t.typbasetype, t.typtypmod,
       CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum AS e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
  FROM pg_type AS t
 WHERE t.oid = $1`

func (r *typeReader) read(ctx context.Context, oid uint32, mod int32) (debezium.Type, error) {
	if t, ok := r.known[oid]; ok {
		t.Mod = mod
		if t.Element != nil {
			e := *t.Element
			e.Mod, t.Element = mod, &e
		}
		return t, nil
	}
	var name, kind string
	var base, element uint32
	var baseMod int32
	var labels []string
	err := r.db.QueryRow(ctx, selectType, oid).Scan(&name, &kind, &base, &baseMod, &element, &labels)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return debezium.Type{OID: oid, Mod: mod}, nil // dropped since; those with a fixed OID never are
	case err != nil:
		return debezium.Type{}, err
	case kind == "d":
		return r.read(ctx, base, baseMod)
	}
	t := debezium.Type{OID: oid, Name: name}
	if kind == "e" {
		t.Labels = labels
	}
	if element != 0 {
		e, err := r.read(ctx, element, mod)
		if err != nil {
			return t, err
		}
		t.Element = &e
	}
	r.known[oid] = t
	t.Mod = mod
	return t, nil
}
