package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// runner keeps one process running. Everything about the process is done by its goroutine (run), one thing after the other; others send it commands.
type runner struct {
	sup    *Supervisor
	spec   Process
	after  []*runner // must have been ready once before this one starts
	before []*runner // must be gone before this one is stopped
	cmds   chan command
	ready  chan struct{} // closed when the process has been ready once
	done   chan struct{} // closed when run has ended and the process is gone

	mu     sync.Mutex // guards the following
	status Status

	// Of the goroutine alone:

	child   *child // nil while it does not run
	retry   *time.Timer
	pause   time.Duration // before the next restart
	deaths  int           // before it was ever ready
	opened  bool          // all in after have been ready
	held    bool          // stopped on request
	wasGood bool          // has been ready once
	runs    int
}

type command struct {
	action string
	reply  chan error
}

func newRunner(s *Supervisor, p Process) *runner {
	return &runner{
		sup: s, spec: p, pause: firstPause,
		cmds: make(chan command), ready: make(chan struct{}), done: make(chan struct{}),
		status: Status{Name: p.Name, Group: p.Group, State: Waiting, Since: time.Now(), Log: s.spawner.logFile(p.Name)},
	}
}

// run returns when ctx has ended and the process is gone.
func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if r.allReady(ctx) && r.prepare(ctx) {
			close(gate)
		}
	})
	for {
		select {
		case <-ctx.Done():
			r.shutdown()
			return
		case <-gate:
			gate, r.opened = nil, true
			if !r.held {
				r.launch()
			}
		case <-r.retryDue():
			r.launch()
		case <-r.exited():
			r.buried()
		case <-r.answered():
			r.good()
		case c := <-r.cmds:
			c.reply <- r.obey(c.action)
		}
	}
}

