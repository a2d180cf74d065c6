package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const portsFile = "ports.json"

// Ports are given out from this range. It is below the one from which systems take the local ports of outgoing connections (32768 on Linux, 49152 elsewhere),
// so that a stopped service finds its port free again.
const (
	firstPort = 20000
	lastPort  = 29999
)

// portPatience is how long Ports waits for a port of an earlier run: a connection or process that is just ending may still hold it.
const portPatience = 2 * time.Second

// Ports returns a loopback port for each name, the same at every start: they are kept in DIR/ports.json, so that what people have written down
// stays right. A port that some other program has taken meanwhile is replaced. The folder must be locked.
func Ports(dir string, names ...string) (map[string]int, error) {
	path := filepath.Join(dir, portsFile)
	kept := map[string]int{}
	if err := readJSON(path, &kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	used := map[int]bool{}
	for _, port := range kept {
		used[port] = true
	}
	next := start(dir)
	ports := map[string]int{}
	for _, name := range names {
		port, ok := kept[name]
		if !ok || !freeWithin(port, portPatience) {
			var err error
			if port, err = freePort(next, used); err != nil {
				return nil, fmt.Errorf("port for %s: %w", name, err)
			}
			next = port + 1
		}
		kept[name], ports[name], used[port] = port, port, true
	}
	return ports, writeJSON(path, kept)
}

// start spreads the folders over the range: two clusters that start at the same time look at different ports.
func start(dir string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir))
	return firstPort + int(h.Sum32()%(lastPort-firstPort+1))
}

func freePort(from int, used map[int]bool) (int, error) {
	const n = lastPort - firstPort + 1
	for i := range n {
		port := firstPort + (from-firstPort+i)%n
		if !used[port] && free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("none is free between %d and %d", firstPort, lastPort)
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func freeWithin(port int, patience time.Duration) bool {
	for end := time.Now().Add(patience); ; {
		if free(port) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file in one step, so that a reader never sees half of it.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
