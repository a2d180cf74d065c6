package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Client asks a supervisor by its control interface. Waiting is bounded by the context of each call.
type Client struct {
	URL string // File.Control
}

// Processes returns the state of every process.
func (c Client) Processes(ctx context.Context) ([]Status, error) {
	return c.call(ctx, http.MethodGet, "/processes")
}

// Do carries out an action (ActionKill, …) on a process, or on all replicas of a group, and returns their states after it.
func (c Client) Do(ctx context.Context, name, action string) ([]Status, error) {
	return c.call(ctx, http.MethodPost, "/processes/"+url.PathEscape(name)+"/"+url.PathEscape(action))
}

func (c Client) call(ctx context.Context, method, path string) ([]Status, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask supervisor: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask supervisor: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the supervisor's answer to %s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		var p Problem
		if json.Unmarshal(body, &p) != nil || p.Detail == "" {
			p.Detail = resp.Status
		}
		return nil, fmt.Errorf("supervisor on %s %s: %s", method, path, p.Detail)
	}
	var states []Status
	if err := json.Unmarshal(body, &states); err != nil {
		return nil, fmt.Errorf("read the supervisor's answer to %s %s: %w", method, path, err)
	}
	return states, nil
}
