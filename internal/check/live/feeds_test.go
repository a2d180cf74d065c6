package live_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"chorus/internal/check"
	"chorus/internal/check/live"
	"chorus/internal/event"
	"chorus/internal/inspect"
)

// outboxes are those that the records of a publisher were made of.
func (p *publisher) outboxes() map[event.Participant][]inspect.OutboxRow {
	all := map[event.Participant][]inspect.OutboxRow{}
	for _, r := range p.rows {
		owner := event.Participant(strings.TrimSuffix(r.Topic, ".events"))
		all[owner] = append(all[owner], r)
	}
	for _, rows := range all {
		slices.SortFunc(rows, func(a, b inspect.OutboxRow) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	}
	return all
}

// positions answers as cdc does: with a position each time it is asked.
func positions(t *testing.T, all ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable) // one source of several may stand still
		_ = json.NewEncoder(w).Encode(map[string]any{"sources": []map[string]string{{"source": "orders", "confirmed": all[0]}, {"source": "billing", "confirmed": ""}}})
		all = append(all[1:], all[0])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// frozen is the address of a process that takes connections and says nothing.
func frozen(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return "http://" + ln.Addr().String()
}

// unseen is what a check says it could not see.
func unseen(r *check.Report, n check.Name) string {
	for _, c := range r.Checks {
		if c.Name == n {
			return strings.Join(c.Unseen, "; ")
		}
	}
	return ""
}

func sound(t *testing.T, n int) (*publisher, *world, live.Sources) {
	t.Helper()
	p := publish(t)
	for no := range event.OrderNo(n) {
		p.confirm(no + 1)()
	}
	w := newWorld(n)
	w.outbox = p.outboxes()
	src := w.serve(t)
	src.Kafka = []string{p.broker.Addr()}
	return p, w, src
}

// Every row of the outboxes is looked for in the topics (G2), however many pages there are; the publisher's positions are looked at too (G3).
func TestFeeds(t *testing.T) {
	t.Parallel()
	_, _, src := sound(t, 9)
	src.Publisher = positions(t, "0/FF", "1/0")
	r := verify(t, src)
	if !r.OK || unseen(r, check.Feeds) != "" {
		t.Errorf("unseen %q:\n\t%s", unseen(r, check.Feeds), text(r))
	}
	for name, want := range map[string]int64{"rows": 54, "repeats": 0, "records without a row": 0} {
		if got := figure(r, check.Feeds, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	src.Publisher = positions(t, "1/0", "0/FF")
	red(t, verify(t, src), check.Feeds, "publisher of orders: position FF comes behind 100000000")
}

// A row that is in no topic is a violation that no state shows: nobody awaits what it says. One that is on its way is none.
func TestRowThatIsNotPublished(t *testing.T) {
	t.Parallel()
	p, w, src := sound(t, 2)
	lost := inspect.OutboxRow{ID: event.ID{0: 1, 15: 1}, Topic: "fraud.events", Key: "2", Type: "OrderScreened", OccurredAt: time.Unix(1, 0), CommittedAt: time.Unix(1, 0)}
	w.mu.Lock()
	w.outbox[event.Fraud] = append(w.outbox[event.Fraud], lost)
	w.mu.Unlock()
	red(t, verify(t, src), check.Feeds, "1 of 13 rows are missing: [fraud.events/2/01000000-0000-0000-0000-000000000001 (OrderScreened)]")

	w.mu.Lock()
	w.outbox[event.Fraud] = w.outbox[event.Fraud][:2]
	asked := w.asked
	_, late := p.write(2, event.Fraud, event.OrderScreened{Verdict: event.Clear})
	w.outbox = p.outboxes()
	w.asking = func(w *world) {
		if w.asked == asked+5 { // the outboxes were read
			w.asking = nil
			late()
		}
	}
	w.mu.Unlock()
	r := verify(t, src)
	for _, c := range r.Checks {
		if c.Name == check.Feeds && c.Found > 0 {
			t.Errorf("after %d questions:\n\t%s", w.asked-asked, text(r))
		}
	}
}

// The rows of an order come in the order in which they were committed.
func TestRowsInTheWrongOrder(t *testing.T) {
	t.Parallel()
	_, w, src := sound(t, 2)
	w.mu.Lock()
	rows := w.outbox[event.Orders]
	i := slices.IndexFunc(rows, func(r inspect.OutboxRow) bool { return r.Key == "2" && r.Type == "OrderConfirmed" })
	rows[i].CommittedAt = time.Unix(1, 0)
	w.mu.Unlock()
	red(t, verify(t, src), check.Feeds, "(OrderConfirmed) comes late, behind row")
}

// What cannot be seen is said, and is no violation.
func TestFeedsThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blind  func(w *world, src *live.Sources)
		unseen string
	}{
		"no topics":                {func(_ *world, src *live.Sources) { src.Kafka = nil }, "the topics are not read"},
		"pruned outboxes":          {func(w *world, _ *live.Sources) { w.outbox[event.Orders] = nil }, "the rows of 4 records: outboxes are pruned"},
		"services of before":       {func(w *world, _ *live.Sources) { w.outbox = nil }, "the outbox of billing, which does not show it"},
		"no times of commits":      {func(w *world, _ *live.Sources) { w.outbox[event.Orders][0].CommittedAt = time.Time{} }, "the order of 2 rows"},
		"no address":               {func(*world, *live.Sources) {}, "the publisher's positions"},
		"publisher that is frozen": {func(_ *world, src *live.Sources) { src.Publisher = frozen(t) }, "the publisher's positions"},
		"publisher that is away":   {func(_ *world, src *live.Sources) { src.Publisher = "http://127.0.0.1:1" }, "the publisher's positions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w, src := sound(t, 2)
			w.mu.Lock()
			c.blind(w, &src)
			w.mu.Unlock()
			if name == "services of before" {
				kafka := src.Kafka
				src = w.serve(t)
				src.Kafka = kafka
			}
			r := verify(t, src)
			if !r.OK || !strings.Contains(unseen(r, check.Feeds), c.unseen) {
				t.Errorf("unseen %q, want %q:\n\t%s", unseen(r, check.Feeds), c.unseen, text(r))
			}
		})
	}
}
