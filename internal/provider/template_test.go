package provider_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/outside"
	"chorus/internal/provider"
	"chorus/internal/providertest"
)

// seedLike has the undos of A67, with values from the stored request and the stored answer.
func seedLike(url string) string {
	return strings.ReplaceAll(`
routes:
  stock: [{to: inventory}]
  screening: [{to: fraud}]
  shipment: [{to: carrier}]
  payment: [{to: billing}]
providers:
  fraud: {url: "URL/api/fraud"}
  inventory:
    url: "URL/api/inventory/reserve"
    answers: {reference: $.reservationId}
    unknown: repeat
    revert: {url: "URL/api/inventory/{reservationId}/release", values: {reservationId: "response:$.reservationId"}}
  carrier:
    url: "URL/api/shipping"
    answers: {reference: $.shipmentId}
    unknown: repeat
    revert:
      method: POST
      url: "URL/api/shipping/{shipmentId}/cancel{?who}"
      values: {shipmentId: $.shipmentId, who: "request:$.customer"}
      body: {reason: "{reason}", shipmentId: "{shipmentId}", orderId: "{order}", customerId: "{who}", note: "order {order} of {who}", fixed: [1, true, null]}
  billing:
    url: "URL/api/billing"
    answers: {reference: $.transaction.id}
    unknown: cancel
    body:
      orderId: "{order}"
      sum: {value: "{amount}", currency: "{currency}"}
      minor: "{minor}"
      items: "{lines}"
    values:
      amount: {from: "request:$.amount", as: decimal, currency: "request:$.currency"}
      minor: "request:$.amount"
      currency: "request:$.currency"
      lines: "request:$.lines"
    cancel: {url: "URL/api/billing/void/{key}", method: PUT}
    revert:
      method: POST
      url: "URL/api/billing/{id}/refund"
      values: {id: $.transaction.id, amount: {from: "request:$.amount", as: decimal, currency: "request:$.currency"}}
      body: {amount: "{amount}", reason: "{reason}"}
`, "URL", url)
}

