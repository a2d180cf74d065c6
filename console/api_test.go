package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

func copyAll(to *strings.Builder, from io.Reader) (int64, error) { return io.Copy(to, from) }

func TestTrace(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	placed := event.ID{}
	r.eventually("the order is folded", func() error {
		status, body, err := r.try(http.MethodGet, "/v1/orders/"+no.String()+"/trace", nil)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%d %v", status, err)
		}
		placed = decode[Trace](t, body).Facts[0].ID
		return nil
	})
	r.others.mu.Lock()
	r.others.why, r.others.away = "goods are there", "fraud"
	r.others.calls = append(r.others.calls, charge(no, time.Now()))
	r.others.mu.Unlock()
	r.follow(no, placed, 1, event.Inventory, event.StockReserved{Reservation: "R-1"})
	r.shows("/v1/orders/"+no.String()+"/trace", `"type":"StockReserved"`)
	got := decode[Trace](t, r.get("/v1/orders/"+no.String()+"/trace", http.StatusOK))
	if got.Status != order.Placed || len(got.Facts) != 2 || got.Facts[1].Why != "goods are there" || got.Facts[1].CausationID != placed {
		t.Errorf("trace %+v", got)
	}
	verdicts := map[event.Participant]string{}
	for _, v := range got.Facts[0].Verdicts {
		verdicts[v.Participant] = v.Verdict.Verdict
	}
	if len(verdicts) != 4 || verdicts["inventory"] != "applied" || verdicts["fraud"] != "" {
		t.Errorf("verdicts on OrderPlaced: %v", verdicts)
	}
	// orders has no inspection API in this test, and fraud is away: the trace says so and is there.
	if len(got.Missing) != 2 || got.Missing[0].Participant != "fraud" || got.Missing[0].Reason == "" {
		t.Errorf("missing: %v", got.Missing)
	}
	if len(got.Calls) != 1 || got.Calls[0].Participant != "billing" || len(got.Calls[0].Attempts) != 2 {
		t.Errorf("calls: %v", got.Calls)
	}
	if len(got.Waits) == 0 || got.Waits[0].Until.Before(got.Waits[0].Since) {
		t.Errorf("waits: %v", got.Waits)
	}
	r.get("/v1/orders/999/trace", http.StatusNotFound)
	r.get("/v1/orders/abc/trace", http.StatusBadRequest)
}

func TestTrackerAPI(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	type list struct {
		Orders []tracker.Entry `json:"orders"`
		Next   string          `json:"next"`
	}
	r.order("bob")
	r.shows("/v1/tracker/orders", "bob")
	got := decode[list](t, r.get("/v1/tracker/orders?ended=false&limit=1", http.StatusOK))
	if len(got.Orders) != 1 || got.Orders[0].Number != no+1 || got.Next != (no+1).String() {
		t.Errorf("first page: %+v", got)
	}
	got = decode[list](t, r.get("/v1/tracker/orders?ended=false&limit=1&after="+got.Next, http.StatusOK))
	if len(got.Orders) != 1 || got.Orders[0].Number != no || got.Next != "" {
		t.Errorf("second page: %+v", got)
	}
	if got := decode[list](t, r.get("/v1/tracker/orders?ended=true", http.StatusOK)); got.Orders == nil || len(got.Orders) != 0 {
		t.Errorf("ended: %+v", got)
	}
	r.get("/v1/tracker/orders?status=bogus", http.StatusBadRequest)
	r.get("/orders?status=bogus", http.StatusBadRequest)
	if body := r.get("/openapi.json", http.StatusOK); !strings.Contains(body, "3.1.0") {
		t.Errorf("the API's description is %s", body)
	}
	if body := r.get("/v1/tracker/orders?limit=x&ended=perhaps", http.StatusBadRequest); strings.Count(body, "query.") != 2 {
		t.Errorf("not all faults are named: %s", body)
	}
	id := event.Derive(time.Now(), event.Orders, no+2, "OrderPlaced", 0)
	if body := r.get("/v1/tracker/position?event="+id.String()+"&wait=1ms", http.StatusAccepted); !strings.Contains(body, "behind_ms") {
		t.Errorf("position of what is not there yet: %s", body)
	}
	done := make(chan string, 1)
	go func() {
		_, body, _ := r.try(http.MethodGet, "/v1/tracker/position?event="+id.String()+"&wait=20s", nil)
		done <- body
	}()
	r.state(event.Envelope{ID: id, Order: no + 2, Owner: event.Orders, OccurredAt: time.Now(), Fact: event.OrderPlaced{Customer: "eve", Currency: "JPY", Total: 1624, Shipping: event.Domestic, Deadline: time.Now().UTC().Truncate(time.Second)}})
	if body := <-done; !strings.Contains(body, `"folded":true`) {
		t.Errorf("position after the fold: %s", body)
	}
	r.get("/v1/tracker/position?event=x", http.StatusBadRequest)
	r.get("/v1/tracker/nothing", http.StatusNotFound)
	if lag := r.get("/v1/tracker/lag", http.StatusOK); !strings.Contains(lag, `"group":"billing"`) || !strings.Contains(lag, `"no_commit":true`) {
		t.Errorf("lag: %s", lag)
	}
	r.shows("/v1/tracker/counts", `"PLACED":3`)
}

