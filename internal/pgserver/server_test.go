package pgserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestSettingsAndState(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{Settings: map[string]string{"max_connections": "50", "log_line_prefix": "it's %p "}})
	settings := map[string]string{}
	rows, err := connect(t, s.DSN()).Query(within(t), "SELECT name, current_setting(name) FROM pg_settings")
	if err != nil {
		t.Fatal(err)
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { settings[name] = value; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"wal_level": "logical", "synchronous_commit": "on", "fsync": "on", "full_page_writes": "on",
		"listen_addresses": "127.0.0.1", "server_encoding": "UTF8", "lc_collate": "C",
		"wal_sender_timeout": "5s", "idle_in_transaction_session_timeout": "10s", "max_slot_wal_keep_size": "4GB",
		"max_connections": "50", "log_line_prefix": "it's %p ",
	}
	for name, value := range want {
		if settings["lc_collate"] == "" {
			delete(settings, "lc_collate") // no setting since version 16
			if name == "lc_collate" {
				continue
			}
		}
		if settings[name] != value {
			t.Errorf("%s is %q, want %q", name, settings[name], value)
		}
	}

	do(t, s.DSN(), "CREATE TABLE kept (n int)", "INSERT INTO kept (n) VALUES (1)")
	dsn, pid := s.DSN(), s.PID()
	if err := s.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if s.DSN() != dsn || s.PID() == pid {
		t.Errorf("started again: %s process %d, before %s process %d", s.DSN(), s.PID(), dsn, pid)
	}
	if n := count(t, s.TCP(), "kept"); n != 1 {
		t.Errorf("%d rows after a restart, want 1", n)
	}
}

func TestPasswordIsRequiredAndPrivate(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	for _, dsn := range []string{s.DSN(), s.TCP()} {
		wrong := strings.Replace(dsn, "://"+Superuser+":", "://"+Superuser+":x", 1)
		conn, err := pgx.Connect(within(t), wrong)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "28P01" {
			t.Errorf("a wrong password: %v, %v; want SQLSTATE 28P01", conn, err)
		}
	}
	info, err := os.Stat(s.cfg.passwordFile())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the password's file has mode %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), "password.*")); len(left) > 0 {
		t.Errorf("initdb's copy of the password is still there: %v", left)
	}
	// What another process reads from the folder.
	other := Config{Dir: s.Dir(), Port: s.cfg.Port}
	dsn, err := other.DSN()
	if diff := cmp.Diff(s.DSN(), dsn); err != nil || diff != "" {
		t.Errorf("DSN from the folder: %v %s", err, diff)
	}
}

// kill -9 of the postmaster alone, as an operator or the OOM killer does it: a
// session is busy computing and never notices.
func TestRestartAfterPostmasterIsKilled(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	do(t, s.DSN(), "CREATE TABLE kept (n int)")
	busy := connect(t, s.DSN())
	running := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "DO $$ BEGIN LOOP END LOOP; END $$")
		running <- err
	}()
	watch := connect(t, s.DSN())
	eventually(t, "the session is busy", func() bool {
		var active bool
		err := watch.QueryRow(within(t), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state = 'active')", busy.PgConn().PID()).Scan(&active)
		if err != nil {
			t.Fatal(err)
		}
		return active
	})
	do(t, s.DSN(), "INSERT INTO kept (n) VALUES (1)")
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err is %v, want that it was killed", err)
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s.DSN(), "kept"); n != 1 {
		t.Errorf("%d rows after the crash, want the 1 committed", n)
	}
	<-running
}

func TestKillEndsSessionsToo(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	do(t, s.DSN(), "CREATE TABLE kept (n int)", "INSERT INTO kept (n) VALUES (1)")
	open := connect(t, s.DSN())
	file, _ := readPostmaster(s.cfg.data())
	if file.attached() == 0 {
		t.Fatal("nobody is attached to the running server's memory: the test would prove nothing")
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := file.attached(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if _, err := open.Exec(within(t), "SELECT 1"); err == nil {
		t.Error("a session outlived Kill")
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s.DSN(), "kept"); n != 1 {
		t.Errorf("%d rows after the crash, want 1", n)
	}
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	// A frozen process does not shut down.
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if alive(s.PID()) {
		t.Error("the server is still there")
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Start(within(t), Config{Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil {
		s.Kill()
		t.Fatal("started on a port that is taken")
	}
	if !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("the error does not show what the server logged: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"no folder":             {},
		"port too large":        {Dir: "x", Port: 70000},
		"setting of two lines":  {Dir: "x", Settings: map[string]string{"a": "b\nfsync = off"}},
		"setting without name":  {Dir: "x", Settings: map[string]string{"": "b"}},
		"programs that are not": {Dir: t.TempDir(), Bin: t.TempDir()},
	} {
		if s, err := Start(within(t), cfg); err == nil {
			s.Kill()
			t.Errorf("%s: accepted", name)
		}
	}
}
