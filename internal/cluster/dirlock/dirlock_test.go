package dirlock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestSecondOwnerIsToldWhoHoldsTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Acquire(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(t.Context(), dir, time.Hour) // a living owner is not waited for
	var held *HeldError
	if !errors.As(err, &held) || held.PID != os.Getpid() || !held.Alive {
		t.Fatalf("second owner: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := Acquire(t.Context(), dir, 0)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}

// orphan leaves a child that inherited the lock of an owner which is dead: its id in the file is one that no process has.
func orphan(t *testing.T, dir string, lifetime string) {
	t.Helper()
	lock, err := Acquire(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", lifetime)
	child.ExtraFiles = []*os.File{lock.File()}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if _, err := lock.File().WriteAt([]byte("2000000000\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestChildrenOfADeadOwnerAreWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	orphan(t, dir, "0.3")
	lock, err := Acquire(t.Context(), dir, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestChildrenThatDoNotEndAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	orphan(t, dir, "1000")
	_, err := Acquire(t.Context(), dir, 100*time.Millisecond)
	var held *HeldError
	if !errors.As(err, &held) || held.PID != 2000000000 || held.Alive {
		t.Errorf("got %v", err)
	}
}

func TestEmptyKeepsTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Acquire(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := lock.Empty(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != fileName {
		t.Errorf("left: %v, %v", entries, err)
	}
	if _, err := Acquire(t.Context(), dir, 0); err == nil {
		t.Error("the folder is no longer locked")
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}
