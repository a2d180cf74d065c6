package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code             string
		transient, fault bool
	}{
		{"40001", true, false}, {"40P01", true, false}, {"57P01", true, false}, {"57P02", true, false}, {"57P03", true, false},
		{"53300", true, false}, {"53100", true, false}, {"08006", true, false}, {"58030", true, false}, {"25006", true, false},
		{"57014", true, false}, {"55P03", true, false}, {"25P03", true, false}, {"55006", true, false},
		{"22003", false, true}, {"23505", false, true}, {"23514", false, true}, {"54000", false, true},
		{"42P01", false, false}, {"42501", false, false}, {"28P01", false, false}, {"3D000", false, false},
		{"0A000", false, false}, {"57P04", false, false}, {"XX001", false, false}, {"P0001", false, false},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: test.code})
		if got := pg.Transient(err); got != test.transient {
			t.Errorf("Transient(%s) = %v", test.code, got)
		}
		if got := pg.Fault(err); got != test.fault {
			t.Errorf("Fault(%s) = %v", test.code, got)
		}
	}
	for _, err := range []error{nil, errors.New("ours"), context.Canceled, pgx.ErrNoRows} {
		if pg.Transient(err) || pg.Fault(err) || pg.Code(err) != "" {
			t.Errorf("%v counts as an error of the database", err)
		}
	}
}

func TestConnectionErrorsAreTransient(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	conn := connect(t, s.DSN())
	check := func(what string, err error) {
		t.Helper()
		if !pg.Transient(err) || pg.Fault(err) {
			t.Errorf("%s: %v (%T) is not transient", what, err, err)
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(), "SELECT 1")
	check("statement on a server that was killed", err)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	check("statement on a connection known to be closed", err)
	_, err = pg.Open(t.Context(), s.DSN(), pg.Options{})
	check("socket without server", err)
	_, err = pg.Open(t.Context(), s.TCP(), pg.Options{})
	check("port without server", err)
	_, err = pg.Open(t.Context(), "postgres://u:p@no-such-host.invalid/x", pg.Options{})
	check("host without address", err)

	// A host that accepts and stays silent, as behind a frozen proxy.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	port := strconv.Itoa(silent.Addr().(*net.TCPAddr).Port)
	_, err = pg.Open(t.Context(), "postgres://u:p@127.0.0.1:"+port+"/x?sslmode=disable&connect_timeout=1", pg.Options{})
	check("server that does not answer", err)

	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong, err := pg.WithDatabase(s.DSN(), "", "", "wrong")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = pg.Open(t.Context(), wrong, pg.Options{}); pg.Transient(err) || pg.Code(err) != "28P01" {
		t.Errorf("a wrong password: %v; want a permanent 28P01", err)
	}
}

func TestServerSideTerminationIsTransient(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	victim := connect(t, dsn)
	exec(t, dsn, fmt.Sprintf("SELECT pg_terminate_backend(%d, 10000)", victim.PgConn().PID()))
	if _, err := victim.Exec(t.Context(), "SELECT 1"); !pg.Transient(err) {
		t.Errorf("an ended session: %v is not transient", err)
	}
	pool := open(t, dsn, pg.Options{StatementTimeout: 20 * time.Millisecond})
	if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(60)"); pg.Code(err) != "57014" || !pg.Transient(err) {
		t.Errorf("a statement timeout: %v, want a transient 57014", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Exec(ctx, "SELECT 1"); pg.Transient(err) {
		t.Errorf("what the caller cancelled is transient: %v", err)
	}
}
