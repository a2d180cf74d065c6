package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// The supervisor hands every child two open files and tells their numbers by environment.
const (
	parentEnv = "CHORUS_PARENT_FD" // a pipe that ends when the supervisor is gone, however it went
	lockEnv   = "CHORUS_LOCK_FD"   // the lock on the data folder, held until the last child has exited
)

// orphanGrace is how long a child may take to end cleanly after its supervisor is gone. A supervisor that starts anew waits longer than this.
const orphanGrace = 5 * time.Second

// exitOrphaned is the exit code of a child that did not end by itself in time.
const exitOrphaned = 3

// DieWithParent makes this process end when the supervisor that started it is gone: it gets a SIGTERM, as in an ordered stop, and after five
// seconds it exits whatever it does. Without it, kill -9 of the supervisor would leave services running that nothing can stop, on the ports
// and files of the next start. Call it first in main; in a process that no supervisor started it does nothing.
//
// The goroutine it starts lives as long as the process.
func DieWithParent() error {
	if _, err := inherited(lockEnv); err != nil {
		return err
	}
	pipe, err := inherited(parentEnv)
	if err != nil || pipe == nil {
		return err
	}
	go func() {
		var buf [1]byte
		_, _ = pipe.Read(buf[:]) // nothing is ever written: it returns when the other end is closed
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(orphanGrace)
		os.Exit(exitOrphaned)
	}()
	return nil
}

// Tie makes a command that is not started yet end when this process has ended, however it went, provided that the command calls DieWithParent.
// The supervisor ties its processes by itself; this is for others who start some. Call untie when the command has ended.
func Tie(cmd *exec.Cmd) (untie func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("tie a process: %w", err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, read)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", parentEnv, 2+len(cmd.ExtraFiles)))
	return func() {
		read.Close()
		write.Close()
	}, nil
}

// inherited returns the open file that the environment names, nil if it names none. Processes started by this one get neither the file nor
// the variable: they would keep the lock, or read a file of theirs as if it were the pipe.
func inherited(env string) (*os.File, error) {
	text, ok := os.LookupEnv(env)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(env); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 {
		return nil, fmt.Errorf("%s=%q is not the number of an inherited file", env, text)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil { // so that waiting for it takes no thread
		return nil, fmt.Errorf("inherited file %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), env), nil
}
