package pgtest_test

import (
	"context"
	"github.com/jackc/pgx/v5/pgproto3"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	a, b := pgtest.Database(t), pgtest.Database(t)
	if a == b {
		t.Fatalf("two databases at %s", a)
	}
	if _, err := connect(t, a).Exec(t.Context(), "CREATE TABLE only_here (n int)"); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := connect(t, b).QueryRow(t.Context(), "SELECT to_regclass('only_here') IS NOT NULL").Scan(&there); err != nil {
		t.Fatal(err)
	}
	if there {
		t.Error("a table of one database is in the other")
	}
}

// A test of cdc leaves a slot that a walsender streams from, and open sessions.
func TestCleanupDropsWhatIsInUse(t *testing.T) {
	t.Parallel()
	var dsn string
	t.Run("leave", func(t *testing.T) {
		dsn = pgtest.Database(t)
		replication := connect(t, dsn+"&replication=database").PgConn()
		if _, err := replication.Exec(t.Context(), "CREATE_REPLICATION_SLOT left_over LOGICAL pgoutput").ReadAll(); err != nil {
			t.Fatal(err)
		}
		if _, err := connect(t, dsn).Exec(t.Context(), "CREATE PUBLICATION p"); err != nil {
			t.Fatal(err)
		}
		replication.Frontend().SendQuery(startReplication)
		if err := replication.Frontend().Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := replication.ReceiveMessage(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		conn.Close(t.Context())
		t.Error("the database is still there after its test")
	}
}

var startReplication = &pgproto3.Query{
	String: `START_REPLICATION SLOT left_over LOGICAL 0/0 (proto_version '1', publication_names 'p')`,
}

func TestServerCanBeKilledAndStarted(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	dsn := s.DSN()
	if _, err := connect(t, dsn).Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.DSN() != dsn {
		t.Errorf("the URL changed from %s to %s", dsn, s.DSN())
	}
	if _, err := connect(t, dsn).Exec(t.Context(), "INSERT INTO kept (n) VALUES (1)"); err != nil {
		t.Error(err)
	}
}
