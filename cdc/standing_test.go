package cdc

import (
	"testing"
	"time"

	"chorus/cdc/wal"
)

// Whether the server gets anywhere is told by its keepalives, its log, and what it sends.
func TestStanding(t *testing.T) {
	t.Parallel()
	type look struct {
		seen, end wal.LSN
		came      bool
		want      time.Duration
	}
	const much = 1 << 20
	for name, looks := range map[string][]look{
		"idle":                      {{100, 100, false, 0}, {100, 100, false, 0}, {100, 100, false, 0}},
		"end of a page":             {{100, 100 + slack, false, 0}, {100, 100 + slack, false, 0}, {100, 100 + slack, false, 0}},
		"follows the log, behind":   {{100, much, false, 0}, {200, 2 * much, false, 0}, {300, 3 * much, false, 0}},
		"stands, and goes on":       {{100, 100, false, 0}, {100, much, false, 0}, {100, 2 * much, false, 1}, {100, 3 * much, false, 2}, {3 * much, 3 * much, false, 0}, {3 * much, 3 * much, false, 0}},
		"stands, in a quiet log":    {{100, much, false, 0}, {100, much, false, 0}, {100, much, false, 1}, {100, much, false, 2}},
		"sends, without keepalives": {{100, much, true, 0}, {100, much, true, 0}, {100, much, true, 0}, {100, much, false, 0}, {100, much, false, 1}},
		"goes back after a crash":   {{much, much, false, 0}, {100, 2 * much, false, 0}, {100, 2 * much, false, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s standing
			at := time.Unix(1_000_000, 0)
			for i, l := range looks {
				if l.came {
					s.sent()
					s.sent()
				}
				if got := s.look(at, l.seen, l.end); got != l.want*time.Second {
					t.Errorf("look %d: it has stood for %s, want %d s", i, got, l.want)
				}
				at = at.Add(time.Second)
			}
		})
	}
}
