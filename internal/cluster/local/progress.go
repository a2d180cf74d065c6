package local

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"chorus/internal/cluster"
)

// progress tells people how the start goes, and afterwards what dies and comes back.
type progress struct {
	out io.Writer

	mu    sync.Mutex // guards up
	up    bool
	shown map[string]bool
}

func (p *progress) changed(s cluster.Status, ready, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.up && s.State == cluster.Ready && !p.shown[s.Name]:
		if p.shown == nil {
			p.shown = map[string]bool{}
		}
		p.shown[s.Name] = true
		fmt.Fprintf(p.out, "  %2d/%d  %s is ready\n", ready, total, s.Name)
	case s.State == cluster.Backoff:
		fmt.Fprintf(p.out, "  %s died (%s); it is started again. Log: %s\n", s.Name, s.LastExit, s.Log)
	case p.up && s.State == cluster.Ready:
		fmt.Fprintf(p.out, "  %s is back\n", s.Name)
	}
}

// welcome says where the cluster is and what to try.
func (p *progress) welcome(plan plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = true
	hint := ""
	if usual, err := filepath.Abs(".chorus"); err != nil || plan.cfg.Data != usual {
		hint = " (first: export CHORUS_DATA=" + plan.cfg.Data + ")"
	}
	fmt.Fprintf(p.out, `
chorus is up: %s

Three things to try, in another terminal%s:
  %s place --customer ada --item TEAPOT=1 --wait
  %s load --replay examples/data/2011-12-09.csv
  %s verify

Ctrl-C stops everything; what is kept is in %s.
`, plan.front(), hint, name, name, name, plan.cfg.Data)
}

// name is how the welcome calls this program.
const name = "bin/chorus"
