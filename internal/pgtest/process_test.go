package pgtest_test

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pgtest"
)

// printEnv makes [TestChild] print the URL of a database and wait for the end of
// its input.
const printEnv = "CHORUS_TEST_PRINT_DATABASE"

func TestChild(t *testing.T) {
	if os.Getenv(printEnv) == "" {
		t.Skip("runs in a child of other tests")
	}
	println("url " + pgtest.Database(t))
	bufio.NewReader(os.Stdin).ReadByte()
}

// child runs TestChild in a process of its own and returns the URL it printed.
func child(t *testing.T, env ...string) (cmd *exec.Cmd, dsn string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(append(os.Environ(), printEnv+"=1"), env...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "url "); ok {
			return cmd, url
		}
	}
	t.Fatal("the child printed no URL")
	return nil, ""
}

func TestNothingIsLeftOfAKilledTestProcess(t *testing.T) {
	t.Parallel()
	cmd, dsn := child(t, "CHORUS_TEST_POSTGRES=")
	connect(t, dsn) // stays open: the server does not wait for its clients
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(filepath.Dir(u.Query().Get("host"))) // …/run-N/shared/socket
	if !strings.HasPrefix(filepath.Base(folder), "run-") {
		t.Fatalf("%s is not the folder of a test process", folder)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(folder)
		conn, dialErr := pgx.Connect(t.Context(), dsn)
		if dialErr == nil {
			conn.Close(t.Context())
		}
		if os.IsNotExist(err) && dialErr != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("30 s after the process was killed: folder %s: %v; server: %v", folder, err, dialErr)
		}
	}
}

func TestGivenServerIsUsed(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	_, dsn := child(t, "CHORUS_TEST_POSTGRES="+s.TCP())
	given, err := url.Parse(s.TCP())
	if err != nil {
		t.Fatal(err)
	}
	got, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != given.Host || got.Path == given.Path {
		t.Errorf("the database is at %s, want a fresh one on %s", dsn, given.Host)
	}
	connect(t, dsn)
}
