package cdc

import (
	"testing"
	"time"
)

func TestClocksThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		off  time.Duration
		want Verdict
	}{
		"equal":        {0, OK},
		"little":       {100 * time.Millisecond, OK},
		"behind":       {-5 * time.Second, Warning},
		"ahead":        {5 * time.Second, Warning},
		"hours ahead":  {2 * time.Hour, Problem},
		"hours behind": {-2 * time.Hour, Problem},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			judgeClock(&r, "orders", "database", func() (time.Time, error) { return time.Now().Add(c.off), nil })
			if len(r.Findings) != 1 || r.Findings[0].Verdict != c.want {
				t.Errorf("%+v, want %s", r.Findings, c.want)
			}
		})
	}
}
