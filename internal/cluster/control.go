package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"chorus/internal/web"
)

// controlHandler serves the supervisor's own interface, on loopback:
//
//	GET  /processes                  state of every process
//	POST /processes/{name}/{action}  kill, stop, start, restart, freeze or thaw a process, or all replicas of a group; answers with their states
//	GET  /readyz                     200 when every process is ready
//
// 404: no such process or action; 409: the process is not in a state for it. Errors are RFC 9457 problems. A web page in a browser on this machine could send
// requests here too, so those that come from another origin, or that name a host which is not loopback, are refused.
func (s *Supervisor) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /processes", func(w http.ResponseWriter, _ *http.Request) { respond(w, s.Processes()) })
	mux.HandleFunc("POST /processes/{name}/{action}", s.act)
	mux.HandleFunc("GET /readyz", s.readyz)
	sameOrigin := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.Loopback(r.Host) {
			problem(w, http.StatusForbidden, fmt.Sprintf("host %q is not a loopback address", r.Host))
			return
		}
		sameOrigin.ServeHTTP(w, r)
	})
}

var actions = []string{ActionKill, ActionStop, ActionStart, ActionRestart, ActionFreeze, ActionThaw}

func (s *Supervisor) act(w http.ResponseWriter, r *http.Request) {
	name, action := r.PathValue("name"), r.PathValue("action")
	if !slices.Contains(actions, action) {
		problem(w, http.StatusNotFound, fmt.Sprintf("no action %q; there are %s", action, strings.Join(actions, ", ")))
		return
	}
	chosen := s.find(name)
	if len(chosen) == 0 {
		problem(w, http.StatusNotFound, fmt.Sprintf("no process %q", name))
		return
	}
	s.log.Info("asked to", "action", action, "process", name)
	if err := each(r.Context(), chosen, action); err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	states := make([]Status, len(chosen))
	for i, r := range chosen {
		states[i] = r.current()
	}
	respond(w, states)
}

// find returns the process of that name, or else those of the group.
func (s *Supervisor) find(name string) (found []*runner) {
	for _, r := range s.runners {
		if r.spec.Name == name {
			return []*runner{r}
		}
		if r.spec.Group == name {
			found = append(found, r)
		}
	}
	return found
}

// each acts on all at the same time: stopping one may take the whole grace.
func each(ctx context.Context, runners []*runner, action string) error {
	errs := make([]error, len(runners))
	var wg sync.WaitGroup
	for i, r := range runners {
		wg.Go(func() { errs[i] = r.do(ctx, action) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Supervisor) readyz(w http.ResponseWriter, _ *http.Request) {
	var not []string
	for _, p := range s.Processes() {
		if p.State != Ready {
			not = append(not, fmt.Sprintf("%s is %s", p.Name, p.State))
		}
	}
	if len(not) > 0 {
		problem(w, http.StatusServiceUnavailable, strings.Join(not, ", "))
		return
	}
	fmt.Fprintln(w, "ok")
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// Problem is the body of an error answer (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{Title: http.StatusText(status), Status: status, Detail: detail})
}
