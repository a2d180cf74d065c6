package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Server is a PostgreSQL that this process started. Its methods may be called
// by several goroutines; the calls that start and stop it exclude each other.
type Server struct {
	cfg    Config // Port is set
	bin    string
	run    account
	random bool // the port was chosen here

	control sync.Mutex // held by Start, Stop and Kill as a whole

	mu      sync.Mutex // guards what follows
	process *process   // the last one started; nil before the first
	lock    *os.File   // held while the folder is in use; nil while stopped
}

// process is one run of postgres.
type process struct {
	pid    int
	done   chan struct{} // closed when it has ended
	err    error         // how, set before done is closed
	logged int64         // length of the log when it started
}

// Start makes the cluster when there is none, starts PostgreSQL and returns when it
// accepts connections, after recovery if it was killed. ctx bounds the start
// only. The error is [ErrRunning] when a server works in the folder.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	run, err := cfg.account()
	if err != nil {
		return nil, err
	}
	bin, err := cfg.binaries(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, bin: bin, run: run, random: cfg.Port == 0}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Start starts the server again after Stop, Kill or its death, on the same port.
func (s *Server) Start(ctx context.Context) error {
	s.control.Lock()
	defer s.control.Unlock()
	if s.alive() {
		return fmt.Errorf("%w: this process started it", ErrRunning)
	}
	s.release()
	lock, err := s.cfg.lock()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.lock = lock
	s.mu.Unlock()
	if err := s.start(ctx); err != nil {
		s.release()
		return fmt.Errorf("start PostgreSQL in %s: %w", s.cfg.Dir, err)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	if err := s.cfg.clear(ctx); err != nil {
		return err
	}
	if err := s.cfg.initialise(ctx, s.bin, s.run); err != nil {
		return err
	}
	if err := s.run.mkdir(s.cfg.socketDir()); err != nil {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	if err := s.cfg.clearSockets(); err != nil {
		return err
	}
	const attempts = 5 // each with another port, when the port is ours to choose
	choose := s.random && s.last() == nil
	for attempt := 1; ; attempt++ {
		if s.cfg.Port == 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.cfg.Port = port
		}
		if err := s.cfg.writeSettings(s.run); err != nil {
			return err
		}
		p, err := s.spawn()
		if err != nil {
			return err
		}
		err = s.ready(ctx, p)
		if err == nil {
			return nil
		}
		if !choose || attempt == attempts || ctx.Err() != nil || portFree(s.cfg.Port) {
			return err
		}
		s.cfg.Port = 0
	}
}

// spawn runs postgres and watches it. The goroutine keeps its thread until the
// server is gone, because the kernel ends the server together with the thread.
func (s *Server) spawn() (*process, error) {
	log, err := os.OpenFile(s.cfg.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	cmd, err := s.run.command(context.Background(), []string{s.cfg.Dir, s.cfg.socketDir()},
		filepath.Join(s.bin, "postgres"), "-D", s.cfg.data())
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd.SysProcAttr)

	p := &process{done: make(chan struct{}), logged: info.Size()}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s as %s: %w", cmd.Path, s.run.name, err)
	}
	p.pid = cmd.Process.Pid
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	if err := noteStarted(s.lock, p.pid); err != nil {
		return nil, errors.Join(fmt.Errorf("note the server's number: %w", err), s.kill(p))
	}
	return p, nil
}

// ready waits until the server says in its pid file that it accepts
// connections. When ctx ends first the server is stopped.
func (s *Server) ready(ctx context.Context, p *process) error {
	for {
		if got, ok := readPostmaster(s.cfg.data()); ok && got.pid == p.pid && got.status == "ready" {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended before it accepted connections: %w", s.died(p))
		case <-ctx.Done():
			err := fmt.Errorf("wait until it accepts connections: %w", context.Cause(ctx))
			return errors.Join(err, s.kill(p))
		case <-time.After(poll):
		}
	}
}

// Stop ends all sessions, writes a checkpoint and ends the server (PostgreSQL's
// fast shutdown). A walsender whose client does not read can hold that up, so
// when ctx ends or after 30 seconds the server is stopped hard, which costs a
// recovery at the next start and loses nothing. Of a server that has ended it
// only gives the folder free.
func (s *Server) Stop(ctx context.Context) error {
	s.control.Lock()
	defer s.control.Unlock()
	defer s.release()
	p := s.last()
	if p == nil || p.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := syscall.Kill(p.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop PostgreSQL %d: %w", p.pid, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return s.kill(p)
	}
}

// Kill ends the server and all its sessions with SIGKILL, as a crash would, and
// returns when they are gone, so that Start works at once. Of a server that has
// ended it only gives the folder free.
func (s *Server) Kill() error {
	s.control.Lock()
	defer s.control.Unlock()
	defer s.release()
	p := s.last()
	if p == nil || p.ended() {
		return nil
	}
	return s.kill(p)
}

func (s *Server) kill(p *process) error {
	file, _ := readPostmaster(s.cfg.data())
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill PostgreSQL %d: %w", p.pid, err)
	}
	<-p.done
	if file.pid != p.pid {
		return nil // it had not come as far as to have sessions
	}
	const bound = 10 * time.Second
	for deadline := time.Now().Add(bound); ; time.Sleep(poll) {
		endSessions(s.cfg.data())
		if file.attached() == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("sessions of PostgreSQL %d still run %v after it was killed", p.pid, bound)
		}
	}
}

// Done returns a channel that is closed when the present run of the server has ended.
func (s *Server) Done() <-chan struct{} { return s.last().done }

// Err returns how the server ended: nil while it runs and after Stop, else its
// exit and the last lines of its log.
func (s *Server) Err() error {
	p := s.last()
	if !p.ended() || p.err == nil {
		return nil
	}
	return s.died(p)
}

// PID returns the process id of the postmaster's last run.
func (s *Server) PID() int { return s.last().pid }

// DSN returns the superuser's URL for database postgres over the Unix socket.
// It stays the same across restarts.
func (s *Server) DSN() string { return must(s.cfg.DSN()) }

// TCP is DSN over 127.0.0.1.
func (s *Server) TCP() string { return must(s.cfg.TCP()) }

// Dir returns the server's folder.
func (s *Server) Dir() string { return s.cfg.Dir }

// Log returns the path of the server's log.
func (s *Server) Log() string { return s.cfg.log() }

// must panics: the server has read and checked all that a URL is made of.
func must(url string, err error) string {
	if err != nil {
		panic(err)
	}
	return url
}

func (s *Server) last() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *Server) alive() bool {
	p := s.last()
	return p != nil && !p.ended()
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// died tells how p ended, with the end of what it logged.
func (s *Server) died(p *process) error {
	err := p.err
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.Success() {
		err = errors.New("exit status 0")
	}
	tail := logTail(s.cfg.log(), p.logged)
	if tail == "" {
		return err
	}
	return fmt.Errorf("%w; the end of %s:\n%s", err, s.cfg.log(), tail)
}
