package money

import "testing"

// UI-06.
func TestText(t *testing.T) {
	t.Parallel()
	for want, give := range map[string]struct {
		minor int64
		code  string
	}{
		"1624 JPY": {1624, "JPY"}, "1.234 KWD": {1234, "KWD"}, "-5.00 EUR": {-500, "EUR"}, "0.00 GBP": {0, "GBP"}, "-0.05 GBP": {-5, "GBP"},
		"168469.60 GBP": {16846960, "GBP"}, "7 minor units ???": {7, "???"},
	} {
		if got := Text(give.minor, give.code); got != want {
			t.Errorf("%d %s: %q, want %q", give.minor, give.code, got, want)
		}
	}
}
