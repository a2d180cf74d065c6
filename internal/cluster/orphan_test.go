package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// startSupervisor runs a supervisor of two services in a process of its own.
func startSupervisor(t *testing.T, dir string, addr []string) (*exec.Cmd, File) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{dir}, addr...)...)
	cmd.Env = append(os.Environ(), roleEnv+"=supervisor")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	var file File
	eventually(t, "cluster ready", func() bool {
		var err error
		file, err = ReadFile(dir)
		if err != nil || file.PID != cmd.Process.Pid {
			return false
		}
		for _, p := range file.Processes {
			if p.State != Ready {
				return false
			}
		}
		return true
	})
	return cmd, file
}

func TestChildrenDieWithAKilledSupervisor(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 2)
	cmd, file := startSupervisor(t, dir, addr)
	// A frozen child cannot notice anything by itself.
	if _, err := (Client{URL: file.Control}).Do(t.Context(), "b", ActionFreeze); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, p := range file.Processes {
		eventually(t, p.Name+" gone", func() bool { return gone(p.PID) || zombie(p.PID) })
	}
	if got := strings.Join(events(t, dir), " "); !strings.Contains(got, "end-a") {
		t.Errorf("a did not end in order: %v", got)
	}

	// The next supervisor finds folder and ports free.
	next, _ := startSupervisor(t, dir, addr)
	if err := next.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := next.Wait(); err != nil {
		t.Errorf("ordered stop: %v", err)
	}
}

// TestTiedProcessDiesWithItsStarter: kill -9 of whoever started it leaves nothing behind.
func TestTiedProcessDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)[0]
	cmd := exec.Command(os.Args[0], newService(dir, "tied", addr).Args...)
	cmd.Env = append(os.Environ(), roleEnv+"=starter")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscan(out, &pid)
	eventually(t, "service", func() bool { return responds(addr) })
	if e := cmd.Process.Kill(); e != nil || err != nil {
		t.Fatal(e, err)
	}
	_ = cmd.Wait()
	eventually(t, "tied process gone", func() bool { return gone(pid) || zombie(pid) })
	if got := strings.Join(events(t, dir), " "); !strings.Contains(got, "end-tied") {
		t.Errorf("it did not end in order: %v", got)
	}
}

// zombie: where nobody reaps orphans (a container without init), a dead process keeps its id.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat))
	return len(f) > 2 && f[2] == "Z"
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 2)
	first, file := startSupervisor(t, dir, addr)
	second := exec.Command(os.Args[0], append([]string{dir}, addr...)...)
	second.Env = append(os.Environ(), roleEnv+"=supervisor")
	out, err := second.Output()
	if want := fmt.Sprintf("in use by process %d", first.Process.Pid); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("second supervisor: %v, %q; want %q", err, out, want)
	}
	if _, err := (Client{URL: file.Control}).Processes(t.Context()); err != nil {
		t.Errorf("the first supervisor was disturbed: %v", err)
	}
}
