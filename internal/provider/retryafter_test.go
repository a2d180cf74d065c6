package provider_test

import (
	"net/http"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/providertest"
)

// TestPRV01RetryAfterForms covers the three date forms of RFC 9110, clocks that disagree, and nonsense.
func TestPRV01RetryAfterForms(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	ahead := now.Add(time.Hour)
	for _, c := range []struct {
		name     string
		after    string
		date     time.Time
		min, max time.Duration
		warned   bool
	}{
		{"seconds", "3", now, 3 * time.Second, 3 * time.Second, false},
		{"zero", "0", now, 0, 0, false},
		{"IMF-fixdate", now.Add(3 * time.Second).Format(http.TimeFormat), now, 3 * time.Second, 3 * time.Second, false},
		{"RFC 850", now.Add(3 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT"), now, 3 * time.Second, 3 * time.Second, false},
		{"asctime", now.Add(3 * time.Second).Format(time.ANSIC), now, 3 * time.Second, 3 * time.Second, false},
		{"clock an hour ahead", ahead.Add(3 * time.Second).Format(http.TimeFormat), ahead, 3 * time.Second, 3 * time.Second, false},
		{"no Date", now.Add(9 * time.Second).Format(http.TimeFormat), time.Time{}, time.Second, 9 * time.Second, false},
		{"negative", "-5", now, 0, 0, true},
		{"past", now.Add(-time.Minute).Format(http.TimeFormat), now, 0, 0, true},
		{"absurd", "99999999999999999999", now, 24 * time.Hour, 24 * time.Hour, true},
		{"years", now.AddDate(3, 0, 0).Format(http.TimeFormat), now, 24 * time.Hour, 24 * time.Hour, true},
		{"words", "soon", now, 0, 0, true},
		{"fraction", "1.5", now, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Retry-After": {c.after}, "Date": nil}
			if !c.date.IsZero() {
				h.Set("Date", c.date.Format(http.TimeFormat))
			}
			p := providertest.Start(t, providertest.Answer{Status: 429, Header: h})
			got, x := send(t, open(t, p.URL), attempt(decision.Do, `{}`))
			if got.Kind != decision.Busy {
				t.Errorf("result %+v", got)
			}
			if x.RetryAfter < c.min || x.RetryAfter > c.max || (x.Warning != "") != c.warned {
				t.Errorf("%s, %q; want %s to %s, warned %t", x.RetryAfter, x.Warning, c.min, c.max, c.warned)
			}
		})
	}
}
