package console

import (
	"testing"
	"time"

	"chorus/internal/event"
)

// Amounts have their currency's digits, and prices all of their own (UI-06).
func TestMoney(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		minor    int64
		currency string
		want     string
	}{
		{1624, "JPY", "¥1,624"}, {1234, "KWD", "KWD\u00a01.234"}, {-500, "EUR", "-€5.00"}, {0, "EUR", "€0.00"},
		{9007199254740993, "USD", "$90,071,992,547,409.93"}, {5, "???", `5 minor units of "???"`},
	} {
		if got := money(test.minor, test.currency); got != test.want {
			t.Errorf("%d %s is shown as %q, want %q", test.minor, test.currency, got, test.want)
		}
	}
	for decimal, want := range map[string]string{"2.55": "€2.55", "2.5": "€2.50", "0.0425": "€0.0425", "x": "x EUR"} {
		if got := price(decimal, "EUR"); got != want {
			t.Errorf("price %s is shown as %q, want %q", decimal, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", 99 * time.Second: "99 s ago", 100 * time.Second: "1 min ago", 3 * time.Hour: "3 h ago",
		72 * time.Hour: "3 days ago", -30 * time.Second: "in 30 s", -20 * time.Minute: "in 20 min",
	} {
		if got := age(now.Add(-ago), now); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := age(time.Time{}, now); got != "" {
		t.Errorf("no time is %q", got)
	}
	if got := iso(time.Date(2026, 3, 29, 3, 0, 0, 5e6, time.FixedZone("CEST", 7200))); got != "2026-03-29T01:00:00.005Z" {
		t.Errorf("iso is %q", got)
	}
}

// Every fact of the catalogue is told in a sentence.
func TestTell(t *testing.T) {
	t.Parallel()
	for _, f := range event.Catalogue() {
		if c, ok := f.(event.OrderCancellationRequested); ok {
			c.Reason = event.TimedOut
			f = c
		}
		if tell(f) == "" {
			t.Errorf("nothing is told of %s", f.Type())
		}
	}
}
