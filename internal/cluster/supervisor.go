// Package cluster starts, restarts and stops all processes of a cluster on one machine. Every process is this same binary with other arguments.
//
// It owns the data folder, which one supervisor holds at a time (dirlock), and writes there:
//
//	lock           who owns the folder
//	ports.json     the port of each service, kept for the next start
//	cluster.json   process ids and addresses of the running cluster; removed by an ordered stop
//	log/NAME.log   output of each process
//
// It knows nothing about what the processes do. A process that dies is started again, after a pause that doubles from 100 ms to 5 s and begins anew once
// a run has lasted 10 s. It is never given up, except at the first start, where a fault that stays (a missing file, a port in use) should reach the person
// who typed the command.
//
// When the supervisor dies, by kill -9 too, its children notice (DieWithParent) and end. They keep the folder locked until they are gone, so that
// the next supervisor does not start a second broker on the files of the first. cluster.json is then left behind and describes nothing; a
// reader finds that its control address does not answer.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"chorus/internal/cluster/dirlock"
	"chorus/internal/web"
)

// LockPatience is how long to wait (dirlock.Acquire) for the children of a supervisor that was killed.
const LockPatience = orphanGrace + 5*time.Second

// Config of a supervisor.
type Config struct {
	Lock       *dirlock.Lock     // on the data folder; the caller releases it after Run
	Executable string            // program to run; this one when empty
	Control    string            // loopback address of the control interface; a free port when empty
	Addresses  map[string]string // whatever clients of the cluster need to find; copied into cluster.json

	// Progress is told of every change of a process, one call at a time, with the number of processes that are ready. It must not block.
	Progress func(changed Status, ready, total int)

	Grace time.Duration // from SIGTERM to SIGKILL; 10 s when 0
}

// Times and counts of restarting; see the package comment.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	settled      = 10 * time.Second
	startDeaths  = 8 // of a process that was never ready, then the start has failed: after some 11 s
	defaultGrace = 10 * time.Second
)

// Supervisor runs one list of processes.
type Supervisor struct {
	log     *slog.Logger
	cfg     Config
	spawner *spawner
	runners []*runner
	ready   chan struct{}
	failed  chan error // the first process that could not be started

	mu   sync.Mutex // guards the file, the order of calls of Progress, and the following
	file File
}

// New checks configuration and processes and reports all faults together.
func New(log *slog.Logger, cfg Config, procs []Process) (*Supervisor, error) {
	var errs []error
	if cfg.Lock == nil {
		errs = append(errs, errors.New("supervisor needs the lock on its data folder"))
	}
	if cfg.Control == "" {
		cfg.Control = "127.0.0.1:0"
	}
	if !web.Loopback(cfg.Control) {
		errs = append(errs, fmt.Errorf("control address %q is not on a loopback IP: whoever reaches it can kill processes", cfg.Control))
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			errs = append(errs, fmt.Errorf("find this program's file: %w", err))
		}
		cfg.Executable = self
	}
	pl, err := newPlan(slices.Clone(procs))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	s := &Supervisor{log: log, cfg: cfg, ready: make(chan struct{}), failed: make(chan error, 1)}
	s.spawner = &spawner{
		executable: cfg.Executable,
		logs:       filepath.Join(cfg.Lock.Dir(), "log"),
		lock:       cfg.Lock.File(),
		http:       &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for _, p := range pl.procs {
		s.runners = append(s.runners, newRunner(s, p))
	}
	for i, after := range pl.after {
		for _, dep := range after {
			s.runners[i].after = append(s.runners[i].after, s.runners[dep])
			s.runners[dep].before = append(s.runners[dep].before, s.runners[i])
		}
	}
	return s, nil
}

// Ready is closed when every process has been ready once.
func (s *Supervisor) Ready() <-chan struct{} { return s.ready }

// Run starts the processes and keeps them running until ctx ends; then it stops them in reverse order and returns when all are gone. The error is nil after such a
// stop; it names the process, its exit and the last line of its log when the cluster could not be started.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.spawner.logs, 0o755); err != nil {
		return fmt.Errorf("create log folder: %w", err)
	}
	// The write end is never written to. It is closed by the system when this process is gone, and that is what children wait for.
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe to child processes: %w", err)
	}
	defer write.Close()
	defer read.Close()
	s.spawner.pipe = read
	listener, err := net.Listen("tcp", s.cfg.Control)
	if err != nil {
		return fmt.Errorf("listen for control requests: %w", err)
	}
	if err := s.openFile("http://" + listener.Addr().String()); err != nil {
		listener.Close()
		return err
	}
	defer s.removeFile()
	return s.supervise(ctx, listener)
}

func (s *Supervisor) supervise(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control := &http.Server{Handler: s.controlHandler(), ReadHeaderTimeout: 5 * time.Second}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := control.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("control interface ended", "err", err)
		}
	})
	for _, r := range s.runners {
		wg.Go(func() { r.run(ctx) })
	}
	wg.Go(func() { s.awaitReady(ctx) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
		cancel()
	}
	s.log.Info("stopping", "processes", len(s.runners))
	for _, r := range s.runners {
		<-r.done
	}
	control.Close() // after the processes: until then people can watch the stop
	wg.Wait()
	return err
}

func (s *Supervisor) awaitReady(ctx context.Context) {
	for _, r := range s.runners {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return
		}
	}
	close(s.ready)
}

// fail ends the supervisor; of several reasons the first one counts.
func (s *Supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Processes is the present state of all processes, in the order in which they were given.
func (s *Supervisor) Processes() []Status {
	list := make([]Status, len(s.runners))
	for i, r := range s.runners {
		list[i] = r.current()
	}
	return list
}

// changed makes a new state known. A file that cannot be written is logged and no more: the processes matter more.
func (s *Supervisor) changed(status Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.Processes = s.Processes()
	if err := writeJSON(s.path(), s.file); err != nil {
		s.log.Warn("cluster file", "err", err)
	}
	if s.cfg.Progress == nil {
		return
	}
	ready := 0
	for _, p := range s.file.Processes {
		if p.State == Ready {
			ready++
		}
	}
	s.cfg.Progress(status, ready, len(s.runners))
}
