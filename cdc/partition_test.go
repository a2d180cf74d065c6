package cdc

import (
	"context"
	"strconv"
	"testing"
	"time"

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
	before := samplePast(t, db)
	exec(`INSERT INTO outbox VALUES (2)`)
	if n, err := tryDrop(t.Context(), db, wal.Table{Schema: "public", Name: "old"}, before.xmin); n != 1 || err != nil {
		t.Errorf("%d rows are unpublished, want 1: %v", n, err)
	}
	after := samplePast(t, db)
	if n, err := tryDrop(t.Context(), db, wal.Table{Schema: "public", Name: "old"}, after.xmin); n != 0 || err != nil {
		t.Errorf("%d rows are unpublished, want none: %v", n, err)
	}
	var there bool
	if err := db.QueryRow(t.Context(), `SELECT to_regclass('old') IS NOT NULL`).Scan(&there); err != nil || there {
		t.Errorf("the partition is there: %t (%v)", there, err)
	}
}

// samplePast takes a sample that is past all that this test has committed. A
// transaction of another test on the same server that is still open holds up
// what is known to have ended.
func samplePast(t *testing.T, db *pgx.Conn) sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last uint64
	if err := db.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	for {
		s, err := takeSample(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		xmin, err := strconv.ParseUint(s.xmin, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if xmin > last {
			return s
		}
	}
}
