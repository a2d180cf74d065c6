package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/e2e/kafka"
	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/pgserver"
	"chorus/internal/provider/simulated"
)

// patience bounds every wait for a condition. It is long because the machine may be busy with others; no wait lasts longer than its condition.
const patience = 90 * time.Second

// quick are settings that make providers' troubles short. A script may set others.
var quick = []string{
	"CHORUS_NO_SYNC=true", "CHORUS_CALL_TIMEOUT=2s", "CHORUS_CALL_BACKOFF=100ms", "CHORUS_CALL_BACKOFF_CAP=1s",
	"CHORUS_CALL_ASK_AFTER=50ms", "CHORUS_CALL_ASK_CAP=500ms",
}

// system is one script's cluster.
type system struct {
	t        testing.TB
	bin      string
	dir      string // the data folder, and what chorus up prints
	data     string
	port     int
	cmd      *exec.Cmd // chorus up; nil when it is not running
	out      *os.File  // what it prints
	done     chan struct{}
	exit     int              // of the last chorus
	stopping bool             // its end has been asked for
	postgres *pgserver.Server // beside the cluster, which then has none
	kafka    *kafka.Cluster
	kafkaDir string // the data of kafka, which chorus knows nothing of
}

func newCluster(env *testscript.Env, bin string) (*system, error) {
	// Not in the script's own folder, which nobody else may enter: PostgreSQL refuses to run as root and then runs as somebody else.
	dir, err := os.MkdirTemp("", "chorus-e2e-")
	if err != nil {
		return nil, err
	}
	c := &system{t: env.T().(testing.TB), bin: bin, dir: dir, data: filepath.Join(dir, "data")}
	env.Defer(c.clear)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(c.data, 0o755)); err != nil {
		return nil, err
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	env.Setenv("CHORUS_URL", c.front())
	env.Setenv("CHORUS_DATA", c.data)
	env.Setenv("PORT", strconv.Itoa(c.port))
	return c, nil
}