func prepare(t *testing.T, set *provider.Set, c provider.Call) provider.Request {
	t.Helper()
	r, err := set.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestUndoTemplates: values are escaped for where they land (A64, C33): a path segment, a query, a JSON text; the reason travels.
func TestUndoTemplates(t *testing.T) {
	t.Parallel()
	set := openAll(t, seedLike("http://h"))
	nasty := `x/../y?a=1&b="2" é` + "\u2028"
	undo := provider.Call{Op: decision.Undo, Phase: decision.Attempting, Key: "shipment-8842-0-undo", Order: 8842, Reference: "ref", Reason: `says "no"`,
		DoBody: marshal(t, outside.Booking{Order: 8842, Customer: nasty, Units: 1}), DoAnswer: []byte(`{"shipmentId":"S 1/2","reservationId":9007199254740993}`)}
	undo.Provider = "carrier"
	r := prepare(t, set, undo)
	if want := "http://h/api/shipping/S%201%2F2/cancel?who=x%2F..%2Fy%3Fa%3D1%26b%3D%222%22%20%C3%A9%E2%80%A8"; r.URL != want {
		t.Errorf("%s\nwant %s", r.URL, want)
	}
	var got map[string]any
	if err := json.Unmarshal(r.Body, &got); err != nil {
		t.Fatalf("%v in %s", err, r.Body)
	}
	want := map[string]any{"reason": `says "no"`, "shipmentId": "S 1/2", "orderId": 8842.0, "customerId": nasty, "note": "order 8842 of " + nasty, "fixed": []any{1.0, true, nil}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !r.Rendered || !set.History("carrier") {
		t.Error("the body is not kept, or its sources are not asked for")
	}
	undo.Provider = "inventory"
	r = prepare(t, set, undo)
	if r.Method != "DELETE" || r.URL != "http://h/api/inventory/9007199254740993/release" || r.Body != nil {
		t.Errorf("%s %s %s", r.Method, r.URL, r.Body)
	}
}

// TestMissingValueIsNoRequest: an undo with a hole in it is not sent; the call rests where people see it (A63, G10).
func TestMissingValueIsNoRequest(t *testing.T) {
	t.Parallel()
	set := openAll(t, seedLike("http://h"))
	full := provider.Call{Provider: "carrier", Op: decision.Undo, Phase: decision.Attempting, Key: "k", Order: 1, Reference: "r",
		DoBody: []byte(`{"customer":"ada"}`), DoAnswer: []byte(`{"shipmentId":"s"}`)}
	prepare(t, set, full)
	for name, change := range map[string]func(*provider.Call){
		"erased request":            func(c *provider.Call) { c.DoBody = nil },
		"no answer":                 func(c *provider.Call) { c.DoAnswer = nil },
		"unreadable answer":         func(c *provider.Call) { c.DoAnswer = []byte("<html>") },
		"answer without the id":     func(c *provider.Call) { c.DoAnswer = []byte(`{"id":1}`) },
		"null":                      func(c *provider.Call) { c.DoAnswer = []byte(`{"shipmentId":null}`) },
		"id that leads elsewhere":   func(c *provider.Call) { c.DoAnswer = []byte(`{"shipmentId":".."}`) },
		"empty id":                  func(c *provider.Call) { c.DoAnswer = []byte(`{"shipmentId":""}`) },
		"request without the value": func(c *provider.Call) { c.DoBody = []byte(`{}`) },
	} {
		c := full
		change(&c)
		_, err := set.Prepare(c)
		var unknown *provider.UnknownError
		if !errors.As(err, &unknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPRV10MinorUnits: amounts go out in the digits of their currency, by the table (HUF has two there); a refund uses the same one.
func TestPRV10MinorUnits(t *testing.T) {
	t.Parallel()
	set := openAll(t, seedLike("http://h"))
	for _, c := range []struct {
		minor    int64
		currency string
		want     string
	}{
		{10000, "JPY", "10000"}, {1234, "KWD", "1.234"}, {1000, "EUR", "10.00"}, {50000, "HUF", "500.00"}, {1, "JPY", "1"},
		{5, "EUR", "0.05"}, {5, "KWD", "0.005"}, {9007199254740991, "EUR", "90071992547409.91"},
	} {
		body := marshal(t, outside.Charge{Order: 1, Amount: c.minor, Currency: c.currency, Lines: []outside.Priced{{Name: "A", Quantity: 1, Amount: c.minor}}})
		r := prepare(t, set, provider.Call{Provider: "billing", Op: decision.Do, Phase: decision.Attempting, Key: "k", Order: 1, Body: body})
		var got struct {
			Sum   struct{ Value, Currency string }
			Minor int64
			Items []outside.Priced
		}
		if err := json.Unmarshal(r.Body, &got); err != nil {
			t.Fatalf("%v in %s", err, r.Body)
		}
		if got.Sum.Value != c.want || got.Sum.Currency != c.currency || got.Minor != c.minor || len(got.Items) != 1 {
			t.Errorf("%s", r.Body)
		}
		undo := prepare(t, set, provider.Call{Provider: "billing", Op: decision.Undo, Phase: decision.Attempting, Key: "k-undo", Order: 1, Reference: "r", Reason: "CUSTOMER",
			DoBody: body, DoAnswer: []byte(`{"transaction":{"id":"t-1"}}`)})
		if want := `{"amount":"` + c.want + `","reason":"CUSTOMER"}`; string(undo.Body) != want || undo.URL != "http://h/api/billing/t-1/refund" {
			t.Errorf("%s %s, want %s", undo.URL, undo.Body, want)
		}
	}
	_, err := set.Prepare(provider.Call{Provider: "billing", Op: decision.Do, Phase: decision.Attempting, Key: "k", Order: 1, Body: marshal(t, outside.Charge{Amount: 1, Currency: "XXQ", Lines: []outside.Priced{}})})
	if err == nil || !strings.Contains(err.Error(), "unknown currency") {
		t.Errorf("an unknown currency: %v", err)
	}
}

// TestRenderedBodyIsKept: what an earlier attempt was sent with is sent again, to the byte, whatever the templates say by now (PRV-03).
func TestRenderedBodyIsKept(t *testing.T) {
	t.Parallel()
	set := openAll(t, seedLike("http://h"))
	r := prepare(t, set, provider.Call{Provider: "billing", Op: decision.Do, Phase: decision.Attempting, Key: "k", Order: 1,
		Body: marshal(t, outside.Charge{Amount: 1, Currency: "EUR", Lines: []outside.Priced{}}), Rendered: []byte(`{"as":"before"}`)})
	if string(r.Body) != `{"as":"before"}` || r.Rendered {
		t.Errorf("%s, %t", r.Body, r.Rendered)
	}
}

// TestUnknownWithoutLookUp: a provider that cannot be asked is asked by a repeat of the same request, or its key is cancelled.
func TestUnknownWithoutLookUp(t *testing.T) {
	t.Parallel()
	p := providertest.Start(t)
	set := openAll(t, seedLike(p.URL))
	ask := func(name string, phase decision.CallPhase, a providertest.Answer) decision.Result {
		p.Then(a)
		got, _ := send(t, set, provider.Call{Provider: name, Op: decision.Do, Phase: phase, Key: "k-1", Order: 1,
			Body: marshal(t, outside.Charge{Amount: 1, Currency: "EUR"})})
		return got
	}
	for _, c := range []struct {
		name     string
		provider string
		answer   providertest.Answer
		want     decision.ResultKind
	}{
		{"repeat finds it", "carrier", providertest.JSON(200, `{"shipmentId":"s"}`), decision.OK},
		{"repeat is refused", "carrier", providertest.JSON(409, `{}`), decision.Refusal},
		{"repeat is lost", "carrier", providertest.HTML(500), decision.Lost},
		{"cancel says it is nothing", "billing", providertest.JSON(200, `{}`), decision.Refusal},
		{"cancel without a body", "billing", providertest.Answer{Status: 204}, decision.Refusal},
		{"cancel is refused", "billing", providertest.JSON(409, `{}`), decision.Lost},
		{"cancel is busy", "billing", providertest.HTML(503), decision.Busy},
	} {
		if got := ask(c.provider, decision.Asking, c.answer); got.Kind != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	seen := p.Requests()
	if first, last := seen[0], seen[len(seen)-1]; first.Method+first.Path+first.Key() != "POST/api/shippingk-1" || last.Method+last.Path != "PUT/api/billing/void/k-1" {
		t.Errorf("%s %s, %s %s", first.Method, first.Path, last.Method, last.Path)
	}
	// Nothing can be ended at a provider without cancel by key: the call is for a person.
	r := prepare(t, set, provider.Call{Provider: "carrier", Op: decision.Do, Phase: decision.Ending, Key: "k-1", Order: 1})
	got, x := set.Send(t.Context(), r)
	if got.Kind != decision.Refusal || x.Err == "" || r.Method != provider.None {
		t.Errorf("%+v, %+v", got, x)
	}
}
