package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"chorus/internal/web"
)

// readiness is the answer of /readyz: whether the whole cluster can take an order, and if not, why.
type readiness struct {
	Status   string           `json:"status"` // "ready" or "not ready"
	Services map[string]state `json:"services"`
}

type state struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// readyWithin bounds the question to one process. A process that does not answer in this time does not take orders either.
const readyWithin = 2 * time.Second

func (s *server) getReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	answer := s.readiness(ctx)
	status := http.StatusOK
	if answer.Status != "ready" {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	web.JSON(w, status, answer)
}

func (s *server) readiness(ctx context.Context) readiness {
	answer := readiness{Status: "ready", Services: map[string]state{}}
	var mu sync.Mutex // guards answer
	var wg sync.WaitGroup
	ask := func(name string, check func() error) {
		wg.Go(func() {
			err := check()
			mu.Lock()
			defer mu.Unlock()
			answer.Services[name] = state{Ready: err == nil}
			if err != nil {
				answer.Services[name] = state{Reason: err.Error()}
				answer.Status = "not ready"
			}
		})
	}
	ask("console", func() error { return s.ready(ctx) })
	for _, n := range s.services.all() {
		ask(n.Name, func() error { return s.askReady(ctx, n.URL) })
	}
	wg.Wait()
	return answer
}

// askReady returns why the process is not ready, in its own words where it has any.
func (s *server) askReady(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("not reachable: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var p web.Problem
	if err == nil && json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return fmt.Errorf("%s", p.Detail)
	}
	return fmt.Errorf("answers %s", resp.Status)
}
