package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// process is one replica of the consumer.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and err is set
	err    error
	asked  bool // to end, or killed
}

func (s *suite) start() (*process, error) {
	cmd := s.Start()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the consumer: %w", err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	s.processes = append(s.processes, p)
	return p, nil
}

// signal tells the process something. That it has ended already is noticed elsewhere.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to the consumer: %w", sig, err)
	}
	return nil
}

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }

func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// kill ends the process as a crash does.
func (s *suite) kill(p *process) error {
	p.asked = true
	err := p.signal(syscall.SIGKILL)
	<-p.exited
	s.forget(p)
	return err
}

// stop asks the process to end. It has to within the suite's patience, and without an error (CON-12).
func (s *suite) stop(ctx context.Context, p *process) error {
	p.asked = true
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(s.Patience)
	defer timer.Stop()
	select {
	case <-p.exited:
		s.forget(p)
		if p.err != nil {
			s.fault("a process that was asked to end did so with: %v", p.err)
		}
		return nil
	case <-timer.C:
		s.fault("a process that was asked to end did not within %s", s.Patience)
	case <-ctx.Done():
	}
	return errors.Join(s.kill(p), ctx.Err())
}

func (s *suite) forget(p *process) {
	s.processes = slices.DeleteFunc(s.processes, func(other *process) bool { return p == other })
}

// mostRevivals bounds how often processes that end by themselves are started again in one kind of harm.
const mostRevivals = 20

// revive starts processes again that have ended by themselves, as a supervisor would. It is a fault that they have.
func (s *suite) revive() error {
	for _, p := range slices.Clone(s.processes) {
		select {
		case <-p.exited:
		default:
			continue
		}
		s.forget(p)
		if s.revived++; s.revived == 1 {
			s.fault("a process ended by itself: %v", p.err)
		}
		if s.revived <= mostRevivals {
			if _, err := s.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) killAll() error {
	var faults []error
	for _, p := range slices.Clone(s.processes) {
		faults = append(faults, s.kill(p))
	}
	return errors.Join(faults...)
}
