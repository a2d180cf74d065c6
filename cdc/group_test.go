package cdc

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/cdc/bookmark"
	"chorus/cdc/progress"
	"chorus/cdc/wal"
)

// gatherer adds transactions to a gathering as a publisher does.
type gatherer struct {
	*gathering
	tx   progress.ID
	open stretch
}

func (g *gatherer) begin() {
	g.tx++
	g.open = stretch{tx: g.tx, start: wal.LSN(100 * g.tx)}
}

func (g *gatherer) rows(n, bytes int) {
	for range n {
		g.open.sequence++
		g.add(g.open, &parcel{size: bytes})
	}
}

// skip is a row that makes no record.
func (g *gatherer) skip() { g.open.sequence++ }

func (g *gatherer) end() { g.complete(g.open, g.open.start+10) }

// next takes a group, and says what of each transaction it holds: its number, records, last row, and + when there is more of it.
func (g *gatherer) next(t *testing.T) string {
	t.Helper()
	next, ok, wait := g.take(time.Now())
	if !ok {
		return fmt.Sprintf("none for %s", wait)
	}
	text, records := "", 0
	for _, r := range next.runs {
		text += fmt.Sprintf("%d:%d/%d", r.tx, r.records, r.sequence)
		if r.end == 0 {
			text += "+"
		}
		text += " "
		records += r.records
	}
	if records != len(next.records) {
		t.Fatalf("%s has %d records", text, len(next.records))
	}
	return text
}

func TestGroups(t *testing.T) {
	t.Parallel()
	const half = groupRecords/2 + 1
	for name, c := range map[string]struct {
		add  func(*gatherer)
		want []string
	}{
		"nothing":                     {func(*gatherer) {}, []string{"none for 0s"}},
		"one that is not complete":    {func(g *gatherer) { g.begin(); g.rows(2, 1) }, []string{"none for 0s"}},
		"one, at once":                {func(g *gatherer) { g.begin(); g.rows(2, 1); g.end() }, []string{"none for 5ms"}},
		"one, later":                  {func(g *gatherer) { g.begin(); g.rows(2, 1); g.end(); time.Sleep(groupDelay) }, []string{"1:2/2 ", "none for 0s"}},
		"several":                     {func(g *gatherer) { g.pair(2, 3); time.Sleep(groupDelay) }, []string{"1:2/2 2:3/3 ", "none for 0s"}},
		"by records":                  {func(g *gatherer) { g.pair(half, half) }, []string{fmt.Sprintf("1:%d/%d ", half, half), "none for 5ms"}},
		"by bytes":                    {func(g *gatherer) { g.begin(); g.rows(3, groupBytes/3+1); g.end() }, []string{"1:2/2+ ", "none for 5ms"}},
		"a large one is divided":      {func(g *gatherer) { g.begin(); g.rows(2*groupRecords+1, 1); g.end(); g.press() }, []string{"1:5000/5000+ ", "1:5000/10000+ ", "1:1/10001 ", "none for 0s"}},
		"and the one before is whole": {func(g *gatherer) { g.begin(); g.rows(1, 1); g.end(); g.begin(); g.rows(groupRecords, 1) }, []string{"1:1/1 ", "2:5000/5000+ ", "none for 0s"}},
		"pressed while it is open":    {func(g *gatherer) { g.begin(); g.rows(7, 1); g.press() }, []string{"1:7/7+ ", "none for 0s"}},
		"its end comes later": {func(g *gatherer) {
			g.begin()
			g.rows(7, 1)
			g.press()
			g.takeAll()
			g.end()
			time.Sleep(groupDelay)
		}, []string{"1:0/7 ", "none for 0s"}},
		"divided behind a row that makes none": {func(g *gatherer) {
			g.begin()
			g.rows(3, 1)
			g.skip()
			g.rows(groupRecords, 1)
			g.end()
			g.press()
		},
			[]string{"1:5000/5001+ ", "1:3/5004 ", "none for 0s"}},
		"a record larger than a group": {func(g *gatherer) { g.begin(); g.rows(1, 2*groupBytes); g.end() }, []string{"1:1/1 ", "none for 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &gatherer{gathering: newGathering()}
				c.add(g)
				var got []string
				for range c.want {
					got = append(got, g.next(t))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func (g *gatherer) pair(a, b int) {
	for _, n := range []int{a, b} {
		g.begin()
		g.rows(n, 1)
		g.end()
	}
}

func (g *gatherer) takeAll() {
	for ok := true; ok; {
		_, ok, _ = g.take(time.Now())
	}
}

func TestPositionBehindAGroup(t *testing.T) {
	t.Parallel()
	g := &gatherer{gathering: newGathering()}
	g.pair(2, groupRecords)
	g.begin()
	g.rows(3, 1)
	g.press()
	at := bookmark.Position{End: 50, Count: 1}
	for _, want := range []bookmark.Position{
		{End: 110, Count: 3},
		{End: 210, Count: 3 + groupRecords},
		{End: 210, Commit: 300, Sequence: 3, Count: 6 + groupRecords},
	} {
		next, _, _ := g.take(time.Now().Add(time.Second))
		at = behind(at, next)
		if diff := cmp.Diff(want, at); diff != "" {
			t.Error(diff)
		}
	}
}
