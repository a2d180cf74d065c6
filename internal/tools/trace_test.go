package tools

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chorus/internal/audit"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/gap"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/tracker"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// story is a trace of an order that waits for its payment.
func story() traced {
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.Local)
	placed := tracker.Fact{
		ID: event.Derive(at, event.Orders, 8842, "OrderPlaced", 0), Type: "OrderPlaced", Owner: event.Orders, OccurredAt: at,
		Topic: "orders.events", Partition: 2, Offset: 17,
	}
	ended := at.Add(2 * time.Second)
	return traced{
		Timeline: tracker.Timeline{
			Order: 8842, Status: order.Placed, StatusText: "placed", Customer: "ada\x1b[2J", Currency: "GBP", Total: 750,
		},
		Waits: []tracedWait{{
			Wait: tracker.Wait{
				Owner: event.Billing, Step: event.PaymentStep, Expects: []event.Type{"PaymentTaken", "PaymentDeclined"},
				Since: at, Until: at.Add(time.Minute), Overdue: true,
			},
			Gap: gap.Gap{Kind: gap.Failed, Who: event.Billing, Why: "the payment at pay-standard fails", Since: at},
		}},
		Audit: []tracedAction{{Participant: event.Billing, Entry: audit.Entry{At: ended, Who: "kim", Action: audit.Retry, Subject: "payment", Why: "it is back"}}},
		Facts: []tracedFact{{Fact: placed, Why: "placed", Verdicts: []tracedVerdict{
			{Participant: event.Inventory, Verdict: inspect.Verdict{Verdict: "applied", Why: "look on the shelf", Duplicates: 2}},
			{Participant: event.Fraud},
		}}},
		Calls: []tracedCall{{Participant: event.Billing, CallView: intent.CallView{
			Step: event.PaymentStep, Op: decision.Do, Provider: "pay-standard", Key: "k", Phase: decision.Asking, CreatedAt: at,
			Attempts: []intent.AttemptView{
				{N: 1, Kind: decision.Attempting, Method: "PUT", URL: "http://pay/x", StartedAt: at, EndedAt: &ended, Result: decision.Lost, Error: "timeout", DurationMS: 2000},
				{N: 2, Kind: decision.Asking, Method: "GET", URL: "http://pay/x", StartedAt: ended},
			},
		}}},
		Missing: []missing{{Participant: event.Shipping, Reason: "connection refused"}},
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	to := &said{}
	url := serve(t, map[string]http.HandlerFunc{"GET /v1/orders/8842/trace": answer(story())})
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{8842}}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(),
		"order 8842  PLACED  7.50 GBP  ada [2J", "orders states OrderPlaced: placed  orders.events/2@17, ",
		"inventory applied OrderPlaced: look on the shelf (came 2 more times)", "fraud has not handled OrderPlaced yet",
		"billing: do payment at pay-standard  ASK  key k",
		"09:00:00.000  billing do #1 attempt PUT http://pay/x  lost: timeout in 2000 ms", "billing do #2 ask GET http://pay/x  under way",
		"for PaymentTaken or PaymentDeclined, from billing (payment), since 09:00:00.000", "until 09:01:00.000, overdue",
		"failed, billing: the payment at pay-standard fails", "kim retry payment at billing: it is back",
		"shipping does not answer: connection refused",
	)
	to.out.Reset()
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(true), Order: Number{8842}}); err != nil {
		t.Fatal(err)
	}
	var back traced
	if err := json.Unmarshal(to.out.Bytes(), &back); err != nil || len(back.Facts) != 1 || len(back.Facts[0].Verdicts) != 2 {
		t.Errorf("%v: %s", err, to.out.String())
	}
}

// An order is told before the tracker has read of it, with what keeps it from there; one that is not there is told to be.
func TestTraceOfWhatTheTrackerHasNotRead(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	unknown := func(w http.ResponseWriter, _ *http.Request) {
		web.Fail(w, http.StatusNotFound, "the tracker knows nothing")
	}
	url := serve(t, map[string]http.HandlerFunc{
		"GET /v1/orders/1/trace": unknown,
		"GET /v1/orders/2/trace": func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) < 3 {
				now := time.Now()
				answer(traced{
					Timeline: tracker.Timeline{Order: 2, Status: order.Placed, Currency: "GBP", Total: 750, PlacedAt: now.Add(-time.Minute)}, Unread: true,
					Waits: []tracedWait{{
						Wait: tracker.Wait{Owner: event.Orders, Expects: []event.Type{"OrderPlaced"}, Since: now, Until: now},
						Gap:  gap.Gap{Kind: gap.NotPublished, Who: gap.CDC, Why: "it is not in orders.events"},
					}},
				})(w, r)
				return
			}
			s := story()
			s.Status, s.Waits, s.Missing = order.Confirmed, nil, nil // at rest, and not ended
			s.Facts[0].Verdicts[1].Verdict = inspect.Verdict{Verdict: "applied"}
			answer(s)(w, r)
		},
	})
	for _, follow := range []bool{false, true} {
		err := run(t, &TraceCmd{Front: Front{URL: url}, Output: (&said{}).output(false), Order: Number{1}, Follow: follow})
		if code(err) != 1 || err == nil || err.Error() != "there is no order 1" {
			t.Errorf("follow %t: got %v", follow, err)
		}
	}
	to := &said{}
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{2}}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "order 2  PLACED  7.50 GBP", "placed 1m0s ago, and the view has read no fact of it", "not published, cdc: it is not in orders.events")
	to.out.Reset()
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{2}, Follow: true}); err != nil {
		t.Fatal(err)
	}
	if contains(t, to.out.String(), "CONFIRMED"); strings.Count(to.out.String(), "not published, cdc") != 1 {
		t.Errorf("printed\n%s", to.out.String())
	}
}

// A followed trace prints what is new, once, and ends with the order.
func TestTraceFollow(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	url := serve(t, map[string]http.HandlerFunc{"GET /v1/orders/8842/trace": func(w http.ResponseWriter, r *http.Request) {
		s := story()
		switch asked.Add(1) {
		case 1:
		case 2:
			http.Error(w, "restarting", http.StatusBadGateway)
			return
		default:
			s.Status, s.Waits, s.Missing = order.Failed, nil, nil
			s.Facts[0].Verdicts[1].Verdict = inspect.Verdict{Verdict: "applied", Why: "ask the bureau"}
		}
		answer(s)(w, r)
	}})
	to := &said{}
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{8842}, Follow: true}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "PLACED", "FAILED", "fraud applied OrderPlaced: ask the bureau")
	for _, once := range []string{"states OrderPlaced", "look on the shelf", "under way"} {
		if n := strings.Count(to.out.String(), once); n != 1 {
			t.Errorf("%q is printed %d times", once, n)
		}
	}
}
