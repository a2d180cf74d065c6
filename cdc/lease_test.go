package cdc

import (
	"errors"
	"testing"
	"time"
)

func TestLeaseEndsWithEitherClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		lease
		at   time.Time
		want error
	}{
		"in time":                    {lease{time.Minute, now}, now.Add(59 * time.Second), nil},
		"too late":                   {lease{time.Minute, now}, now.Add(61 * time.Second), errFrozen},
		"slept, by the wall's clock": {lease{time.Minute, now.Round(0)}, now.Add(61 * time.Second).Round(0), errFrozen},
		"no limit":                   {lease{0, now}, now.Add(time.Hour), nil},
	} {
		if err := c.check(c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
