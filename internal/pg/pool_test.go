package pg_test

import (
	"strings"
	"testing"
	"time"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func TestOpenSetsTimeoutsAndName(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	pool := open(t, dsn, pg.Options{Name: "orders", MaxConns: 3, StatementTimeout: 1500 * time.Millisecond})
	var got [3]string
	err := pool.QueryRow(t.Context(), `
		SELECT current_setting('application_name'), current_setting('statement_timeout'),
		       current_setting('idle_in_transaction_session_timeout')`).Scan(&got[0], &got[1], &got[2])
	if err != nil {
		t.Fatal(err)
	}
	if want := [3]string{"orders", "1500ms", "10s"}; got != want {
		t.Errorf("settings are %q, want %q", got, want)
	}
	if n := pool.Config().MaxConns; n != 3 {
		t.Errorf("MaxConns is %d, want 3", n)
	}
}

func TestDSNWinsOverOptions(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t) + "&statement_timeout=7000&pool_max_conns=2"
	pool := open(t, dsn, pg.Options{StatementTimeout: time.Second})
	var got string
	if err := pool.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != "7s" || pool.Config().MaxConns != 2 {
		t.Errorf("statement_timeout %s and %d connections, want those of the URL", got, pool.Config().MaxConns)
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ dsn, db, user, password, want string }{
		{"postgres://a:b@h:1/x?sslmode=disable", "y", "", "", "postgres://a:b@h:1/y?sslmode=disable"},
		{"postgres://a:b@h:1/x", "y", "u", "p@:/", "postgres://u:p%40%3A%2F@h:1/y"},
		{"postgres://a:b@/x?host=%2Ftmp", "", "u", "", "postgres://u:b@/x?host=%2Ftmp"},
		{"postgresql://h", "y", "u", "p", "postgresql://u:p@h/y"},
	} {
		got, err := pg.WithDatabase(test.dsn, test.db, test.user, test.password)
		if err != nil || got != test.want {
			t.Errorf("WithDatabase(%q, %q, %q, %q) = %q, %v; want %q", test.dsn, test.db, test.user, test.password, got, err, test.want)
		}
	}
	for _, bad := range []string{"host=h password=secret", "postgres://u:secret@h:port/x", "mysql://u:secret@h/x"} {
		_, err := pg.WithDatabase(bad, "y", "", "")
		if err == nil {
			t.Errorf("WithDatabase(%q) was accepted", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}
