package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// cluster is a chorus up of its own, in a temporary folder.
type cluster struct {
	binary string
	data   string
	port   int
	up     *exec.Cmd

	reading sync.WaitGroup // what up says
}

// startCluster returns when the cluster is up.
func startCluster(ctx context.Context, o options) (*cluster, error) {
	dir, err := os.MkdirTemp("", "chorus-bench")
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: o.binary, data: filepath.Join(dir, "data")}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when this is root
		return nil, err
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	c.up = exec.Command(c.binary, "up", "--data", c.data, "--port", fmt.Sprint(c.port))
	out, err := c.up.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.up.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	up := make(chan struct{})
	c.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "chorus is up") {
				close(up)
			}
		}
	})
	select {
	case <-up:
		return c, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("wait for the cluster: %w", context.Cause(ctx)), c.stop())
	}
}

func (c *cluster) url() string { return fmt.Sprintf("http://127.0.0.1:%d", c.port) }

// tool runs a command of chorus against the cluster.
func (c *cluster) tool(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = append(os.Environ(), "CHORUS_URL="+c.url(), "CHORUS_DATA="+c.data)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("chorus %v: %w: %s", args, err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// loaded is what chorus load says of a run.
type loaded struct {
	Placed    int     `json:"placed"`
	UnderWay  int     `json:"under_way"`
	PerSecond float64 `json:"per_second"`
	TookMS    float64 `json:"took_ms"`
	Latency   struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_ms"`
	Outcomes map[string]int `json:"outcomes"`
}

// load places count orders at a rate, 0 for as fast as they are taken, and waits for their ends. A run that does not confirm each of them counts for nothing.
func (c *cluster) load(ctx context.Context, count int, rate float64) (l loaded, err error) {
	out, err := c.tool(ctx, "load", "--json", "--count", fmt.Sprint(count), "--rate", fmt.Sprint(rate), "--concurrency", "64")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("read what chorus load says: %w", err)
	}
	if l.Outcomes["CONFIRMED"] != count {
		return l, fmt.Errorf("of %d orders %v", count, l.Outcomes)
	}
	return l, nil
}

// stop ends the cluster and deletes its folder.
func (c *cluster) stop() error {
	_ = c.up.Process.Signal(syscall.SIGTERM) // if it is gone, Wait says how it went
	c.reading.Wait()                         // until it has closed its output
	err := c.up.Wait()
	return errors.Join(err, os.RemoveAll(filepath.Dir(c.data)))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
