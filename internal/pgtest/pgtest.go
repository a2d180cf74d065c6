// Package pgtest gives tests a real PostgreSQL.
//
// The first test of a process that asks starts one server for all of them, in a
// folder of the temporary directory; each [Database] is a fresh one in it. When
// CHORUS_TEST_POSTGRES holds the URL of a superuser, that server is used instead;
// it needs wal_level=logical. Whatever way the test process ends, the server ends
// with it and its folder is removed.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pgserver"
)

// patience bounds each step of the kit; the machine may be busy with many tests.
const patience = 60 * time.Second

// shared is the server of this process, started when first asked for. It is the
// one thing here that outlives a test.
var shared = sync.OnceValues(func() (dsn string, err error) {
	if dsn := os.Getenv("CHORUS_TEST_POSTGRES"); dsn != "" {
		return dsn, nil
	}
	s, err := start("shared")
	if err != nil {
		return "", err
	}
	return s.DSN(), nil
})

// Database returns the URL of a fresh, empty database, for a superuser. At the
// end of the test its replication slots and the database are dropped, whoever is
// still connected.
func Database(t testing.TB) string {
	t.Helper()
	admin, err := shared()
	if err != nil {
		t.Fatalf("start PostgreSQL for tests: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text()[:16])
	if err := onAdmin(admin, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
		return err
	}); err != nil {
		t.Fatalf("create database %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := onAdmin(admin, func(ctx context.Context, conn *pgx.Conn) error {
			return drop(ctx, conn, name)
		}); err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("CHORUS_TEST_POSTGRES is not a URL: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// Server returns a running server of the test's own, which it may stop, kill and
// start again. It is killed and removed at the end of the test.
func Server(t testing.TB) *pgserver.Server {
	t.Helper()
	s, err := start("private-" + strings.ToLower(rand.Text()[:8]))
	if err != nil {
		t.Fatalf("start PostgreSQL for this test: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Errorf("kill the test's PostgreSQL: %v", err)
		}
		if err := os.RemoveAll(s.Dir()); err != nil {
			t.Errorf("remove the test's PostgreSQL: %v", err)
		}
	})
	return s
}

func onAdmin(dsn string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}

// drop drops the database with its slots. A slot that somebody streams from
// can be dropped only when that session has ended, so that is waited for.
func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	for {
		var left int
		err := conn.QueryRow(ctx, `
			SELECT count(*) FILTER (WHERE active_pid IS NOT NULL)
			  FROM (SELECT s.active_pid,
			               CASE WHEN s.active_pid IS NULL THEN pg_drop_replication_slot(s.slot_name)::text
			                    ELSE pg_terminate_backend(s.active_pid)::text END
			          FROM pg_replication_slots AS s
			         WHERE s.database = $1
			        OFFSET 0) AS done`, name).Scan(&left)
		if err != nil {
			return fmt.Errorf("drop its replication slots: %w", err)
		}
		if left == 0 {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of %d sessions on its replication slots: %w", left, ctx.Err())
		}
	}
	_, err := conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}
