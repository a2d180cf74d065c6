package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// State of a process.
type State string

const (
	Waiting  State = "waiting"  // for processes that must be ready first
	Starting State = "starting" // running, does not answer its readiness check yet
	Ready    State = "ready"    // has answered it in this run
	Frozen   State = "frozen"   // stopped by SIGSTOP
	Backoff  State = "backoff"  // died, will be started again
	Stopping State = "stopping" // has been told to end
	Stopped  State = "stopped"  // ended on request
)

// Status is what is known of one process.
type Status struct {
	Name     string    `json:"name"`
	Group    string    `json:"group"`
	PID      int       `json:"pid,omitempty"` // 0 when it does not run
	State    State     `json:"state"`
	Since    time.Time `json:"since"`    // of the state
	Restarts int       `json:"restarts"` // runs after the first
	LastExit string    `json:"lastExit,omitempty"`
	Log      string    `json:"log"` // path of its log file
}

// File is DIR/cluster.json: how to find a running cluster.
type File struct {
	PID       int               `json:"pid"`     // of the supervisor
	Control   string            `json:"control"` // URL of its control interface
	Started   time.Time         `json:"started"`
	Addresses map[string]string `json:"addresses,omitempty"`
	Processes []Status          `json:"processes"`
}

const clusterFile = "cluster.json"

// ReadFile reads the cluster file of a data folder. It may be left from a supervisor that was killed.
func ReadFile(dir string) (File, error) {
	var f File
	return f, readJSON(filepath.Join(dir, clusterFile), &f)
}

func (s *Supervisor) path() string { return filepath.Join(s.cfg.Lock.Dir(), clusterFile) }

func (s *Supervisor) openFile(control string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = File{PID: os.Getpid(), Control: control, Started: time.Now(), Addresses: s.cfg.Addresses, Processes: s.Processes()}
	return writeJSON(s.path(), s.file)
}

func (s *Supervisor) removeFile() {
	if err := os.Remove(s.path()); err != nil {
		s.log.Warn("cluster file", "err", fmt.Errorf("remove: %w", err))
	}
}
