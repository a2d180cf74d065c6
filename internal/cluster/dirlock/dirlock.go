// Package dirlock makes one process the owner of a data folder.
//
// It stores one file, DIR/lock, that holds the owner's process id as text; the kernel's lock on that file (flock), not its presence, is what
// counts, so a crash leaves nothing to clean up. Child processes may inherit the locked file: the folder then stays locked until the last of
// them is gone, even when the owner was killed with -9. That is what keeps a new cluster from opening the data files of an old broker that is
// still closing them.
package dirlock

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
)

const fileName = "lock"

// poll is how often Acquire looks again while the rest of an earlier run ends.
const poll = 50 * time.Millisecond

// Lock is the ownership of one folder.
type Lock struct {
	dir  string
	file *os.File
}

// HeldError says who owns the folder.
type HeldError struct {
	Dir   string
	PID   int  // as written by the owner; 0 when it could not be read
	Alive bool // false: the owner is dead, but children of it still run
}

func (e *HeldError) Error() string {
	if e.Alive {
		return fmt.Sprintf("folder %s is in use by process %d", e.Dir, e.PID)
	}
	return fmt.Sprintf("folder %s is still in use by child processes of process %d, which is gone", e.Dir, e.PID)
}

// Acquire creates dir if needed and locks it. A living owner is refused at once with a *HeldError. Where only children of a dead owner are
// left, they are ending by themselves, and Acquire waits up to patience for them.
func Acquire(ctx context.Context, dir string, patience time.Duration) (*Lock, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve folder %s: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("create folder %s: %w", abs, err)
	}
	// os.OpenFile sets close-on-exec: only a process that is handed the file explicitly (File) keeps the lock.
	file, err := os.OpenFile(filepath.Join(abs, fileName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := flock(ctx, file, abs, patience); err != nil {
		file.Close()
		return nil, err
	}
	if err := writePID(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("write process id to %s: %w", file.Name(), err)
	}
	return &Lock{dir: abs, file: file}, nil
}

func flock(ctx context.Context, file *os.File, dir string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		held := &HeldError{Dir: dir, PID: readPID(file)}
		if held.Alive = alive(held.PID); held.Alive {
			return held
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return held
		}
	}
}

// Dir is the absolute path of the locked folder.
func (l *Lock) Dir() string { return l.dir }

// File is the locked file. A process that inherits it keeps the folder locked until it exits.
func (l *Lock) File() *os.File { return l.file }

// Release gives the folder up. Children that inherited the lock keep it.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release lock of %s: %w", l.dir, err)
	}
	return nil
}

// Empty deletes everything in the folder but the lock itself. Deleting that too would let another process create and lock a second file of
// the same name while this one believes it owns the folder.
func (l *Lock) Empty() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list folder %s: %w", l.dir, err)
	}
	for _, e := range entries {
		if e.Name() == fileName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(l.dir, e.Name())); err != nil {
			return fmt.Errorf("empty folder %s: %w", l.dir, err)
		}
	}
	return nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// readPID may run between the owner's lock and its write, and then finds the id of the owner before it, or nothing; both are dead, so the
// caller looks again.
func readPID(f *os.File) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// alive treats a process that we may not signal (EPERM) as alive.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
