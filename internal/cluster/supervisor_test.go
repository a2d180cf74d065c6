package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrderOfStartAndStop(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 3)
	var progress []string
	rig := newRig(t, dir, serviceList(dir, addr...), func(c *Config) {
		c.Addresses = map[string]string{"front": "http://" + addr[2]}
		c.Progress = func(s Status, ready, total int) {
			if s.State == Ready {
				progress = append(progress, fmt.Sprintf("%s %d/%d", s.Name, ready, total))
			}
		}
	})
	rig.awaitReady()
	file, err := ReadFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if file.PID != os.Getpid() || file.Addresses["front"] != "http://"+addr[2] || file.Processes[2].PID != rig.get("c").PID {
		t.Errorf("cluster file: %+v", file)
	}
	if err := rig.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	want := []string{"start-a", "start-b", "start-c", "end-c", "end-b", "end-a"}
	if diff := cmp.Diff(want, events(t, dir)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 1/3", "b 2/3", "c 3/3"}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if _, err := ReadFile(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster file is left: %v", err)
	}
}

func TestKilledProcessIsRestarted(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 2)
	rig := newRig(t, dir, serviceList(dir, addr...))
	rig.awaitReady()
	for n, kill := range []func(pid int){
		func(pid int) { rig.do("a", ActionKill) },
		func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }, // by somebody else
	} {
		before := rig.get("a")
		kill(before.PID)
		after := rig.awaitState("a", func(s Status) bool { return s.State == Ready && s.PID != before.PID })
		if after.Restarts != n+1 || after.LastExit != "signal: killed" || !gone(before.PID) || !responds(addr[0]) {
			t.Errorf("after the kill: %+v", after)
		}
	}
	if b := rig.get("b"); b.Restarts != 0 || b.State != Ready {
		t.Errorf("the other process: %+v", b)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)
	rig := newRig(t, dir, serviceList(dir, addr...))
	rig.awaitReady()
	before := rig.get("a")
	if s := rig.do("a", ActionFreeze); s[0].State != Frozen || responds(addr[0]) {
		t.Errorf("frozen process: %+v, answers: %v", s, responds(addr[0]))
	}
	if _, err := rig.client.Do(t.Context(), "a", ActionFreeze); err == nil {
		t.Error("frozen twice")
	}
	rig.do("a", ActionThaw)
	after := rig.awaitState("a", func(s Status) bool { return s.State == Ready })
	if after.PID != before.PID || after.Restarts != 0 || !responds(addr[0]) {
		t.Errorf("thawed process: %+v, before %+v", after, before)
	}
	rig.do("a", ActionFreeze)
	start := time.Now()
	if err := rig.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took >= defaultGrace {
		t.Errorf("a frozen process took %v to stop", took)
	}
	if got := events(t, dir); !slices.Contains(got, "end-a") {
		t.Errorf("a frozen process was not stopped in order: %v", got)
	}
}

// PostgreSQL's backends are in sessions of their own: killing or freezing the database must reach them.
func TestDescendantsShareTheFate(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)
	rig := newRig(t, dir, []Process{newService(dir, "family", addr[0], "-family")})
	rig.awaitReady()
	var child int
	if _, err := fmt.Sscanf(events(t, dir)[0], "child-%d", &child); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		f := strings.Fields(string(stat))
		if len(f) < 3 {
			return "none"
		}
		return f[2]
	}
	if state() == "none" {
		t.Skip("this system has no /proc")
	}
	rig.do("family", ActionFreeze)
	eventually(t, "child frozen", func() bool { return state() == "T" })
	rig.do("family", ActionThaw)
	eventually(t, "child thawed", func() bool { return state() == "S" })
	rig.do("family", ActionKill)
	eventually(t, "child killed", func() bool { s := state(); return s == "none" || s == "Z" })
}

