package cdc

import (
	"testing"
	"time"
)

// Eight one-row transactions a millisecond are busy, two are not, and a silence ends it.
func TestBusyStream(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Now()
	for _, step := range []struct {
		after    time.Duration
		messages int
		want     bool
	}{
		{0, 0, false}, {time.Millisecond, 6, false}, {time.Millisecond, 24, true}, {time.Millisecond / 2, 0, true},
		{time.Millisecond / 2, 24, true}, {time.Second, 200, false}, {2 * time.Millisecond, 100, true},
	} {
		p.messages += step.messages
		now = now.Add(step.after)
		if got := p.due(now); got != step.want {
			t.Errorf("%d messages after %s: busy %t, want %t", step.messages, step.after, got, step.want)
		}
	}
}