func (r *runner) allReady(ctx context.Context) bool {
	for _, dep := range r.after {
		select {
		case <-dep.ready:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// prepare runs what the process needs before its first start.
func (r *runner) prepare(ctx context.Context) bool {
	if r.spec.Prepare == nil {
		return true
	}
	err := r.spec.Prepare(ctx)
	if err != nil && ctx.Err() == nil {
		r.sup.fail(fmt.Errorf("prepare %s: %w", r.spec.Name, err))
	}
	return err == nil
}

// The channels of what may happen next; nil, which never happens, where it cannot.

func (r *runner) retryDue() <-chan time.Time {
	if r.retry == nil {
		return nil
	}
	return r.retry.C
}

func (r *runner) exited() <-chan struct{} {
	if r.child == nil {
		return nil
	}
	return r.child.exited
}

func (r *runner) answered() <-chan struct{} {
	if r.child == nil || r.current().State != Starting {
		return nil
	}
	return r.child.ready
}

func (r *runner) launch() {
	r.cancelRetry()
	c, err := r.sup.spawner.spawn(r.spec)
	if err != nil {
		r.died(err.Error(), 0)
		return
	}
	r.child = c
	r.runs++
	r.set(func(s *Status) { s.State, s.PID, s.Restarts = Starting, c.pid, r.runs-1 })
}

func (r *runner) good() {
	if !r.wasGood {
		r.wasGood = true
		close(r.ready)
	}
	r.set(func(s *Status) { s.State = Ready })
}

// buried is called when the process has died without having been asked to.
func (r *runner) buried() {
	r.child.finish()
	outcome, lived := r.child.outcome(), time.Since(r.child.started)
	r.child = nil
	r.died(outcome, lived)
}

func (r *runner) died(outcome string, lived time.Duration) {
	if lived >= settled {
		r.pause = firstPause
	}
	log := r.current().Log
	last := lastLine(log)
	r.sup.log.Warn("process died", "process", r.spec.Name, "exit", outcome, "lived", lived, "restart_in", r.pause, "log", log, "last", last)
	if r.deaths++; !r.wasGood && r.deaths >= startDeaths {
		r.sup.fail(fmt.Errorf("process %s died %d times before it was ready: %s: %s (see %s)", r.spec.Name, r.deaths, outcome, last, log))
	}
	r.retry = time.NewTimer(r.pause)
	r.pause = min(2*r.pause, longestPause)
	r.set(func(s *Status) { s.State, s.PID, s.LastExit = Backoff, 0, outcome })
}

// shutdown is the ordered stop: first what depends on this process, then the process.
func (r *runner) shutdown() {
	for _, other := range r.before {
		<-other.done
	}
	r.end()
}

// end stops the process; a process that has died meanwhile is not started again.
func (r *runner) end() {
	r.cancelRetry()
	outcome := ""
	if r.child != nil {
		r.set(func(s *Status) { s.State = Stopping })
		if r.child.stop(r.sup.cfg.Grace) {
			r.sup.log.Warn("process did not end in time and was killed", "process", r.spec.Name, "grace", r.sup.cfg.Grace)
		}
		outcome = r.child.outcome()
		r.child = nil
	}
	r.set(func(s *Status) {
		s.State, s.PID = Stopped, 0
		if outcome != "" {
			s.LastExit = outcome
		}
	})
}

func (r *runner) cancelRetry() {
	if r.retry != nil {
		r.retry.Stop()
		r.retry = nil
	}
}

// set changes the status and makes it known.
func (r *runner) set(change func(*Status)) {
	r.mu.Lock()
	was := r.status.State
	change(&r.status)
	if r.status.State != was {
		r.status.Since = time.Now()
	}
	now := r.status
	r.mu.Unlock()
	r.sup.changed(now)
}

func (r *runner) current() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

var errStopping = errors.New("the cluster is stopping")

// do has the goroutine carry out an action and waits for the outcome.
func (r *runner) do(ctx context.Context, action string) error {
	c := command{action: action, reply: make(chan error, 1)}
	select {
	case r.cmds <- c:
	case <-r.done:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-c.reply
}

// actions that obey understands.
const (
	ActionKill    = "kill"    // SIGKILL; restarted after a pause, as after any death
	ActionStop    = "stop"    // SIGTERM, SIGKILL after the grace; stays down
	ActionStart   = "start"   // after stop, or at once when it waits for its restart
	ActionRestart = "restart" // stop, then start; refused when it could not start
	ActionFreeze  = "freeze"  // SIGSTOP
	ActionThaw    = "thaw"    // SIGCONT
)

// obey returns when the action has taken its effect: after kill and stop the process is gone, after start it runs, though it may not be ready.
func (r *runner) obey(action string) error {
	frozen := r.current().State == Frozen
	switch {
	case action == ActionStop:
		r.held = true
		r.end()
	case action == ActionRestart:
		if r.spec.Check != nil {
			if err := r.spec.Check(); err != nil {
				return fmt.Errorf("%s is not restarted: %w", r.spec.Name, err)
			}
		}
		r.end()
		return r.release()
	case action == ActionStart && r.child != nil:
		return fmt.Errorf("%s is already running", r.spec.Name)
	case action == ActionStart:
		return r.release()
	case r.child == nil:
		return fmt.Errorf("%s is not running", r.spec.Name)
	case action == ActionKill:
		r.deaths-- // deaths on request say nothing about a start that fails
		r.child.signal(syscall.SIGKILL)
		r.buried()
	case action == ActionFreeze && !frozen:
		r.child.signal(syscall.SIGSTOP)
		r.set(func(s *Status) { s.State = Frozen })
	case action == ActionThaw && frozen:
		r.child.signal(syscall.SIGCONT)
		r.set(func(s *Status) { s.State = Starting }) // ready as soon as the check has been, or was, answered
	default:
		return fmt.Errorf("%s is %s", r.spec.Name, r.current().State)
	}
	return nil
}

// release starts a process that was held back, or leaves it to wait for those it must wait for.
func (r *runner) release() error {
	r.held = false
	if r.opened {
		r.launch()
	} else {
		r.set(func(s *Status) { s.State = Waiting })
	}
	return nil
}
