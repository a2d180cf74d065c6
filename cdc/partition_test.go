package cdc

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
	"chorus/internal/pgtest"
)

// A partition with a row that is not known to be published stays whole.
func TestPartitionWithUnpublishedRowsStays(t *testing.T) {
	t.Parallel()
	db, err := pgx.Connect(t.Context(), pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE outbox (n int) PARTITION BY RANGE (n); CREATE TABLE old PARTITION OF outbox FOR VALUES FROM (0) TO (10); INSERT INTO outbox VALUES (1)`)
	before, err := takeSample(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	exec(`INSERT INTO outbox VALUES (2)`)
	if n, err := tryDrop(t.Context(), db, wal.Table{Schema: "public", Name: "old"}, before.xmin); n != 1 || err != nil {
		t.Errorf("%d rows are unpublished, want 1: %v", n, err)
	}
	after, err := takeSample(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tryDrop(t.Context(), db, wal.Table{Schema: "public", Name: "old"}, after.xmin); n != 0 || err != nil {
		t.Errorf("%d rows are unpublished, want none: %v", n, err)
	}
	var there bool
	if err := db.QueryRow(t.Context(), `SELECT to_regclass('old') IS NOT NULL`).Scan(&there); err != nil || there {
		t.Errorf("the partition is there: %t (%v)", there, err)
	}
}
