package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxLog is the size in bytes from which a log file is set aside (as NAME.log.1) when its process starts.
const maxLog = 10 << 20

// thrifty is what the processes get unless the environment says otherwise. Their heaps are a few megabytes, which Go would collect dozens of times a
// second under load, a fifth of all they do; so they may grow to five times what is in use, not twice. And a dozen processes share the machine's
// processors with their database: each gets half of them, because threads that look for work which another process's are doing cost all of them time.
func thrifty() []string {
	return []string{"GOGC=400", fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.GOMAXPROCS(0)/2))}
}

// child is one run of a process.
type child struct {
	cmd     *exec.Cmd
	pid     int
	started time.Time
	exited  chan struct{} // closed when the process is gone and reaped
	ready   chan struct{} // closed when it answered its readiness check

	cancelProbe context.CancelFunc
	wg          sync.WaitGroup // the waiter and the prober
}

// spawner holds what all children share.
type spawner struct {
	executable string
	logs       string   // folder of the log files
	pipe, lock *os.File // inherited by each child, see DieWithParent
	http       *http.Client
}

func (s *spawner) logFile(name string) string { return filepath.Join(s.logs, name+".log") }

// spawn starts the process with its output in its own log file. The file is written by the child itself, so that its last words are kept even when
// the supervisor dies first. The child leads a process group of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops
// the children in order.
func (s *spawner) spawn(p Process) (*child, error) {
	out, err := openLog(s.logFile(p.Name))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(s.executable, p.Args...)
	cmd.Env = slices.Concat(thrifty(), os.Environ(), p.Env, []string{parentEnv + "=3", lockEnv + "=4"})
	cmd.ExtraFiles = []*os.File{s.pipe, s.lock} // from 3 on
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start process %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &child{
		cmd: cmd, pid: cmd.Process.Pid, started: time.Now(),
		exited: make(chan struct{}), ready: make(chan struct{}), cancelProbe: cancel,
	}
	c.wg.Go(func() {
		_ = cmd.Wait() // the outcome is in ProcessState
		close(c.exited)
	})
	c.wg.Go(func() {
		if probe(ctx, s.http, p.Ready) {
			close(c.ready)
		}
	})
	return c, nil
}

// stop asks the process to end, and kills it with all its descendants when it has not after grace. It is woken first if it is frozen.
func (c *child) stop(grace time.Duration) (killed bool) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		c.signal(syscall.SIGKILL)
		killed = true
	}
	c.finish()
	return killed
}

// signal reaches the process, its group and its descendants. PostgreSQL's backends are no members of the group.
func (c *child) signal(sig syscall.Signal) {
	select {
	case <-c.exited: // its id may be somebody else's by now
	default:
		signalTree(c.pid, sig)
	}
}

// finish waits for the end and removes what the process left in its group: a program whose wrapper was killed from outside would otherwise
// still hold the files and ports that the next run needs. The group's id cannot be given to another process while it has members.
func (c *child) finish() {
	<-c.exited
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.cancelProbe()
	c.wg.Wait()
}

// outcome says how it ended: "exit status 1", "signal: killed".
func (c *child) outcome() string { return c.cmd.ProcessState.String() }

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set full log aside: %w", err)
		}
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return out, nil
}

// lastLine returns the last line of a log, "" when there is none: mostly it says why the process died.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(info.Size(), 2048))
	n, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	text := strings.TrimSpace(string(buf[:n]))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
