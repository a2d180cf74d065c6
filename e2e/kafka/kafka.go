// Package kafka gives a test an Apache Kafka of its own, and a schema registry, by the scripts beside it.
//
// A node is a process that may be killed and started again; what it had acknowledged is in its folder. A test that is killed itself leaves its nodes
// running: `run -k FOLDER` ends them.
package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is one or three nodes. Its methods are for one goroutine.
type Cluster struct {
	dir   string
	port  int
	nodes int

	settings []string
}

// Start starts nodes (1 or 3) that keep their data in dir, which must be empty, and waits until they serve. Settings, key=value, go to all of them.
func Start(ctx context.Context, dir string, nodes int, settings ...string) (*Cluster, error) {
	port, err := FreePorts(2 * nodes)
	if err != nil {
		return nil, err
	}
	return StartAt(ctx, dir, port, nodes, settings...)
}

// StartAt is Start with the first of the two ports of each node given: of a broker and of its controller.
func StartAt(ctx context.Context, dir string, port, nodes int, settings ...string) (*Cluster, error) {
	c := &Cluster{dir: dir, port: port, nodes: nodes, settings: settings}
	return c, c.Restart(ctx)
}

// Brokers are the addresses of all nodes.
func (c *Cluster) Brokers() []string {
	var all []string
	for i := range c.nodes {
		all = append(all, "127.0.0.1:"+strconv.Itoa(c.port+2*i))
	}
	return all
}

// Restart starts the nodes that do not run, and waits until they serve.
func (c *Cluster) Restart(ctx context.Context) error {
	_, err := script(ctx, "run", append([]string{"-n", strconv.Itoa(c.nodes), c.dir, strconv.Itoa(c.port)}, c.settings...)...)
	return err
}

// Kill ends a node, from 1, by kill -9.
func (c *Cluster) Kill(ctx context.Context, node int) error {
	pid, err := c.pid(node)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("kill Kafka node %d: %w", node, err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill Kafka node %d: %w", node, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Stop ends all nodes in order.
func (c *Cluster) Stop(ctx context.Context) error {
	_, err := script(ctx, "run", "-k", c.dir)
	return err
}

// Log is the log of a node, from 1.
func (c *Cluster) Log(node int) string { return filepath.Join(c.dir, strconv.Itoa(node), "log") }

func (c *Cluster) pid(node int) (int, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, strconv.Itoa(node), "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// running reports whether there is such a process. One that has ended and that nobody has waited for yet holds no port any more.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// Registry is a schema registry.
type Registry struct {
	URL string // with its path
	dir string
}

// StartRegistry starts one that keeps its schemas in dir, and waits until it serves.
func StartRegistry(ctx context.Context, dir string) (*Registry, error) {
	port, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	out, err := script(ctx, "registry", dir, strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if u, ok := strings.CutPrefix(strings.TrimSpace(line), "registry="); ok {
			return &Registry{URL: u, dir: dir}, nil
		}
	}
	return nil, fmt.Errorf("start the registry: it printed no address: %q", out)
}

// Stop ends it.
func (r *Registry) Stop(ctx context.Context) error {
	_, err := script(ctx, "registry", "-k", r.dir)
	return err
}

// script runs one of the scripts beside this file, and returns what it prints.
func script(ctx context.Context, name string, args ...string) (string, error) {
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("where is this file?")
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(here), name), args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return string(out), nil
}

// FreePorts finds n ports in a row, below those that systems take for outgoing connections, so that they are still free after a restart.
func FreePorts(n int) (int, error) {
next:
	for range 100 {
		first := 19_000 + rand.IntN(10_000)
		for port := first; port < first+n; port++ {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				continue next
			}
			if err := l.Close(); err != nil {
				return 0, err
			}
		}
		return first, nil
	}
	return 0, fmt.Errorf("no %d ports in a row are free", n)
}
