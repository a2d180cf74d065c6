package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel end the program when the thread that started
// it ends, so the caller keeps its thread until the program is gone. SIGQUIT is
// PostgreSQL's immediate shutdown: it takes milliseconds, and a supervisor that
// starts again at once finds the folder free.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// passBlocked lets a program of an unprivileged user pass folders that are closed
// to it, typically /root, with one capability and no other power of root. It
// reports whether this process may give one. CAP_DAC_READ_SEARCH is
// enough; containers often have only CAP_DAC_OVERRIDE.
func passBlocked(attr *syscall.SysProcAttr) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return false
	}
	for _, capability := range []uint{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} {
		if have[0].Permitted&(1<<capability) != 0 {
			attr.AmbientCaps = []uintptr{uintptr(capability)}
			return true
		}
	}
	return false
}

// worksIn reports whether process pid has dir as its working folder, as a
// postmaster has its data folder: a number in a left-over pid file may belong
// to any program by now, which in containers with their small numbers is usual.
func worksIn(pid int, dir string) bool {
	got, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	want, err := os.Stat(dir)
	return err == nil && os.SameFile(got, want)
}

// sessions returns PostgreSQL's processes that work on the data folder. When the
// postmaster is dead these are its orphans; one that computes does not notice
// for as long as its query takes.
func sessions(data string) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	var found []int
	for _, path := range names {
		name, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(name)) != "postgres" {
			continue // ended meanwhile, or a shell in this folder
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && worksIn(pid, data) {
			found = append(found, pid)
		}
	}
	return found
}
