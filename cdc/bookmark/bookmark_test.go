package bookmark

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/cdc/wal"
)

func TestEncodeAndDecode(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Position{
		`{"system":"7","timeline":1,"slot":"s","end":"16/B374D848","sequence":0,"count":12}`: {
			System: "7", Timeline: 1, Slot: "s", End: 0x16_B374D848, Count: 12},
		`{"system":"7","timeline":2,"slot":"s","end":"0/10","commit":"0/FF","sequence":5000,"count":5012,"batch":3}`: {
			System: "7", Timeline: 2, Slot: "s", End: 0x10, Commit: 0xff, Sequence: 5000, Count: 5012, Batch: 3},
		`{"system":"7","timeline":1,"slot":"s","end":"0/0","sequence":0,"count":0,"first":true}`: {
			System: "7", Timeline: 1, Slot: "s", First: true},
	} {
		if got := string(p.Encode()); got != want {
			t.Errorf("%+v is %s, want %s", p, got, want)
		}
		got, err := Decode([]byte(want))
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", want, err, diff)
		}
	}
	for _, text := range []string{``, `{}`, `{"system":"7"}`, `{"system":"7","end":"x"}`, `{"system":"7","end":"0/10","commit":"0/F"}`, `{"end":"0/1"}`} {
		if p, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"system":"7","timeline":2,"slot":"s","end":"0/10","commit":"0/FF","sequence":5000,"count":5012}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Errorf("%q: %v %s", b, err, diff)
		}
	})
}

func TestPasses(t *testing.T) {
	t.Parallel()
	whole := Position{End: 100}
	part := Position{End: 100, Commit: 150, Sequence: 7}
	for _, c := range []struct {
		p     Position
		start wal.LSN
		all   bool
		rows  uint64
		wrong bool
	}{
		{whole, 99, true, 0, false},
		{whole, 100, false, 0, false}, // the next record begins where the last one ends
		{whole, 1000, false, 0, false},
		{part, 99, true, 0, false},
		{part, 120, false, 0, false},
		{part, 150, false, 7, false},
		{part, 151, false, 0, true},
		{Position{}, 1, false, 0, false},
	} {
		all, rows, err := c.p.Passes(c.start)
		if all != c.all || rows != c.rows || (err != nil) != c.wrong {
			t.Errorf("%+v at %d: %t, %d, %v", c.p, c.start, all, rows, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := Position{System: "7", Timeline: 1, Slot: "s", End: 100}
	here := Server{System: "7", Timeline: 1, Slot: "s", Confirmed: 100, End: 1000}
	for name, c := range map[string]struct {
		change func(*Position, *Server)
		want   string // of the error; empty when it may go on
	}{
		"as it was":                       {func(*Position, *Server) {}, ""},
		"slot behind":                     {func(_ *Position, s *Server) { s.Confirmed = 20 }, ""},
		"slot ahead":                      {func(_ *Position, s *Server) { s.Confirmed = 101 }, "ahead of position"},
		"slot ahead while it was made":    {func(p *Position, s *Server) { p.First, p.End = true, 0 }, ""},
		"another server":                  {func(_ *Position, s *Server) { s.System = "8" }, "system identifier"},
		"another slot":                    {func(_ *Position, s *Server) { s.Slot = "r" }, "this is r"},
		"promoted behind the position":    {func(_ *Position, s *Server) { s.Timeline, s.Left = 2, 100 }, ""},
		"promoted before the position":    {func(_ *Position, s *Server) { s.Timeline, s.Left = 2, 99 }, "lost transactions"},
		"promoted within a transaction":   {func(p *Position, s *Server) { p.Commit, s.Timeline, s.Left = 120, 2, 110 }, "lost transactions"},
		"a timeline without this one":     {func(_ *Position, s *Server) { s.Timeline = 3 }, "not in the history"},
		"an older timeline, a restore":    {func(p *Position, s *Server) { p.Timeline = 2 }, "not in the history"},
		"log cut off":                     {func(_ *Position, s *Server) { s.End = 99 }, "beyond the end"},
		"promoted, and the slot is ahead": {func(_ *Position, s *Server) { s.Timeline, s.Left, s.Confirmed = 2, 200, 150 }, "ahead of position"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := p, here
			c.change(&p, &s)
			err := p.Check(s)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want one that speaks of %q", err, c.want)
			}
		})
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	p := Position{End: 100}
	part := p.Within(150, 7)
	if diff := cmp.Diff(Position{End: 100, Commit: 150, Sequence: 7}, part); diff != "" {
		t.Error(diff)
	}
	for end, want := range map[wal.LSN]Position{
		120: {End: 120, Commit: 150, Sequence: 7}, // transactions without rows
		150: {End: 150, Commit: 150, Sequence: 7},
		160: {End: 160},
		90:  part, // never back
	} {
		if diff := cmp.Diff(want, part.Through(end)); diff != "" {
			t.Errorf("through %d: %s", end, diff)
		}
	}
}