func TestStopStartRestart(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 4)
	replicas := Replicate(newService(dir, "billing", addr[0]), 3, func(n int, p *Process) {
		own := newService(dir, p.Name, addr[n-1])
		p.Args, p.Ready = own.Args, own.Ready
	})
	last := newService(dir, "last", addr[3])
	last.After = []string{"billing"}
	rig := newRig(t, dir, append(replicas, last))
	rig.awaitReady()
	if got := events(t, dir); got[3] != "start-last" {
		t.Errorf("started before all replicas were ready: %v", got)
	}

	before := rig.get("billing-2")
	if s := rig.do("billing-2", ActionStop); s[0].State != Stopped || s[0].PID != 0 || !gone(before.PID) || responds(addr[1]) {
		t.Errorf("stopped: %+v", s)
	}
	if _, err := rig.client.Do(t.Context(), "billing-2", ActionKill); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("kill of a stopped process: %v", err)
	}
	rig.do("billing-2", ActionStart)
	rig.awaitState("billing-2", func(s Status) bool { return s.State == Ready })
	if _, err := rig.client.Do(t.Context(), "billing-2", ActionStart); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("second start: %v", err)
	}

	pids := map[int]bool{}
	for _, s := range rig.do("billing", ActionRestart) {
		pids[s.PID] = true
	}
	for _, name := range []string{"billing-1", "billing-2", "billing-3"} {
		s := rig.awaitState(name, func(s Status) bool { return s.State == Ready })
		if !pids[s.PID] || s.LastExit != "exit status 0" {
			t.Errorf("after restart of the group: %+v", s)
		}
	}
	if s := rig.get("last"); s.Restarts != 0 {
		t.Errorf("restart of a group reached another process: %+v", s)
	}
}

// TestRestartThatCouldNotStartIsRefused: the old process goes on.
func TestRestartThatCouldNotStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newService(dir, "billing", addresses(t, 1)[0])
	p.Check = func() error { return errors.New("providers.yaml:3:5: unknown key") }
	rig := newRig(t, dir, []Process{p})
	rig.awaitReady()
	before := rig.get("billing")
	if _, err := rig.client.Do(t.Context(), "billing", ActionRestart); err == nil || !strings.Contains(err.Error(), "3:5: unknown key") {
		t.Errorf("restart: %v", err)
	}
	if after := rig.get("billing"); after.PID != before.PID || after.State != Ready {
		t.Errorf("after a refused restart: %+v", after)
	}
}

func TestDeafProcessIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)
	rig := newRig(t, dir, []Process{newService(dir, "deaf", addr[0], "-deaf")}, func(c *Config) { c.Grace = 200 * time.Millisecond })
	rig.awaitReady()
	pid := rig.get("deaf").PID
	if s := rig.do("deaf", ActionStop); s[0].LastExit != "signal: killed" || !gone(pid) {
		t.Errorf("%+v", s)
	}
}

func TestStartThatCannotSucceed(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 2)
	bad := newService(dir, "bad", addr[0], "-die", "no such folder")
	next := newService(dir, "next", addr[1])
	next.After = []string{"bad"}
	rig := newRig(t, dir, []Process{bad, next})
	eventually(t, "the supervisor gives up", func() bool { _, err := ReadFile(dir); return err != nil })
	err := rig.stop()
	log := filepath.Join(dir, "log", "bad.log")
	for _, want := range []string{"bad", "exit status 1", "no such folder", log} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if got := events(t, dir); len(got) != 0 {
		t.Errorf("the next process was started: %v", got)
	}
	text, err := os.ReadFile(log)
	if n := strings.Count(string(text), "no such folder"); err != nil || n != startDeaths {
		t.Errorf("log has the output of %d runs, want %d: %v", n, startDeaths, err)
	}
}

func TestFullLogIsSetAside(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)
	log := filepath.Join(dir, "log", "a.log")
	if err := os.Mkdir(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, make([]byte, maxLog+1), 0o644); err != nil {
		t.Fatal(err)
	}
	rig := newRig(t, dir, serviceList(dir, addr...))
	rig.awaitReady()
	for path, want := range map[string]bool{log: false, log + ".1": true} {
		info, err := os.Stat(path)
		if err != nil || (info.Size() > maxLog) != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
