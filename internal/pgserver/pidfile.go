package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRunning says that the folder is in use by a running server.
var ErrRunning = errors.New("PostgreSQL is already running in this folder")

// poll is how often conditions outside the process are looked at.
const poll = 10 * time.Millisecond

// postmaster is what a server writes to postmaster.pid in its data folder.
type postmaster struct {
	pid    int
	shmID  int    // of the System V segment that all its processes are attached to
	status string // "starting", "ready", "standby", "stopping"
}

// readPostmaster returns the data folder's pid file; false when there is none
// or it is not written yet.
func readPostmaster(data string) (postmaster, bool) {
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	lines := strings.Split(string(raw), "\n")
	var p postmaster
	if p.pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil || p.pid <= 0 {
		return postmaster{}, false
	}
	p.shmID = -1
	if len(lines) > 6 {
		if fields := strings.Fields(lines[6]); len(fields) == 2 {
			if id, err := strconv.Atoi(fields[1]); err == nil {
				p.shmID = id
			}
		}
	}
	if len(lines) > 7 {
		p.status = strings.TrimSpace(lines[7])
	}
	return p, true
}

// alive reports whether a process of this number exists, ours or not.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// attached returns how many processes use the server's shared memory, which
// every one of its processes does. This is the test that PostgreSQL itself
// makes before it starts; 0 also when the segment is gone.
func (p postmaster) attached() int {
	if p.shmID < 0 {
		return 0
	}
	var desc unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(p.shmID, unix.IPC_STAT, &desc); err != nil {
		return 0
	}
	return int(desc.Nattch)
}

// clear waits until no earlier server works on the data folder, and removes the
// pid file it left. A server that is stopping, or whose parent was killed a
// moment ago, gets the time to end. One that stays is [ErrRunning].
func (c Config) clear(ctx context.Context) error {
	const (
		settle = 2 * time.Second  // for a server that shows no sign of ending
		ending = 20 * time.Second // for one that does
	)
	began := time.Now()
	ended := false
	for {
		p, there := readPostmaster(c.data())
		if !there {
			return nil
		}
		running := alive(p.pid) && worksIn(p.pid, c.data())
		waited := time.Since(began)
		switch {
		case running && waited > settle && p.pid == c.started() && !ended:
			// Started from here, and the process that did so is dead, else it
			// would hold the lock.
			if err := syscall.Kill(p.pid, syscall.SIGQUIT); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end the abandoned server %d in %s: %w", p.pid, c.data(), err)
			}
			ended = true
		case running && waited > settle && p.status != "stopping" && !ended,
			running && waited > ending:
			return fmt.Errorf("%w: process %d works on %s", ErrRunning, p.pid, c.data())
		case !running && p.attached() > 0 && waited > ending:
			return fmt.Errorf("sessions of the dead server %d still work on %s", p.pid, c.data())
		case !running && p.attached() == 0:
			// PostgreSQL would remove the file itself, but not when its number
			// now belongs to another process, as after a container's restart.
			err := os.Remove(filepath.Join(c.data(), "postmaster.pid"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove the pid file of the dead server %d: %w", p.pid, err)
			}
			return nil
		case !running:
			endSessions(c.data())
		}
		if err := sleep(ctx, poll); err != nil {
			return fmt.Errorf("wait for the end of the server %d in %s: %w", p.pid, c.data(), err)
		}
	}
}

// clearSockets removes the sockets of dead servers, and the lock files beside them.
// Only servers of this folder put theirs there, and none runs (clear). PostgreSQL
// would remove them itself, but not while a process has the number in the
// lock file, and a killed server keeps its number until somebody reaps it.
func (c Config) clearSockets() error {
	left, err := filepath.Glob(filepath.Join(c.socketDir(), ".s.PGSQL.*"))
	if err != nil {
		return fmt.Errorf("look for sockets of dead servers: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the socket of a dead server: %w", err)
		}
	}
	return nil
}

// endSessions kills what a dead postmaster left. The next one recovers from the
// log whatever state they were in.
func endSessions(data string) {
	for _, pid := range sessions(data) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// lock takes the folder for this process, until the file is closed or the
// process ends. The file holds the number of the postmaster started under it.
func (c Config) lock() (*os.File, error) {
	if err := os.MkdirAll(c.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the folder of PostgreSQL: %w", err)
	}
	path := c.lockFile()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of PostgreSQL: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: another process holds %s", ErrRunning, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

func (c Config) lockFile() string { return filepath.Join(c.Dir, "lock") }

// noteStarted stores the postmaster's number in the locked file.
func noteStarted(lock *os.File, pid int) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

// started returns the last postmaster that was started from here, 0 for none.
func (c Config) started() int {
	raw, err := os.ReadFile(c.lockFile())
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