// message is one event of a stream.
type message struct{ name, id, data string }

// events opens a stream and returns its messages; the stream ends when ctx does.
func (r *rig) events(ctx context.Context, path, last string) <-chan message {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		r.t.Fatalf("%s is %q", path, got)
	}
	out := make(chan message, 100)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		var m message
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "event":
				m.name = value
			case "id":
				m.id = value
			case "data":
				m.data += value + "\n"
			case "":
				if m.data != "" {
					out <- m
				}
				m = message{}
			}
		}
	}()
	return out
}

func (r *rig) next(messages <-chan message) message {
	r.t.Helper()
	select {
	case m, ok := <-messages:
		if !ok {
			r.t.Fatal("the stream ended")
		}
		return m
	case <-time.After(patience):
		r.t.Fatal("nothing came")
	}
	return message{}
}

// A reader that was cut off goes on after the last fact it has seen: nothing is missed, nothing comes twice; what
// it remembers of a view that was since rebuilt is answered with a resync (UI-03).
func TestEventsAfterReconnect(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	path := "/v1/orders/" + no.String() + "/events"
	type fact struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	}
	ctx, cut := context.WithCancel(context.Background())
	first := r.events(ctx, path, "")
	one := r.next(first)
	if f := decode[fact](t, one.data); one.name != "fact" || one.id != "1" || f.Type != "OrderPlaced" || f.Status != "PLACED" {
		t.Fatalf("first message %+v", one)
	}
	cut()
	cause := r.follow(no, event.ID{}, 1, event.Inventory, event.StockReserved{Reservation: "R"})
	r.follow(no, cause, 2, event.Billing, event.PaymentDeclined{Reason: "no"})
	r.shows("/v1/orders/"+no.String()+"/trace", `"type":"StockReserved"`, `"type":"PaymentDeclined"`)

	ctx, cut = context.WithCancel(context.Background())
	defer cut()
	second := r.events(ctx, path, one.id)
	seen := map[string]bool{}
	for _, id := range []string{"2", "3"} {
		m := r.next(second)
		if m.id != id {
			t.Errorf("after the cut came %+v, want id %s", m, id)
		}
		seen[decode[fact](t, m.data).Type] = true
	}
	r.follow(no, cause, 3, event.Shipping, event.ShipmentCancelled{})
	if m := r.next(second); m.id != "4" || !seen["StockReserved"] || !seen["PaymentDeclined"] {
		t.Errorf("saw %v, then %+v", seen, m)
	}
	third := r.events(ctx, path, "99")
	if m := r.next(third); m.name != "resync" {
		t.Errorf("an id from another life was answered with %+v", m)
	}
	if m := r.next(third); m.id != "1" {
		t.Errorf("after the resync came %+v", m)
	}
}

// Every message of a page's stream is its whole present state, so a page that comes back is right (UI-03).
func TestPageStream(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	ctx, cut := context.WithCancel(context.Background())
	pages := r.events(ctx, "/orders/"+no.String()+"/live", "")
	if m := r.next(pages); m.name != "" || !strings.Contains(m.data, "OrderPlaced") || strings.Contains(m.data, "<html") {
		t.Errorf("first message %+v", m)
	}
	r.follow(no, event.ID{}, 1, event.Inventory, event.StockRejected{Reason: "none left"})
	for m := r.next(pages); !strings.Contains(m.data, "none left"); m = r.next(pages) {
	}
	cut()
	ctx, cut = context.WithCancel(context.Background())
	defer cut()
	if m := r.next(r.events(ctx, "/orders/"+no.String()+"/live", "")); !strings.Contains(m.data, "none left") {
		t.Error("the page that came back lacks what it had")
	}
	list := r.events(ctx, "/orders/live?", "")
	r.next(list)
	r.order("newcomer")
	for m := r.next(list); !strings.Contains(m.data, "newcomer"); m = r.next(list) {
	}
	for _, path := range []string{"/flow/live", "/lag/live"} {
		if m := r.next(r.events(ctx, path, "")); len(m.data) < 100 {
			t.Errorf("%s sent %q", path, m.data)
		}
	}
}

// The view is rebuilt, and readers of a stream are not left hanging when the database has gone.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := r.events(ctx, "/v1/orders/"+no.String()+"/events", "")
	r.next(stream)
	conn, err := pgx.Connect(ctx, r.db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "ALTER TABLE facts RENAME TO hidden"); err != nil {
		t.Fatal(err)
	}
	if _, open := <-stream; open {
		t.Error("the stream goes on without a database")
	}
	r.get("/v1/orders/"+no.String()+"/trace", http.StatusServiceUnavailable)
	r.get("/orders/"+no.String(), http.StatusServiceUnavailable)
	if _, err := conn.Exec(ctx, "ALTER TABLE hidden RENAME TO facts"); err != nil {
		t.Fatal(err)
	}
	r.shows("/orders/"+no.String(), "OrderPlaced")
}
