package tools

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// HealthCmd asks a process whether it is well: the health check of a container that has no shell.
type HealthCmd struct {
	Address string        `arg:"" help:"What to ask, as in http://127.0.0.1:8101/readyz." name:"url"`
	Timeout time.Duration `help:"How long to wait for the answer." default:"3s"`
}

// Help is shown by --help.
func (*HealthCmd) Help() string {
	return `Exit code: 0 when the answer is 2xx, else 1 with the reason on standard error.`
}

// Run asks once.
func (c *HealthCmd) Run(ctx context.Context, _ *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Address, nil)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2000)) // the status alone is enough
	return fmt.Errorf("healthcheck: %s: %s", resp.Status, clean(string(body)))
}
