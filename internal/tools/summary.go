package tools

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"chorus/internal/retail"
)

// loadSummary is what a load came to.
type loadSummary struct {
	Placed     int                   `json:"placed"`
	Outcomes   map[string]int        `json:"outcomes"`              // by status; NEEDS_ATTENTION for those that wait for a person
	UnderWay   int                   `json:"under_way"`             // not at rest when the waiting ended
	Cancelled  int                   `json:"cancelled"`             // of those that were to be cancelled, those that are
	NotToBe    int                   `json:"not_to_be_cancelled"`   // those that had ended otherwise, or were refused
	TurnedDown map[string]int        `json:"turned_down,omitempty"` // by the shop, by its answer
	NotPlaced  map[string]int        `json:"not_placed,omitempty"`  // by error
	Refused    map[retail.Reason]int `json:"refused,omitempty"`     // of a file: lines and invoices
	Latency    latencies             `json:"latency_ms"`            // from place to end
	TookMS     int64                 `json:"took_ms"`
	PerSecond  float64               `json:"per_second"` // orders at rest
}

// latencies are milliseconds.
type latencies struct {
	Orders int     `json:"orders"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

func (b *board) summary(took time.Duration) loadSummary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := loadSummary{Outcomes: map[string]int{}, TurnedDown: b.turnedDown, NotPlaced: b.notPlaced, TookMS: took.Milliseconds()}
	var times []time.Duration
	ended := 0
	for _, t := range b.byName {
		if t.number == 0 {
			if t.wanted {
				s.NotToBe++
			}
			continue
		}
		s.Placed++
		if t.timed {
			times = append(times, t.took)
		}
		if !t.atRest {
			s.UnderWay++
			continue
		}
		ended++
		status := string(t.status)
		if t.person {
			status = "NEEDS_ATTENTION"
		}
		s.Outcomes[status]++
		switch {
		case t.wanted && status == "CANCELLED":
			s.Cancelled++
		case t.wanted:
			s.NotToBe++
		}
	}
	s.Latency = measure(times)
	if took > 0 {
		s.PerSecond = float64(ended) / took.Seconds()
	}
	return s
}

// measure takes percentiles by nearest rank.
func measure(times []time.Duration) latencies {
	if len(times) == 0 {
		return latencies{}
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		rank := (len(times)*percent + 99) / 100
		return float64(times[max(rank, 1)-1].Microseconds()) / 1000
	}
	return latencies{Orders: len(times), P50: at(50), P95: at(95), P99: at(99), Max: at(100)}
}

func (c *LoadCmd) summary(s loadSummary) {
	c.table(func(row func(...string)) {
		row("placed", strconv.Itoa(s.Placed))
		for _, name := range sortedKeys(s.Outcomes) {
			row("  "+name, strconv.Itoa(s.Outcomes[name]))
		}
		if s.UnderWay > 0 {
			row("  still under way", strconv.Itoa(s.UnderWay))
		}
		if s.Cancelled+s.NotToBe > 0 {
			row("to be cancelled", fmt.Sprintf("%d were, %d could not be", s.Cancelled, s.NotToBe))
		}
		for _, why := range sortedKeys(s.TurnedDown) {
			row("refused by the shop", fmt.Sprintf("%d: %s", s.TurnedDown[why], why))
		}
		for _, why := range sortedKeys(s.NotPlaced) {
			row("NOT PLACED", fmt.Sprintf("%d: %s", s.NotPlaced[why], why))
		}
		for _, why := range sortedKeys(s.Refused) {
			row("refused in the files", fmt.Sprintf("%d: %s", s.Refused[why], string(why)))
		}
		l := s.Latency
		row("place to end", fmt.Sprintf("p50 %s  p95 %s  p99 %s  max %s  (%d orders)", ms(l.P50), ms(l.P95), ms(l.P99), ms(l.Max), l.Orders))
		row("took", fmt.Sprintf("%s, %.1f orders a second", (time.Duration(s.TookMS)*time.Millisecond).Round(10*time.Millisecond), s.PerSecond))
	})
}

func ms(v float64) string {
	return time.Duration(v * float64(time.Millisecond)).Round(time.Millisecond).String()
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
