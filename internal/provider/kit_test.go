package provider_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/provider"
)

// usual is a providers file with one provider, "pay", in the form that chorus providers have, and more keys of it.
func usual(url, more string) string {
	return fmt.Sprintf(`
routes:
  stock: [{to: pay}]
  screening: [{to: pay}]
  shipment: [{to: pay}]
  payment: [{to: pay}]
providers:
  pay:
    url: "%[1]s/pay/charges"
    ask: {url: "%[1]s/pay/charges/by-key/{key}"}
    cancel: {url: "%[1]s/pay/charges/by-key/{key}/cancel"}
    revert: {method: POST, url: "%[1]s/pay/charges/{reference}/undo"}
%[2]s`, url, more)
}

// none is an environment without variables.
func none(string) (string, bool) { return "", false }

func parse(t testing.TB, text string) *provider.File {
	t.Helper()
	f, err := provider.Parse("test.yaml", []byte(text), none)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func openSet(t testing.TB, text string) *provider.Set {
	t.Helper()
	set, err := parse(t, text).Set("http://127.0.0.1:1", 5*time.Second, event.PaymentStep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

func open(t *testing.T, url string) *provider.Set {
	t.Helper()
	return openSet(t, usual(url, ""))
}

func attempt(op decision.Op, body string) provider.Call {
	return provider.Call{Provider: "pay", Op: op, Phase: decision.Attempting, Key: "payment-8842-0", Order: 8842,
		Reference: "ch_1", Reason: "CUSTOMER", Body: []byte(body), TraceParent: "00-1-2-01"}
}

func in(phase decision.CallPhase, c provider.Call) provider.Call {
	c.Phase = phase
	return c
}

func send(t *testing.T, set *provider.Set, c provider.Call) (decision.Result, provider.Exchange) {
	t.Helper()
	r, err := set.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	return set.Send(t.Context(), r)
}

// openAll opens the providers of every step.
func openAll(t testing.TB, text string) *provider.Set {
	t.Helper()
	set, err := parse(t, text).Set("http://127.0.0.1:1", 5*time.Second, event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

func readJSON(t testing.TB, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}
