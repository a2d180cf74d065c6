package tools

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"chorus/internal/event"
	"chorus/internal/tracker"
)

// watchEvery is how often the tracker is asked, at most. Watching takes a fifth of the time, so that it
// does not become the load.
const (
	watchEvery = 250 * time.Millisecond
	watchShare = 4
)

// watch looks at the orders that are under way until ctx ends. A tracker that is away is waited for.
func (l *loader) watch(ctx context.Context) error {
	for {
		began := time.Now()
		if oldest, any := l.board.oldest(); any {
			if err := l.look(ctx, oldest); err != nil && ctx.Err() == nil && !passing(err) {
				return fmt.Errorf("watch the orders: %w", err)
			}
		}
		if sleep(ctx, max(watchEvery, watchShare*time.Since(began))) != nil {
			return nil
		}
	}
}

// look reads the tracker's list down to the oldest order under way.
func (l *loader) look(ctx context.Context, oldest event.OrderNo) error {
	after := ""
	for {
		var page struct {
			Orders []tracker.Entry `json:"orders"`
			Next   string          `json:"next"`
		}
		path := fmt.Sprintf("/v1/tracker/orders?limit=1000&from=%s", oldest)
		if after != "" {
			path += "&after=" + after
		}
		if err := l.front.do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return err
		}
		for _, e := range page.Orders {
			if t := l.board.saw(e); t != nil {
				l.cancel(ctx, t)
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// cancel asks for the cancellation of a confirmed order. One that is not taken at this moment is asked for at the next look.
func (l *loader) cancel(ctx context.Context, t *tracked) {
	err := l.front.do(ctx, http.MethodPost, orderPath(t.number)+"/cancel", map[string]any{"by": event.ByCustomer}, nil)
	switch {
	case err == nil:
		l.board.cancelled(t, false)
	case ctx.Err() == nil && !passing(err):
		l.log.Warn("not cancelled", "order", t.number, "err", err)
		l.board.cancelled(t, true)
	}
}
