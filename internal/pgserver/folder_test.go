package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestSecondStartOnLiveFolder(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	if err := s.Start(within(t)); !errors.Is(err, ErrRunning) {
		t.Errorf("Start of a running server: %v", err)
	}
	_, err := Start(within(t), Config{Dir: s.Dir()})
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), s.Dir()) {
		t.Errorf("a second server in the folder: %v; want %q with the folder", err, ErrRunning)
	}
	do(t, s.DSN(), "SELECT 1")
}

// Somebody ran pg_ctl on the folder: that server is not ours to end.
func TestStartLeavesForeignServerAlone(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	write(t, s.cfg.lockFile(), "", 0o600)
	s.release()
	_, err := Start(within(t), Config{Dir: s.Dir()})
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "process "+strconv.Itoa(s.PID())) {
		t.Errorf("start beside a foreign server: %v; want %q with its process", err, ErrRunning)
	}
	do(t, s.DSN(), "SELECT 1")
}

// Where the kernel does not end the server with its parent.
func TestStartEndsAbandonedServer(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	do(t, s.DSN(), "CREATE TABLE kept (n int)", "INSERT INTO kept (n) VALUES (1)")
	s.release() // as the kernel does when the process that started it dies
	next := begin(t, Config{Dir: s.Dir()})
	if !s.last().ended() {
		t.Error("the abandoned server still runs")
	}
	if n := count(t, next.DSN(), "kept"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// runEnv makes the test binary run a server in the folder it holds.
const runEnv = "CHORUS_TEST_RUN_POSTGRES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runEnv); dir != "" {
		if err := Run(context.Background(), slog.New(slog.DiscardHandler), Config{Dir: dir, Port: 0}); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The process that runs the server is killed and started again at once, as the
// supervisor does.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), runEnv+"="+cfg.Dir)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	var first postmaster
	eventually(t, "the child's server is ready", func() bool {
		first, _ = readPostmaster(cfg.data())
		return first.status == "ready"
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	s := begin(t, cfg)
	if s.PID() == first.pid || worksIn(first.pid, cfg.data()) {
		t.Errorf("the first server, process %d, still works on the folder", first.pid)
	}
	do(t, s.DSN(), "SELECT 1")
}

// After a container's restart the number in the pid file belongs to any process,
// even one of the same user, whom PostgreSQL itself takes for the server.
func TestStalePidFileOfReusedNumber(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{})
	raw, err := os.ReadFile(filepath.Join(s.cfg.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	other, err := s.run.command(within(t), nil, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	lines := strings.SplitN(string(raw), "\n", 2)
	stale := strconv.Itoa(other.Process.Pid) + "\n" + lines[1]
	write(t, filepath.Join(s.cfg.data(), "postmaster.pid"), stale, 0o600)
	write(t, filepath.Join(s.cfg.socketDir(), fmt.Sprintf(".s.PGSQL.%d.lock", s.cfg.Port)), stale, 0o600)
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if !alive(other.Process.Pid) {
		t.Error("the innocent process was ended")
	}
}

// A crash in initdb leaves a folder that is not a cluster.
func TestHalfMadeClusterIsMadeAnew(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	half := cfg.data() + ".half"
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(half, "PG_VERSION"), "15\n", 0o600)
	write(t, cfg.passwordFile(), "of the first try\n", 0o600)
	do(t, begin(t, cfg).DSN(), "SELECT 1")
}

func TestTemplateIsCopied(t *testing.T) {
	t.Parallel()
	template := t.TempDir()
	for range 2 { // the second finds it made
		if err := Init(within(t), Config{Dir: template, NoSync: true}); err != nil {
			t.Fatal(err)
		}
	}
	a := begin(t, Config{Template: template, NoSync: true})
	b := begin(t, Config{Template: template})
	do(t, a.DSN(), "CREATE TABLE of_a (n int)")
	var there bool
	if err := connect(t, b.DSN()).QueryRow(within(t), "SELECT to_regclass('of_a') IS NOT NULL").Scan(&there); err != nil || there {
		t.Errorf("the copies are not apart: %v, %v", there, err)
	}
	var fsync [2]string
	for i, s := range []*Server{a, b} {
		if err := connect(t, s.DSN()).QueryRow(within(t), "SHOW fsync").Scan(&fsync[i]); err != nil {
			t.Fatal(err)
		}
	}
	if fsync != [2]string{"off", "on"} {
		t.Errorf("fsync is %v: want off with NoSync, and on although the template was made without", fsync)
	}
}

// A deep folder: the socket's path would be too long for the system.
func TestDeepFolder(t *testing.T) {
	t.Parallel()
	s := begin(t, Config{Dir: filepath.Join(t.TempDir(), strings.Repeat("deep/", 20))})
	if inside := strings.HasPrefix(s.cfg.socketDir(), s.Dir()); inside {
		t.Fatalf("the socket is in the folder of %d bytes", len(s.Dir()))
	}
	t.Cleanup(func() { os.RemoveAll(s.cfg.socketDir()) })
	do(t, s.DSN(), "SELECT 1")
}

// Made by a user, later run by root: PostgreSQL insists on the owner.
func TestRootRunsTheClusterAsItsOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run another user's cluster")
	}
	cfg := Config{Dir: t.TempDir()}
	if err := Init(within(t), cfg); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", "12345:12345", cfg.data()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	do(t, begin(t, cfg).DSN(), "SELECT 1")
}

func TestSocketFolderOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a folder of somebody else")
	}
	run, err := Config{Dir: t.TempDir()}.account()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "socket")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := run.mkdir(dir); err == nil {
		t.Error("a stranger's folder was taken over")
	}
	if err := os.Symlink(t.TempDir(), dir+".link"); err != nil {
		t.Fatal(err)
	}
	if err := run.mkdir(dir + ".link"); err == nil {
		t.Error("a link was taken for a folder")
	}
}

func TestRunEndsWithContextAndWithServer(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	log := slog.New(slog.DiscardHandler)
	last := 0 // a killed server's pid file still says that it is ready
	start := func(ctx context.Context) (ended chan error, pid int) {
		ended = make(chan error, 1)
		go func() { ended <- Run(ctx, log, cfg) }()
		eventually(t, "Run's server is ready", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("Run ended at once: %v", err)
			default:
			}
			p, _ := readPostmaster(cfg.data())
			pid = p.pid
			return pid != last && p.status == "ready"
		})
		last = pid
		return ended, pid
	}
	ctx, cancel := context.WithCancel(within(t))
	ended, pid := start(ctx)
	cancel()
	if err := <-ended; err != nil || alive(pid) {
		t.Errorf("Run ended with %v, process %d alive %v; want nil and gone", err, pid, alive(pid))
	}
	ended, pid = start(within(t))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Run ended with %v, want that its server was killed", err)
	}
	// Ended by somebody in an orderly way: still not what Run is for.
	ended, pid = start(within(t))
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("Run ended with nil although its context did not end")
	}
}
