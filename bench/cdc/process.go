package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a contender that runs.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan error
}

// spawn starts a program in a group of its own.
func spawn(env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// stop ends it, kindly at first.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // if it is gone, done says how
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// usage is what a process has used.
type usage struct {
	cpu    float64 // seconds
	peakMB float64 // resident
}

func usageOf(pid int) (u usage) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u // gone
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const hertz = 100 // of the kernel, on every Linux that Go runs on
	for _, i := range []int{11, 12} {
		n, _ := strconv.Atoi(fields[i])
		u.cpu += float64(n) / hertz
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(text)[0], 64)
			u.peakMB = kb / 1024
		}
	}
	return u
}

// tick runs a condition every 20 ms until it holds, the process ends or ctx does.
func tick(ctx context.Context, p *process, holds func() (bool, error)) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("it has ended (%v): %s", err, tail(p.said.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), tail(p.said.Bytes()))
		}
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

func describe() {
	field := func(path, name string) string {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
		return "unknown"
	}
	fmt.Printf("machine   %s, %s of memory, load %s\n", field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"), load())
	fmt.Println("settings  fsync=on; the log is written with synchronous_commit=off and read when it is there; Apache Kafka of one node, 6 partitions, acks=all")
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}
