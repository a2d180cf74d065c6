package orders

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/web"
	"chorus/outbox"
)

// record is what cdc would make of a fact that another service states: the outbox row, and its headers by name and value.
func record(t testing.TB, number event.OrderNo, f event.Fact) (row outbox.Row, headers [][2]string) {
	t.Helper()
	owner := map[event.Type]event.Participant{
		"StockRejected": event.Inventory, "StockReleased": event.Inventory, "ShipmentCancelled": event.Shipping,
	}[f.Type()]
	if owner == "" {
		owner = event.Billing
	}
	row, err := codec.Embedded().Row(event.Envelope{
		ID: participant.NewID(), Order: number, Owner: owner, OccurredAt: participant.Now(), CausationID: participant.NewID(), Hop: 3, Fact: f,
	})
	if err != nil {
		t.Fatal(err)
	}
	return row, [][2]string{
		{"id", event.ID(row.ID).String()}, {"eventType", row.Type}, {"aggregateType", row.AggregateType},
		{"occurredAt", row.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z07:00")},
		{"correlationId", row.CorrelationID}, {"causationId", row.CausationID}, {"hop", strconv.Itoa(row.Hop)},
	}
}

// hear brings facts of others through the door, as the inbox would.
func (r *rig) hear(number event.OrderNo, facts ...event.Fact) {
	r.t.Helper()
	err := pg.InTx(r.t.Context(), r.db, "hear", func(tx pgx.Tx) error {
		var batch []inbox.Fact
		for _, f := range facts {
			row, headers := record(r.t, number, f)
			in := inbox.Fact{ID: row.ID, Type: row.Type, Key: row.AggregateID, Topic: row.AggregateType + ".events", Value: row.Payload, OccurredAt: row.OccurredAt}
			for _, h := range headers {
				in.Headers = append(in.Headers, inbox.Header{Key: h[0], Value: []byte(h[1])})
			}
			batch = append(batch, in)
		}
		verdicts, err := r.door.Handle(r.t.Context(), tx, batch)
		for _, v := range verdicts {
			if v.Outcome == inbox.Dead {
				return fmt.Errorf("dead: %s", v.Why)
			}
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) order(number event.OrderNo) Order {
	r.t.Helper()
	return read[Order](r.t, r.call("GET", "/v1/orders/"+number.String(), ""))
}

// move asks and returns status and answer.
func (r *rig) move(number event.OrderNo, what, body string) (int, Moved, reply) {
	r.t.Helper()
	got := r.call("POST", "/v1/orders/"+number.String()+"/"+what, body)
	if got.status != 200 {
		return got.status, Moved{}, got
	}
	return got.status, read[Moved](r.t, got), got
}

// TestTheCourseOfAnOrder walks the three ends, with texts and actions on the way.
func TestTheCourseOfAnOrder(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	check := func(number event.OrderNo, status, text string, actions ...string) {
		t.Helper()
		o := r.order(number)
		if actions == nil {
			actions = []string{}
		}
		if string(o.Status) != status || o.StatusText != text || !cmp.Equal(o.Actions, actions) {
			t.Errorf("order %s: %s %q %v; want %s %q %v", number, o.Status, o.StatusText, o.Actions, status, text, actions)
		}
		list := read[List](t, r.call("GET", "/v1/orders?status="+status, ""))
		if len(list.Orders) != 1 || list.Orders[0].Number != number || list.Orders[0].NeedsAttention != o.NeedsAttention {
			t.Errorf("the list of %s: %+v", status, list.Orders)
		}
	}
	step := func(number event.OrderNo, what, body string, status int, changed bool) {
		t.Helper()
		got, moved, raw := r.move(number, what, body)
		if got != status || moved.Changed != changed {
			t.Errorf("%s: %s; want %d, changed %v", what, raw, status, changed)
		}
		if status == 409 && raw.problem(t).Detail == "" {
			t.Errorf("%s: no reason", what)
		}
	}
	happy := r.place("c", Item{"A", 1}).Number
	check(happy, "PLACED", "accepted; stock, shipment and payment are being arranged", "cancel", "compensate")
	step(happy, "ship", "", 409, false)
	r.hear(happy, event.PaymentTaken{Payment: "p", Processor: "x", Amount: 100, Currency: "GBP"})
	check(happy, "CONFIRMED", "reserved, booked and paid", "cancel", "compensate", "ship")
	step(happy, "deliver", "{}", 409, false)
	step(happy, "ship", "", 200, true)
	step(happy, "ship", "", 200, false)
	check(happy, "SHIPPED", "handed over to the carrier; it can no longer be cancelled", "deliver")
	step(happy, "cancel", "", 409, false)
	step(happy, "deliver", "", 200, true)
	step(happy, "deliver", "", 200, false)
	check(happy, "DELIVERED", "delivered")

	cancelled := r.place("c", Item{"A", 1}).Number
	if got, _, raw := r.move(cancelled, "cancel", `{"by":"OPERATOR","reason":" "}`); got != 422 || !strings.Contains(string(raw.body), "an operator must say why") {
		t.Errorf("an operator's cancel without a reason: %s", raw)
	}
	step(cancelled, "cancel", `{"by":"OPERATOR","reason":"recalled, says the maker"}`, 200, true)
	step(cancelled, "cancel", `{"by":"CUSTOMER"}`, 200, false)
	check(cancelled, "CANCELLING", "cancelled by OPERATOR; what was done is being undone")
	if o := r.order(cancelled); o.UndoBy.IsZero() || o.Reason != "cancelled by OPERATOR: recalled, says the maker" {
		t.Errorf("undone by %s because %q", o.UndoBy, o.Reason)
	}
	entries, err := audit.List(t.Context(), r.db, audit.Filter{Order: cancelled}, 10)
	if err != nil || len(entries) != 1 || entries[0].Action != audit.Cancel || entries[0].Why != "recalled, says the maker" ||
		string(entries[0].Before) != `{"phase": "PLACED"}` || !strings.Contains(string(entries[0].After), `"phase": "CANCELLING"`) {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
	r.hear(cancelled, event.PaymentVoided{}, event.ShipmentCancelled{}, event.StockReleased{})
	check(cancelled, "CANCELLED", "cancelled by OPERATOR; nothing is held and nothing is charged")

	rejected := r.place("c", Item{"A", 1}).Number
	r.hear(rejected, event.StockRejected{Reason: "A is short"})
	check(rejected, "REJECTED", "the stock could not be reserved, no money was taken")

	stuck := r.place("c", Item{"A", 1}).Number
	r.hear(stuck, event.UndoStuck{Step: event.PaymentStep, Reason: "no answer"})
	check(stuck, "COMPENSATING", "a step got stuck; what was done is being undone; a person must see to the payment", "resolve:payment", "retry:payment")
	step(stuck, "cancel", "", 409, false)
	if list := read[List](t, r.call("GET", "/v1/orders?needs_attention=true", "")); len(list.Orders) != 1 || list.Orders[0].Number != stuck {
		t.Errorf("in need of attention: %+v", list.Orders)
	}
	r.hear(stuck, event.PaymentRefunded{}, event.ShipmentCancelled{}, event.StockReleased{})
	check(stuck, "FAILED", "a step got stuck; nothing is held and nothing is charged")
	if list := read[List](t, r.call("GET", "/v1/orders?needs_attention=true", "")); len(list.Orders) != 0 {
		t.Errorf("still in need of attention: %+v", list.Orders)
	}

	for _, what := range []string{"cancel", "ship", "deliver"} {
		if got := r.call("POST", "/v1/orders/999/"+what, ""); got.status != 404 {
			t.Errorf("%s of no order: %s", what, got)
		}
		for _, odd := range []string{"0", "-1", "+5", "007", "10000000000000000", "99999999999999999999", "x", "%00", "1e3"} {
			if got := r.call("POST", "/v1/orders/"+odd+"/"+what, ""); got.status != 400 || !got.names(t, "path.order") {
				t.Errorf("%s of order %q: %s", what, odd, got)
			}
		}
	}
	for _, body := range []string{`{"by":"TIMED_OUT"}`, `{"by":"customer"}`, `{"why":"x"}`, `{"by":null}`, `{"reason":null}`, `[]`, `null`} {
		if got := r.call("POST", "/v1/orders/"+happy.String()+"/cancel", body); got.status != 422 {
			t.Errorf("cancel with %s: %s", body, got)
		}
	}
}

// TestCancelAgainstShip lets many ask at once: they cannot both win, and every loser is told (D4 "Point of no return").
func TestCancelAgainstShip(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	for range 10 {
		number := r.place("c", Item{"A", 1}).Number
		r.hear(number, event.PaymentTaken{Amount: 100, Currency: "GBP"})
		const askers = 16
		status, changed := make([]int, askers), make([]bool, askers)
		errs := make([]error, askers)
		var all sync.WaitGroup
		for i := range askers {
			all.Go(func() {
				what := []string{"cancel", "ship"}[i%2]
				got, err := r.try("POST", "/v1/orders/"+number.String()+"/"+what, "")
				status[i], errs[i] = got.status, err
				changed[i] = strings.Contains(string(got.body), `"changed":true`)
			})
		}
		all.Wait()
		won := [2]int{}
		for i := range askers {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if changed[i] {
				won[i%2]++
			}
		}
		if won[0]+won[1] != 1 {
			t.Fatalf("order %s: %d cancels and %d ships won", number, won[0], won[1])
		}
		for i := range askers {
			want := 409
			if won[i%2] == 1 {
				want = 200
			}
			if status[i] != want {
				t.Errorf("order %s, asker %d: %d, want %d", number, i, status[i], want)
			}
		}
		facts := r.count(`SELECT count(*) FROM outbox WHERE aggregateid = $1 AND type IN ('OrderShipped', 'OrderCancellationRequested')`, number.String())
		if facts != 1 {
			t.Errorf("order %s: %d facts of the race", number, facts)
		}
	}
}

// owner is a service that owns a step: the shell's own routes over a door of its own would be billing's; here only what orders sees of it matters.
func TestResolveIsPassedToTheOwner(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heard []string
	answer := func(w http.ResponseWriter, _ *http.Request) {
		web.JSON(w, 200, map[string]any{"order": 1, "step": "payment", "why": "resolved: by hand"})
	}
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body participant.Resolution
		if !web.Read(w, req, 1<<16, &body) {
			return
		}
		mu.Lock()
		heard = append(heard, fmt.Sprintf("%s %s %+v", req.Method, req.URL.Path, body))
		reply := answer
		mu.Unlock()
		reply(w, req)
	}))
	defer owner.Close()
	r := newRig(t, func(c *Config) {
		c.BillingURL = owner.URL
		c.ShippingURL = "http://127.0.0.1:1"
		c.RequestTimeout = 5e9
	})
	r.sell([3]string{"A", "1.00", "GBP"})
	number := r.place("c", Item{"A", 1}).Number
	path := "/v1/orders/" + number.String()

	got := r.call("POST", path+"/resolve", `{"step":"payment","evidence":"refund 77 of the bank","money_moved":true}`)
	if got.status != 200 || read[Passed](t, got) != (Passed{Number: number, Step: "payment", Owner: "billing", Why: "resolved: by hand"}) {
		t.Errorf("resolve: %s", got)
	}
	if got := r.call("POST", path+"/retry", `{"step":"payment"}`); got.status != 200 {
		t.Errorf("retry: %s", got)
	}
	mu.Lock()
	want := []string{
		"POST " + path + "/resolve {Step:payment Evidence:refund 77 of the bank MoneyMoved:true}",
		"POST " + path + "/retry {Step:payment Evidence: MoneyMoved:false}",
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("the owner heard (-want +got):\n%s", diff)
	}
	answer = func(w http.ResponseWriter, _ *http.Request) { web.Fail(w, 409, "the step is not stuck: done") }
	mu.Unlock()
	if got := r.call("POST", path+"/retry", `{"step":"payment"}`); got.status != 409 || got.problem(t).Detail != "the step is not stuck: done" {
		t.Errorf("a refusal: %s", got)
	}
	if got := r.call("POST", path+"/retry", `{"step":"shipment"}`); got.status != 502 {
		t.Errorf("an owner that is away: %s", got)
	}
	if got := r.call("POST", path+"/retry", `{"step":"stock"}`); got.status != 503 {
		t.Errorf("an owner without address: %s", got)
	}
	if got := r.call("POST", "/v1/orders/999/retry", `{"step":"payment"}`); got.status != 404 {
		t.Errorf("no order: %s", got)
	}
	for body, where := range map[string]string{
		`{"step":"screening","evidence":"x"}`: "body.step", `{"step":"payment","evidence":""}`: "body.evidence", `{"step":"payment"}`: "body",
	} {
		if got := r.call("POST", path+"/resolve", body); got.status != 422 || !got.names(t, where) {
			t.Errorf("%s: %s", body, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(heard) != 3 {
		t.Errorf("the owner heard refused requests: %v", heard)
	}
}

// TestActionsAreTheRules checks, for every state that the order passes, that an action is offered exactly when the request is then applied.
func TestActionsAreTheRules(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	a := &api{cfg: r.cfg}
	for _, facts := range [][]event.Fact{
		nil, {event.PaymentTaken{Amount: 100, Currency: "GBP"}}, {event.StockRejected{Reason: "x"}}, {event.PaymentDeclined{Reason: "x"}},
	} {
		for name, request := range map[string]decision.Request{"cancel": decision.Cancel{By: event.ByCustomer}, "ship": decision.Ship{}, "deliver": decision.Deliver{}} {
			number := r.place("c", Item{"A", 1}).Number
			r.hear(number, facts...)
			state, _, err := r.door.Get(t.Context(), number)
			if err != nil {
				t.Fatal(err)
			}
			offered := strings.Contains(strings.Join(a.actions(number, state), " "), name)
			said, err := r.door.Request(t.Context(), number, decision.Requested{ID: participant.NewID(), At: participant.Now(), Request: request}, nil)
			if err != nil || offered != (said.Verdict == decision.Applied) {
				t.Errorf("%s in %s: offered %v, verdict %s, %v", name, state.Status, offered, said.Verdict, err)
			}
		}
	}
}
