package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// describeMachine prints what the figures depend on.
func describeMachine() {
	fmt.Printf("machine   %s, %d processors, %s of memory\n", field("/proc/cpuinfo", "model name"), runtime.NumCPU(), field("/proc/meminfo", "MemTotal"))
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // for people; empty where there is none
	fmt.Printf("software  Linux %s, %s, %s\n", strings.TrimSpace(string(kernel)), runtime.Version(), postgresVersion())
	fmt.Println("settings  chorus up's own: synchronous_commit=on, fsync=on, acks=all, 3 partitions a topic, embedded broker")
}

func postgresVersion() string {
	for _, path := range []string{"postgres", "/usr/lib/postgresql/15/bin/postgres"} {
		if out, err := exec.Command(path, "--version").Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return "PostgreSQL as fetched"
}

// field is the value of the first line "name: value" of a file of the kernel.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// load is the machine's load of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// tree lists a process and all below it.
func tree(root int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if stat := statOf(pid); len(stat) > 1 {
			parent, _ := strconv.Atoi(stat[1])
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// statOf are the fields of /proc/PID/stat from the state on; none when the process is gone.
func statOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// hertz is the kernel's unit of processor time, 1/100 s on every Linux that Go runs on.
const hertz = 100

// cpuSeconds is the processor time of a tree, of children that are gone too.
func cpuSeconds(root int) float64 {
	ticks := 0
	for _, pid := range tree(root) {
		if stat := statOf(pid); len(stat) > 14 {
			for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
				n, _ := strconv.Atoi(stat[i])
				ticks += n
			}
		}
	}
	return float64(ticks) / hertz
}

// pss is the memory of a tree in MB, with what processes share counted once, and how many processes it has.
func pss(root int) (mb float64, processes int) {
	for _, pid := range tree(root) {
		kb, err := strconv.ParseFloat(strings.Fields(field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss") + " 0")[0], 64)
		if err == nil {
			mb, processes = mb+kb/1024, processes+1
		}
	}
	return mb, processes
}
