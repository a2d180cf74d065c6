package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/retail"
)

const header = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"

// day is a file of orders.
func day(t *testing.T, name string, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(header+strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(s *shop, to *said) *LoadCmd {
	return &LoadCmd{Front: Front{URL: s.url}, Output: to.output(true), Concurrency: 4, Patience: 20 * time.Second, Timeout: 20 * time.Second}
}

func summaryOf(t *testing.T, to *said) (s loadSummary) {
	t.Helper()
	if err := json.Unmarshal(to.out.Bytes(), &s); err != nil {
		t.Fatalf("%v: %s", err, to.out.String())
	}
	to.out.Reset()
	return s
}

func TestReplay(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	s.deaf = 3
	c := load(s, to)
	c.Replay = []string{day(t, "monday.csv",
		"1,A,TEA,2,2011-12-05 08:00:00,2.50,100.0,United Kingdom",
		"1,B,GIFT,1,2011-12-05 08:00:00,0,100.0,United Kingdom",
		"2,A,TEA,1,2011-12-05 08:01:00,2.5,,France",
		"3,A,TEA,200000,2011-12-05 08:02:00,2.5,,France",
		"4,A,TEA,-1,2011-12-05 08:03:00,2.5,,France",
	)}
	c.More = []string{day(t, "tuesday.csv",
		"C5,B,GIFT,-1,2011-12-06 08:00:00,0.00,100,United Kingdom",
		"C5,A,TEA,-2,2011-12-06 08:00:00,2.50,100,United Kingdom",
		"C6,A,TEA,-9,2011-12-06 08:00:00,2.50,100,United Kingdom",
		"7,A,TEA,1,2011-12-06 08:01:00,2.5,declined,Norway",
	)}
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	got := summaryOf(t, to)
	want := loadSummary{
		Placed: 3, Outcomes: map[string]int{"CANCELLED": 1, "CONFIRMED": 1, "FAILED": 1}, Cancelled: 1,
		TurnedDown: map[string]int{"the order cannot be placed; body.items[0]: not for sale": 1},
		Refused:    map[retail.Reason]int{retail.NegativeQuantity: 1, retail.Empty: 1, retail.Unmatched: 1},
		Latency:    latencies{3, 100, 100, 100, 100}, TookMS: got.TookMS, PerSecond: got.PerSecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if s.early != 0 {
		t.Error("an order was cancelled before it was confirmed")
	}
	if diff := cmp.Diff(map[string]string{"A@2.5": "2.5", "B@0": "0"}, s.products); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if s.stock["A@2.5"].OnHand != 200_004 {
		t.Errorf("stock %+v; want enough for every order", s.stock)
	}

	// Once more: nothing is placed twice, and there is enough stock for what is held already.
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	if again := summaryOf(t, to); len(s.orders) != 3 || again.Placed != 3 || again.Cancelled != 1 {
		t.Errorf("a replay that is run again: %d orders, %+v", len(s.orders), again)
	}
	if row := s.stock["A@2.5"]; row.OnHand < row.Held {
		t.Errorf("stock below what is held: %+v", row)
	}
	contains(t, to.err.String(), "placed 4 of 4, ended 4")
}

func TestLoadMix(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	c := load(s, to)
	c.Count, c.Rate, c.Customers = 60, 0, map[string]int{"ok": 3, "declined": 1, "cancel": 1}
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	got := summaryOf(t, to)
	if got.Placed != 60 || got.Outcomes["CONFIRMED"] < 20 || got.Outcomes["FAILED"] < 5 || got.Outcomes["CANCELLED"] != got.Cancelled || got.Cancelled < 5 {
		t.Errorf("got %+v", got)
	}
	c.Customers = map[string]int{"happy": 1}
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "--customers happy=1") {
		t.Errorf("got %v", err)
	}
}

func TestLoadKeepsToItsRate(t *testing.T) {
	t.Parallel()
	src, err := newInvented(5, 10, map[string]int{"ok": 1})
	if err != nil {
		t.Fatal(err)
	}
	var after []time.Duration
	for j := range src.jobs() {
		after = append(after, j.after)
	}
	ms := time.Millisecond
	if diff := cmp.Diff([]time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 400 * ms}, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// At a speed the time between two invoices passes, and the night between two files does not.
func TestReplaySpeed(t *testing.T) {
	t.Parallel()
	src, err := newReplay([]string{
		day(t, "a.csv", "1,A,T,1,2011-12-05 08:00:00,1,1,France", "2,A,T,1,2011-12-05 09:00:00,1,1,France"),
		day(t, "b.csv", "3,A,T,1,2011-12-06 08:00:00,1,1,France", "4,A,T,1,2011-12-06 08:30:00,1,1,France"),
	}, 60)
	if err != nil {
		t.Fatal(err)
	}
	var after []time.Duration
	for j := range src.jobs() {
		after = append(after, j.after)
	}
	if diff := cmp.Diff([]time.Duration{0, time.Minute, time.Minute, 90 * time.Second}, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReplayKeys(t *testing.T) {
	t.Parallel()
	if got := key("2011-12-09.csv", "581483"); got != "retail:2011-12-09.csv:581483" {
		t.Errorf("got %q", got)
	}
	odd := key("день 1.csv", "581483")
	if len(odd) > 255 || strings.ContainsFunc(odd, func(r rune) bool { return r <= ' ' || r > '~' }) || odd == key("день 2.csv", "581483") {
		t.Errorf("got %q", odd)
	}
}

func TestLoadWhatCannotBePlaced(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	s.deaf = 1_000_000
	c := load(s, to)
	c.Count, c.Customers, c.Patience = 2, map[string]int{"ok": 1}, time.Millisecond
	err := run(t, c)
	if code(err) != 1 || err.Error() != "2 orders could not be placed, 0 are still under way" {
		t.Errorf("got %v", err)
	}
	if got := summaryOf(t, to); got.NotPlaced["not at this moment"] != 2 {
		t.Errorf("got %+v", got)
	}
	c.URL = "http://127.0.0.1:1"
	c.Patience = time.Hour
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "nothing answers") {
		t.Errorf("got %v", err)
	}
	if err := run(t, load(s, to)); err == nil || !strings.Contains(err.Error(), "want --count N or --replay FILE") {
		t.Errorf("got %v", err)
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	if diff := cmp.Diff(latencies{100, 50, 95, 99, 100}, measure(times)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(latencies{1, 7, 7, 7, 7}, measure([]time.Duration{7 * time.Millisecond})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
