package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Process is one child process: this same binary with other arguments.
type Process struct {
	Name  string   // lower case letters, digits, dashes; names its log file as well
	Group string   // name shared by the replicas of one service; Name when empty
	Args  []string // arguments, without the program's name
	Env   []string // KEY=value, beside the supervisor's own environment

	// Ready is asked until it answers: "http://…" with status 200, or "tcp://host:port" with an open connection. Empty: ready once started.
	Ready string

	// After names processes or groups that must have been ready once before this one starts, and that are stopped after it.
	After []string

	// Prepare, when set, is run by the supervisor once those in After are ready and before the first start. An error ends the supervisor.
	// Several processes may share one function; it is then called several times at once.
	Prepare Prepare

	// Check, when set, is asked before a restart that somebody orders: does the process have what it needs to start? When it
	// has not, the restart is refused with the reason and the old process goes on.
	Check func() error
}

// Prepare is work before a first start.
type Prepare = func(ctx context.Context) error

// Replicate makes n processes NAME-1 … NAME-n of the group NAME, or the one process NAME for n = 1. set may give each its own arguments and
// addresses; it gets the number of the replica, from 1, and a copy whose slices may be appended to.
func Replicate(p Process, n int, set func(replica int, p *Process)) []Process {
	group := p.Name
	replicas := make([]Process, n)
	for i := range replicas {
		r := p
		r.Group = group
		if n > 1 {
			r.Name = fmt.Sprintf("%s-%d", group, i+1)
		}
		r.Args, r.Env, r.After = clip(p.Args), clip(p.Env), clip(p.After)
		if set != nil {
			set(i+1, &r)
		}
		replicas[i] = r
	}
	return replicas
}

// clip makes append copy, so that replicas don't write into one array.
func clip(s []string) []string { return s[:len(s):len(s)] }

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// plan is the checked list: who waits for whom.
type plan struct {
	procs []Process
	after [][]int // indexes of the processes that must be ready before
}

// newPlan reports all faults together.
func newPlan(procs []Process) (plan, error) {
	pl := plan{procs: procs, after: make([][]int, len(procs))}
	var errs []error
	names, groups := map[string]int{}, map[string][]int{}
	for i := range procs {
		p := &procs[i]
		if p.Group == "" {
			p.Group = p.Name
		}
		if !validName.MatchString(p.Name) || !validName.MatchString(p.Group) {
			errs = append(errs, fmt.Errorf("process %q of group %q: names have lower case letters, digits and dashes", p.Name, p.Group))
		}
		if _, twice := names[p.Name]; twice {
			errs = append(errs, fmt.Errorf("process %q is given twice", p.Name))
		}
		if err := checkReady(p.Ready); err != nil {
			errs = append(errs, fmt.Errorf("process %q: %w", p.Name, err))
		}
		names[p.Name] = i
		groups[p.Group] = append(groups[p.Group], i)
	}
	for i, p := range procs {
		for _, dep := range p.After {
			if members, ok := groups[dep]; ok {
				pl.after[i] = append(pl.after[i], members...)
			} else if n, ok := names[dep]; ok {
				pl.after[i] = append(pl.after[i], n)
			} else {
				errs = append(errs, fmt.Errorf("process %q waits for %q, which does not exist", p.Name, dep))
			}
		}
	}
	if circle := pl.circle(); circle != nil {
		errs = append(errs, fmt.Errorf("processes wait for each other: %s", strings.Join(circle, " -> ")))
	}
	return pl, errors.Join(errs...)
}

// circle returns the names along one circle of waiting processes, nil if there is none: such processes would never start.
func (pl plan) circle() []string {
	const (
		unseen = iota
		open
		closed
	)
	state := make([]int, len(pl.procs))
	var path []string
	var visit func(i int) bool
	visit = func(i int) bool {
		path = append(path, pl.procs[i].Name)
		if state[i] == open {
			return true
		}
		if state[i] == unseen {
			state[i] = open
			for _, dep := range pl.after[i] {
				if visit(dep) {
					return true
				}
			}
			state[i] = closed
		}
		path = path[:len(path)-1]
		return false
	}
	for i := range pl.procs {
		if visit(i) {
			return path
		}
	}
	return nil
}

func checkReady(ready string) error {
	if ready == "" {
		return nil
	}
	u, err := url.Parse(ready)
	if err != nil {
		return fmt.Errorf("readiness %q: %w", ready, err)
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return fmt.Errorf("readiness %q: no host", ready)
		}
	case "tcp":
		if _, _, err := net.SplitHostPort(u.Host); err != nil {
			return fmt.Errorf("readiness %q: %w", ready, err)
		}
		if n, err := strconv.Atoi(u.Port()); err != nil || n == 0 {
			return fmt.Errorf("readiness %q: no port", ready)
		}
	default:
		return fmt.Errorf("readiness %q: want http://, https:// or tcp://", ready)
	}
	return nil
}
