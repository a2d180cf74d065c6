package orders

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"chorus/internal/event"
)

// TestTraceReachesTheFacts: the W3C trace context of a request is that of every fact that follows from it, here and, through their causes, everywhere. A
// malformed one costs nothing (CON-04).
func TestTraceReachesTheFacts(t *testing.T) {
	t.Parallel()
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1,other=2"
	var passed http.Header
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = r.Header
		w.Write([]byte(`{"why":"done"}`))
	}))
	t.Cleanup(owner.Close)
	r := newRig(t, func(c *Config) { c.BillingURL = owner.URL })
	r.sell([3]string{"A", "1.00", "GBP"})
	trace := func(number event.OrderNo, fact string) (parent, state *string) {
		t.Helper()
		if err := r.db.QueryRow(t.Context(), `SELECT traceparent, tracestate FROM outbox WHERE aggregateid = $1 AND type = $2`,
			number.String(), fact).Scan(&parent, &state); err != nil {
			t.Fatal(err)
		}
		return parent, state
	}
	is := func(got *string, want string) bool { return got == nil && want == "" || got != nil && *got == want }

	got := r.call("POST", "/v1/orders", one, "traceparent", parent, "tracestate", "vendor=1", "tracestate", "other=2")
	number := read[Accepted](t, got).Number
	if p, s := trace(number, "OrderPlaced"); !is(p, parent) || !is(s, state) {
		t.Errorf("placed with %v %v", p, s)
	}
	r.call("POST", "/v1/orders/"+number.String()+"/cancel", "", "Traceparent", parent)
	if p, s := trace(number, "OrderCancellationRequested"); !is(p, parent) || !is(s, "") {
		t.Errorf("cancelled with %v %v", p, s)
	}
	if got := r.call("POST", "/v1/orders/"+number.String()+"/resolve", `{"step":"payment","evidence":"x"}`, "Traceparent", parent, "Tracestate", state); got.status != 200 {
		t.Fatalf("%s", got)
	}
	if passed.Get("Traceparent") != parent || passed.Get("Tracestate") != state {
		t.Errorf("passed on with %v", passed)
	}
	for _, headers := range [][]string{
		nil, {"Traceparent", ""}, {"Traceparent", "x"}, {"Traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "Tracestate", state},
		{"Traceparent", parent, "Traceparent", parent}, {"Tracestate", state},
	} {
		number := read[Accepted](t, r.call("POST", "/v1/orders", one, headers...)).Number
		if p, s := trace(number, "OrderPlaced"); p != nil || s != nil {
			t.Errorf("%q: placed with %v %v", headers, p, s)
		}
	}
}
