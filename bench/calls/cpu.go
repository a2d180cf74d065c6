package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// cpu is what this process has used: workers, client and provider.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of /proc/PID/stat on Linux.
const tick = 10 * time.Millisecond

// cpuOf is what a PostgreSQL server has used, its children that have ended included; 0 where there is no /proc.
func cpuOf(pid int) (total time.Duration) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // from the third on: state, ppid, ...
		own := file == fmt.Sprintf("/proc/%d/stat", pid)
		if len(fields) < 15 || !own && string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		counts := fields[11:13] // utime, stime
		if own {
			counts = fields[11:15] // and those of children that have ended
		}
		for _, c := range counts {
			n, _ := strconv.ParseInt(string(c), 10, 64)
			total += time.Duration(n) * tick
		}
	}
	return total
}
