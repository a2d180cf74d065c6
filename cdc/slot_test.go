package cdc

import (
	"math"
	"testing"
	"time"
)

// A log that grows by 1 MB a second does so whatever the readings' distance, and
// one that stops growing is forgotten within minutes.
func TestGrowthOfTheLog(t *testing.T) {
	var g growth
	at, end := time.Unix(1_000_000, 0), int64(500)
	step := func(after time.Duration, bytes int64) float64 {
		at, end = at.Add(after), end+bytes
		return g.add(at, end)
	}
	if rate := step(0, 0); rate != 0 {
		t.Errorf("one reading makes a rate of %g", rate)
	}
	for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Second / 2} {
		if rate := step(d, int64(d.Seconds()*1e6)); math.Abs(rate-1e6) > 1 {
			t.Errorf("after %s the rate is %g", d, rate)
		}
	}
	if rate := step(0, 0); math.Abs(rate-1e6) > 1 {
		t.Errorf("two readings at once make a rate of %g", rate)
	}
	rate := 0.0
	for range 300 {
		rate = step(time.Second, 0)
	}
	if rate > 100 {
		t.Errorf("after five quiet minutes the rate is %g", rate)
	}
}
