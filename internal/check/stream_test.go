package check_test

import (
	"strings"
	"testing"

	"chorus/internal/check"
)

// A script writes rows 1, 2, 3 of key a and 4 of key b, and reads what it says.
func TestStreamFinds(t *testing.T) {
	t.Parallel()
	type read struct {
		key       string
		number    uint64
		partition int32
	}
	for name, c := range map[string]struct {
		reads      []read
		duplicates int
		fault      string // empty: none
	}{
		"nothing wrong":              {[]read{{"a", 1, 0}, {"b", 4, 1}, {"a", 2, 0}, {"a", 3, 0}}, 0, ""},
		"a stretch that comes again": {[]read{{"a", 1, 0}, {"a", 2, 0}, {"a", 1, 0}, {"a", 2, 0}, {"a", 3, 0}, {"b", 4, 1}}, 2, ""},
		"a row that is missing":      {[]read{{"a", 1, 0}, {"a", 3, 0}, {"b", 4, 1}}, 0, "1 of 4 rows are missing: [a/2]"},
		"the last one missing":       {[]read{{"a", 1, 0}, {"a", 2, 0}, {"b", 4, 1}}, 0, "1 of 4 rows are missing: [a/3]"},
		"a key that is missing":      {[]read{{"a", 1, 0}, {"a", 2, 0}, {"a", 3, 0}}, 0, "[b/4]"},
		"a row behind a later one":   {[]read{{"a", 1, 0}, {"a", 3, 0}, {"a", 2, 0}, {"b", 4, 1}}, 0, "row 2 comes late, behind row 3"},
		"late once, then again":      {[]read{{"a", 1, 0}, {"a", 3, 0}, {"a", 2, 0}, {"a", 2, 0}, {"b", 4, 1}}, 1, "row 2 comes late"},
		"a row that was rolled back": {[]read{{"a", 1, 0}, {"a", 2, 0}, {"a", 3, 0}, {"b", 4, 1}, {"b", 5, 1}}, 0, "row 5 was not committed"},
		"a key of nobody":            {[]read{{"a", 1, 0}, {"a", 2, 0}, {"a", 3, 0}, {"b", 4, 1}, {"c", 1, 1}}, 0, "which nobody wrote"},
		"a key in two partitions":    {[]read{{"a", 1, 0}, {"a", 2, 1}, {"a", 3, 1}, {"b", 4, 1}}, 0, "in partitions 0 and 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := check.NewStream()
			for _, n := range []uint64{1, 2, 3} {
				s.Wrote("a", n)
			}
			s.Wrote("b", 4)
			for _, r := range c.reads {
				s.Read(r.key, r.number, r.partition)
			}
			faults := strings.Join(s.Faults(), "; ")
			if (faults == "") != (c.fault == "") || !strings.Contains(faults, c.fault) {
				t.Errorf("faults %q, want %q", faults, c.fault)
			}
			if s.Duplicates != c.duplicates {
				t.Errorf("%d duplicates, want %d", s.Duplicates, c.duplicates)
			}
		})
	}
}

func TestStreamPositionsDoNotGoBack(t *testing.T) {
	t.Parallel()
	s := check.NewStream()
	for _, at := range []uint64{5, 5, 9} {
		s.Position("orders", at)
	}
	s.Position("billing", 3)
	if f := s.Faults(); len(f) != 0 {
		t.Errorf("faults %v", f)
	}
	s.Position("orders", 8)
	if f := s.Faults(); len(f) != 1 || !strings.Contains(f[0], "orders: position 8 comes behind 9") {
		t.Errorf("faults %v", f)
	}
}
