package intent

import (
	"strings"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/provider"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	cfg := Defaults().pace(provider.Limits{})
	do := func(phase decision.CallPhase, tries, asks, ends int) decision.Call {
		return decision.Call{Op: decision.Do, Phase: phase, Tries: tries, Asks: asks, Ends: ends}
	}
	for _, c := range []struct {
		name  string
		call  decision.Call
		asked time.Duration
		want  time.Duration
	}{
		{"first retry", do(decision.Attempting, 1, 0, 0), 0, 2 * time.Second},
		{"second retry", do(decision.Attempting, 2, 0, 0), 0, 4 * time.Second},
		{"third retry", do(decision.Attempting, 3, 0, 0), 0, 8 * time.Second},
		{"hundredth retry", do(decision.Attempting, 100, 0, 0), 0, 8 * time.Second},
		{"longer by the provider's wish", do(decision.Attempting, 1, 0, 0), 7 * time.Second, 7 * time.Second},
		{"not shorter by its wish", do(decision.Attempting, 1, 0, 0), time.Second, 2 * time.Second},
		{"wish beyond the cap", do(decision.Attempting, 1, 0, 0), time.Hour, time.Minute},
		{"first look-up", do(decision.Asking, 1, 0, 0), 0, 200 * time.Millisecond},
		{"third look-up", do(decision.Asking, 1, 2, 0), 0, 800 * time.Millisecond},
		{"hundredth look-up", do(decision.Asking, 1, 100, 0), 0, 4 * time.Second},
		{"first cancel by key", do(decision.Ending, 4, 0, 0), 0, 0},
		{"second cancel by key", do(decision.Ending, 4, 0, 1), 0, 2 * time.Second},
		{"no more", do(decision.Over, 1, 0, 0), 0, 0},
	} {
		for range 100 {
			if got := cfg.wait(c.call, c.asked); got < c.want || got > c.want+c.want/5 {
				t.Errorf("%s: %s, want %s and up to a fifth more", c.name, got, c.want)
				break
			}
		}
	}
}

// TestLongestFitsTheDeadline: three steps after each other, each with the worst of luck, end within an order's 15 minutes (D4).
func TestLongestFitsTheDeadline(t *testing.T) {
	t.Parallel()
	longest := Defaults().Longest(provider.Limits{Timeout: 5 * time.Second})
	if 3*longest > 15*time.Minute || longest < time.Minute {
		t.Errorf("a call lives for up to %s", longest)
	}
	once := Config{Tries: 1, Asks: 1, Ends: 1, Backoff: time.Second, BackoffCap: time.Second, AskAfter: time.Second, AskCap: time.Second}
	if got, want := once.Longest(provider.Limits{Timeout: 10 * time.Second}), 33*time.Second+600*time.Millisecond; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	if err := Defaults().check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Config{Tries: -1, BackoffCap: 1, Backoff: 2}.check()
	for _, want := range []string{"tries: -1", "undos: 0", "poll: 0s", "a cap is shorter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}
