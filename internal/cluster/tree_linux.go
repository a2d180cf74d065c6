package cluster

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// signalTree signals the process group of pid and all descendants of pid, also those that have left the group. Descendants are looked up before, because the
// children of a killed process get another parent, and once more after, because a process may have forked until it was stopped.
func signalTree(pid int, sig syscall.Signal) {
	before := descendants(pid)
	_ = syscall.Kill(-pid, sig)
	for _, d := range append(before, descendants(pid)...) {
		_ = syscall.Kill(d, sig)
	}
}

func descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(id); ok {
			children[parent] = append(children[parent], id)
		}
	}
	var found []int
	for open := []int{pid}; len(open) > 0; open = open[1:] {
		found = append(found, children[open[0]]...)
		open = append(open, children[open[0]]...)
	}
	return found
}

// parentOf reads /proc/PID/stat: "id (name) state parent …", where the name may hold spaces and brackets.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