// freePort finds one below those that systems take for outgoing connections, so that it is still free when the cluster starts again.
func freePort() (int, error) {
	for range 100 {
		port := 10_000 + rand.IntN(9_000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}

func (c *system) front() string { return "http://127.0.0.1:" + strconv.Itoa(c.port) }

func cmdUp(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if neg || c.cmd != nil {
		ts.Fatalf("up: want a cluster that is not up; to see one refused, use ! chorus up")
	}
	env := append(append(os.Environ(), quick...), "CHORUS_DATA="+c.data)
	flags, err := c.servers()
	ts.Check(err)
	for _, arg := range args {
		if name, _, is := strings.Cut(arg, "="); is && name == strings.ToUpper(name) && !strings.HasPrefix(name, "-") {
			env = append(env, arg)
			continue
		}
		flags = append(flags, arg)
	}
	ts.Check(c.start(append([]string{"up", "--port", strconv.Itoa(c.port)}, flags...), env))
	began := time.Now()
	ts.Check(c.wait("chorus up", func() (bool, error) {
		text, err := os.ReadFile(c.out.Name())
		return bytes.Contains(text, []byte("chorus is up")), err
	}))
	ts.Logf("up after %s", time.Since(began).Round(10*time.Millisecond))
}

// start runs chorus up.
func (c *system) start(args, env []string) (err error) {
	if c.out, err = os.OpenFile(filepath.Join(c.dir, "up.out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	c.cmd = exec.Command(c.bin, args...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, c.out, c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C for the test is not one for the cluster
	if err := c.cmd.Start(); err != nil {
		c.cmd = nil
		return errors.Join(err, c.out.Close())
	}
	done := make(chan struct{})
	c.done = done
	go func() {
		_ = c.cmd.Wait() // the outcome is in ProcessState
		close(done)
	}()
	return nil
}

func cmdDown(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if neg || len(args) > 1 || c.cmd == nil {
		ts.Fatalf("usage: down [INT|TERM|KILL]; and the cluster must be up")
	}
	sig, name := syscall.SIGINT, "INT"
	if len(args) == 1 {
		name = args[0]
		sig = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[name]
	}
	c.stopping = true
	defer func() { c.stopping = false }()
	ts.Check(c.cmd.Process.Signal(sig))
	ts.Check(c.wait("the end of chorus up", func() (bool, error) {
		select {
		case <-c.done:
			return true, nil
		default:
			return false, nil
		}
	}))
	state := c.cmd.ProcessState
	ts.Check(c.out.Close())
	c.cmd = nil
	if sig != syscall.SIGKILL && !state.Success() {
		ts.Fatalf("chorus up ended with %s after SIG%s", state, name)
	}
	var left []string
	err := c.wait("the end of all processes", func() (bool, error) {
		left = c.processes()
		if sig != syscall.SIGKILL && len(left) > 0 { // an ordered stop leaves nothing behind
			return false, errors.New("processes are left")
		}
		return len(left) == 0, nil
	})
	if err != nil {
		ts.Fatalf("%v: %s", err, strings.Join(left, "; "))
	}
}

// processes finds what still runs of the cluster: by its command line, its environment or its working folder.
func (c *system) processes() []string {
	var found []string
	mine := []byte(c.data)
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if pid := filepath.Base(p); pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(p, "environ"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if len(cmdline) == 0 || bytes.Contains(cmdline, []byte("\x00load\x00")) { // a zombie, or gone; or a tool of the script's
			continue
		}
		if bytes.Contains(cmdline, mine) || bytes.Contains(environ, append([]byte("CHORUS_DATA="), mine...)) || strings.HasPrefix(cwd, c.data) {
			found = append(found, filepath.Base(p)+" "+string(bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '})))
		}
	}
	return found
}

// clear ends the cluster, whatever state the script has left it in, and shows the logs when the script has failed.
func (c *system) clear() {
	if c.t.Failed() {
		c.t.Log(c.logs())
	}
	if c.cmd != nil {
		c.stopping = true
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(30 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
		c.out.Close()
	}
	c.clearKafka()
	err := c.wait("the end of all processes", func() (bool, error) { return len(c.processes()) == 0, nil })
	if err != nil {
		c.t.Errorf("%v: %v", err, c.processes())
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Errorf("remove the data: %v", err)
	}
}

// logs are the last lines of every process.
func (c *system) logs() string {
	const last = 25
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(c.data, "log", "*.log"))
	brokers, _ := filepath.Glob(filepath.Join(c.kafkaDir, "*", "log"))
	files = append(files, brokers...)
	for _, file := range append([]string{filepath.Join(c.dir, "up.out")}, files...) {
		text, _ := os.ReadFile(file)
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(l string) bool {
			return strings.Contains(l, `msg="partition claimed"`) // many, and they say nothing
		})
		fmt.Fprintf(&b, "== %s\n%s\n", filepath.Base(file), strings.Join(lines[max(0, len(lines)-last):], "\n"))
	}
	return b.String()
}

// wait asks until the answer is yes, an error, or patience is used up.
func (c *system) wait(what string, asked func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(patience)
	for {
		yes, err := asked()
		switch {
		case !yes && c.ended():
			return fmt.Errorf("wait for %s: chorus up has ended by itself: %s", what, c.cmd.ProcessState)
		case err != nil:
			return fmt.Errorf("wait for %s: %w", what, err)
		case yes:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s: not within %s", what, patience)
		}
		<-tick.C
	}
}

// ended reports that chorus up is no more, though nobody has asked for its end.
func (c *system) ended() bool {
	if c.cmd == nil || c.stopping {
		return false
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// file says where everything is.
func (c *system) file() (cluster.File, error) { return cluster.ReadFile(c.data) }

func (c *system) address(name string) (string, error) {
	f, err := c.file()
	if err == nil && f.Addresses[name] == "" {
		err = fmt.Errorf("the cluster file has no address of %s", name)
	}
	return f.Addresses[name], err
}

func (c *system) participant(name event.Participant) (inspect.Client, error) {
	address, err := c.address(string(name))
	return inspect.Client{Base: address}, err
}

func (c *system) providers() (*simulated.Client, error) {
	address, err := c.address("providers")
	return simulated.NewClient(address), err
}

func (c *system) supervisor() (cluster.Client, error) {
	f, err := c.file()
	return cluster.Client{URL: f.Control}, err
}

func cmdCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: cluster ACTION NAME ...")
	}
	c := of(ts)
	supervisor, err := c.supervisor()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range args[1:] {
		switch {
		case name == "broker" && c.kafka != nil:
			ts.Check(c.broker(ctx, args[0]))
			continue
		case args[0] == "await":
			ts.Check(c.awaitProcess(ctx, supervisor, name))
			continue
		}
		_, err := supervisor.Do(ctx, name, args[0])
		ts.Check(err)
	}
}

// awaitProcess waits until a process, or each replica of a group, is ready; "all" for everything, and until the front address says that
// an order can be taken.
func (c *system) awaitProcess(ctx context.Context, supervisor cluster.Client, name string) error {
	return c.wait(name+" to be ready", func() (bool, error) {
		all, err := supervisor.Processes(ctx)
		if err != nil {
			return false, err
		}
		mine := slices.DeleteFunc(all, func(s cluster.Status) bool { return name != "all" && s.Name != name && s.Group != name })
		if len(mine) == 0 {
			return false, errors.New("there is no such process")
		}
		if slices.ContainsFunc(mine, func(s cluster.Status) bool { return s.State != cluster.Ready }) {
			return false, nil
		}
		return name != "all" || c.api(ctx, http.MethodGet, "/readyz", nil, nil) == nil, nil
	})
}

func cmdChorus(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := c.tool(ctx, ts, args)
	if ctx.Err() != nil {
		ts.Fatalf("it did not end within two minutes")
	}
	var exit *exec.ExitError
	switch {
	case err == nil && neg:
		ts.Fatalf("unexpected success")
	case errors.As(err, &exit) && neg:
	case err != nil:
		ts.Fatalf("%v", err)
	}
}

// tool runs a command line tool; what it prints is the script's to look at.
func (c *system) tool(ctx context.Context, ts *testscript.TestScript, args []string) error {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Env = append(os.Environ(), "CHORUS_URL="+c.front(), "CHORUS_DATA="+c.data)
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	err := cmd.Run()
	if cmd.ProcessState != nil {
		c.exit = cmd.ProcessState.ExitCode()
	}
	return err
}

func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: exitcode N")
	}
	if was := strconv.Itoa(of(ts).exit); (was == args[0]) == neg {
		ts.Fatalf("the exit code was %s", was)
	}
}
