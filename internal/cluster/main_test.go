package cluster

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chorus/internal/cluster/dirlock"
)

const (
	roleEnv  = "CHORUS_TEST_ROLE" // what the test binary is when it is started as a process of a cluster
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "service":
		os.Exit(service(os.Args[1:]))
	case "supervisor":
		os.Exit(supervisor(os.Args[1:]))
	case "starter":
		os.Exit(starter(os.Args[1:]))
	}
	os.Exit(2)
}

// service is a child process: it answers on an address and writes what happens to it into a file that it shares with the others.
func service(args []string) int {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	name := flags.String("name", "", "")
	listen := flags.String("listen", "", "")
	events := flags.String("events", "", "")
	die := flags.String("die", "", "say this and exit with 1")
	deaf := flags.Bool("deaf", false, "ignore SIGTERM")
	family := flags.Bool("family", false, "have a child in a session of its own")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := DieWithParent(); err != nil {
		fmt.Println(err)
		return 2
	}
	if *die != "" {
		fmt.Println("first line\n" + *die)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if *deaf {
		ctx = context.Background()
	}
	if *family {
		child := exec.Command("sleep", "1000")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return 2
		}
		note(*events, "child %d", child.Process.Pid)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	note(*events, "start %s", *name)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, *name) }))
	}()
	<-ctx.Done()
	note(*events, "end %s", *name)
	return 0
}

func note(file, format string, args ...any) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, format+"\n", args...); err != nil {
		panic(err)
	}
}

// starter starts a service that is tied to it, says which process that is, and waits to be killed.
func starter(args []string) int {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"=service")
	if _, err := Tie(cmd); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		return 1
	}
	return 0
}

// supervisor runs a cluster of two services in the folder args[0].
func supervisor(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	lock, err := dirlock.Acquire(ctx, args[0], LockPatience)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer lock.Release()
	sup, err := New(slog.New(slog.DiscardHandler), Config{Lock: lock}, serviceList(args[0], args[1:]...))
	if err == nil {
		err = sup.Run(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// serviceList makes services a, b, c … on these addresses, each waiting for the one before it.
func serviceList(dir string, addrs ...string) (list []Process) {
	for i, addr := range addrs {
		p := newService(dir, string(rune('a'+i)), addr)
		if i > 0 {
			p.After = []string{list[i-1].Name}
		}
		list = append(list, p)
	}
	return list
}

func newService(dir, name, addr string, args ...string) Process {
	return Process{
		Name:  name,
		Args:  append([]string{"-name", name, "-listen", addr, "-events", eventsFile(dir)}, args...),
		Env:   []string{roleEnv + "=service"},
		Ready: "http://" + addr + "/readyz",
	}
}

func eventsFile(dir string) string { return dir + "/events" }

func events(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(eventsFile(dir))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(text), " ", "-"))
}

// rig is a supervisor in this process, with real children.
type rig struct {
	t      *testing.T
	dir    string
	sup    *Supervisor
	client Client
	stop   func() error // orders the stop and returns what Run returned
}

func newRig(t *testing.T, dir string, procs []Process, change ...func(*Config)) *rig {
	t.Helper()
	lock, err := dirlock.Acquire(t.Context(), dir, LockPatience)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Lock: lock}
	for _, c := range change {
		c(&cfg)
	}
	sup, err := New(slog.New(slog.NewTextHandler(t.Output(), nil)), cfg, procs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- sup.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		err := <-ran
		if e := lock.Release(); e != nil {
			t.Error(e)
		}
		return err
	})
	t.Cleanup(func() { _ = stop() })
	r := &rig{t: t, dir: dir, sup: sup, stop: stop}
	eventually(t, "cluster file", func() bool {
		f, err := ReadFile(dir)
		r.client.URL = f.Control
		return err == nil
	})
	return r
}

// awaitReady waits until all have been ready.
func (r *rig) awaitReady() {
	r.t.Helper()
	select {
	case <-r.sup.Ready():
	case <-time.After(patience):
		r.t.Fatalf("not ready: %+v", r.sup.Processes())
	}
}

func (r *rig) get(name string) Status {
	r.t.Helper()
	list, err := r.client.Processes(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	r.t.Fatalf("no process %s in %+v", name, list)
	return Status{}
}

func (r *rig) do(name, action string) []Status {
	r.t.Helper()
	states, err := r.client.Do(r.t.Context(), name, action)
	if err != nil {
		r.t.Fatal(err)
	}
	return states
}

func (r *rig) awaitState(name string, cond func(Status) bool) Status {
	r.t.Helper()
	var s Status
	eventually(r.t, name, func() bool { s = r.get(name); return cond(s) })
	return s
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// responds says whether a service answers there.
func responds(addr string) bool {
	client := http.Client{Timeout: 200 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil
}

// addresses are free loopback addresses, apart from those of other tests.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var names, addrs []string
	for i := range n {
		names = append(names, fmt.Sprint("service ", i))
	}
	ports, err := Ports(t.TempDir(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		addrs = append(addrs, fmt.Sprint("127.0.0.1:", ports[name]))
	}
	return addrs
}
