package spill

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	lockFile = "lock"
	prefix   = "stream-" // of a Store's folder
)

// folder is the folder of one Store. It is held open: whoever renames or
// replaces the path gets no rows.
type folder struct {
	root *os.Root
	lock *os.File
}

func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Between making a folder and locking it nobody may look for abandoned ones.
	guard, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = guard.Close() }()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	removeAbandoned(dir)
	path, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return nil, err
	}
	f := &folder{}
	if f.root, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	if f.lock, err = f.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(err, f.root.Close())
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.remove())
	}
	return f, nil
}

// removeAbandoned removes the folders of processes that died. What cannot be
// removed, being somebody else's say, is in nobody's way.
func removeAbandoned(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR, 0); err == nil {
			dead := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
			_ = lock.Close()
			if !dead {
				continue
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			continue
		}
		_ = os.RemoveAll(path)
	}
}

// append opens the file for one write and closes it again: a thousand
// transactions must not need a thousand open files.
func (f *folder) append(name string, data []byte, first bool) error {
	flags := os.O_WRONLY | os.O_APPEND
	if first {
		flags |= os.O_CREATE | os.O_EXCL
	}
	file, err := f.root.OpenFile(name, flags, 0o600)
	if err != nil {
		return fmt.Errorf("spill to %s: %w", f.root.Name(), err)
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("spill to %s: %w", f.root.Name(), err)
	}
	return nil
}

// read gives the frames of a file of that size.
func (f *folder) read(name string, size int64, take func(sub uint32, data []byte) error) error {
	file, err := f.root.Open(name)
	if err != nil {
		return fmt.Errorf("read spill in %s: %w", f.root.Name(), err)
	}
	defer func() { _ = file.Close() }()
	return readFrames(bufio.NewReaderSize(file, 256<<10), size, take)
}

// remove lets the lock go last: while it is held nobody else removes.
func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.root.Name()), f.root.Close(), f.lock.Close())
}
