package console

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/services/orders/order"
)

var keyField = regexp.MustCompile(`name="key" value="([^"]+)"`)

// basketForm is the shop's form as a browser sends it.
func (r *rig) basketForm(customer string, more ...string) url.Values {
	r.t.Helper()
	found := keyField.FindStringSubmatch(r.get("/", http.StatusOK))
	if found == nil {
		r.t.Fatal("the shop's form has no key")
	}
	form := url.Values{"key": {found[1]}, "customer": {customer}, "shipping": {"domestic"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// order places an order by the shop's form and returns its number.
func (r *rig) order(customer string) event.OrderNo {
	r.t.Helper()
	r.do(http.MethodPost, "/orders", r.basketForm(customer, "buy", "85123A", "q:85123A", "5"), http.StatusOK)
	r.shop.mu.Lock()
	defer r.shop.mu.Unlock()
	return r.shop.last
}

// One click places an order, and the page that it leads to shows it (D10).
func TestPlaceAndSeeAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	form := r.basketForm("ada", "buy", "85123A", "q:85123A", "5", "q:71053", "2")
	body := r.do(http.MethodPost, "/orders", form, http.StatusOK)
	for _, want := range []string{"Order <span class=\"mono\">8842</span>", "OrderPlaced", "ada ordered 5 items for €12.75, domestic", "orders.events/0 @ 0", "Cancel the order", "StockReserved"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the new order lacks %q", want)
		}
	}
	if strings.Contains(body, "Processing") {
		t.Error("the page says that the view is behind")
	}
	r.do(http.MethodPost, "/orders", form, http.StatusOK) // the second click
	form.Del("buy")
	r.do(http.MethodPost, "/orders", form, http.StatusOK) // another button of the same form: both products
	r.shop.locked(func() {
		if len(r.shop.orders) != 2 {
			t.Errorf("%d orders were placed, want 2", len(r.shop.orders))
		}
		if total := r.shop.orders[8843].Total; total != 7*255 {
			t.Errorf("the second order's total is %d", total)
		}
	})
	r.shows("/orders", "8842", "8843", "ada", "€12.75", "inventory · stock")
	r.shows("/", "Newest orders", "8843")
}

func TestBadOrderIsExplainedAndKept(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, test := range map[string]struct {
		fields []string
		want   string
	}{
		"nothing chosen":     {nil, "Nothing is chosen"},
		"no number":          {[]string{"q:85123A", "many"}, "not a whole number"},
		"refused by orders":  {[]string{"q:85123A", "101"}, "body.items[0].quantity: at most 100"},
		"negative, by a buy": {[]string{"q:85123A", "-1", "buy", "85123A"}, "not a whole number"},
	} {
		body := r.do(http.MethodPost, "/orders", r.basketForm("Zoë", test.fields...), http.StatusUnprocessableEntity)
		if !strings.Contains(body, test.want) || !strings.Contains(body, `value="Zoë"`) {
			t.Errorf("%s: the page does not say %q, or has forgotten the customer", name, test.want)
		}
	}
}

// An order whose fate is not known is not placed again by who sends again the form that the page then shows (G7).
func TestUnknownOrderIsNotPlacedTwice(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.shop.locked(func() { r.shop.unsure = true })
	form := r.basketForm("ada", "buy", "85123A")
	body := r.do(http.MethodPost, "/orders", form, http.StatusServiceUnavailable)
	found := keyField.FindStringSubmatch(body)
	if found == nil || !strings.Contains(body, "The same form gives the same order") {
		t.Fatal("the page has no form to send again, or does not say that it may be")
	}
	form.Set("key", found[1])
	r.do(http.MethodPost, "/orders", form, http.StatusOK)
	r.shop.locked(func() {
		if len(r.shop.orders) != 1 {
			t.Errorf("%d orders were placed, want 1", len(r.shop.orders))
		}
	})
}

// When the view is behind, the write side's state is shown, and by how much (D10).
func TestProcessing(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.shop.locked(func() { r.shop.mute = true })
	body := r.do(http.MethodPost, "/orders", r.basketForm("ada", "buy", "71053"), http.StatusOK)
	if !regexp.MustCompile(`Processing: the order is placed. The view has not read it yet, it is \d+ m?s behind`).MatchString(body) || !strings.Contains(body, "Cancel the order") || !strings.Contains(body, ">PLACED<") {
		t.Errorf("the page of an order that the view does not have:\n%s", body)
	}
	r.get("/orders/999999", http.StatusNotFound)
	r.get("/orders/08", http.StatusNotFound)
	r.get("/static/", http.StatusNotFound) // not a list of what is there
}

func harmless(t *testing.T, path, body string) {
	t.Helper()
	for _, bad := range []string{"<img src=x", "<script>alert", `" onmouseover=`, `""onmouseover`} {
		if strings.Contains(body, bad) {
			t.Errorf("%s has %q unescaped", path, bad)
		}
	}
}

// Whatever somebody typed is shown as text, everywhere (UI-01).
func TestNothingTypedRuns(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order(nasty)
	r.others.mu.Lock()
	r.others.why, r.others.away = nasty, "fraud"
	call := charge(no, time.Now())
	call.Problem = nasty
	r.others.calls = append(r.others.calls, call)
	r.others.letters = []inspect.Letter{{ID: 1, State: "open", Participant: "billing", Topic: "orders.events", EventType: nasty, Key: nasty, Reason: nasty, Detail: nasty, FirstFailedAt: time.Now()}}
	r.others.mu.Unlock()
	r.follow(no, event.ID{}, 1, event.Billing, event.PaymentDeclined{Reason: nasty})
	for path, sign := range map[string]string{
		"/": "hanging heart", "/orders": no.String(), "/orders?q=" + url.QueryEscape(nasty): "searched by number", "/dead-letters": "orders.events/0",
		"/dead-letters/billing/1": "would not help",
		"/orders/" + no.String():  "PaymentDeclined", "/flow": "Who reacts", "/lag": "tracker",
	} {
		harmless(t, path, r.shows(path, sign))
	}
	path := "/orders?status=" + url.QueryEscape(nasty)
	harmless(t, path, r.get(path, http.StatusBadRequest))
	resp, err := r.client.Get(r.url + "/orders")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("content security policy %q", csp)
	}
}

// All digits of a number are shown and found (UI-02).
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	r := start(t)
	const no event.OrderNo = 73314510714175488
	r.follow(no, event.ID{}, 0, event.Orders, event.OrderPlaced{Customer: "ada", Currency: "KWD", Total: 9007199254740993, Shipping: event.Domestic, Deadline: time.Now().UTC().Truncate(time.Second)})
	r.shows("/orders", `href="/orders/73314510714175488"`, "KWD\u00a09,007,199,254,740.993")
	r.shop.locked(func() { r.shop.orders[no] = &written{Number: no, Status: order.Placed} })
	if body := r.get("/orders?q=73314510714175488", http.StatusOK); !strings.Contains(body, "Order <span class=\"mono\">73314510714175488") {
		t.Error("the search did not lead to the order")
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	r := start(t)
	no := r.order("ada")
	path := "/orders/" + no.String()
	r.shop.locked(func() {
		r.shop.orders[no].Actions = []string{"cancel", "compensate", "resolve:payment", "something:new"}
	})
	body := r.get(path, http.StatusOK)
	if !strings.Contains(body, "Resolve the payment") || !strings.Contains(body, "Cancel as the operator") || strings.Contains(body, "something") {
		t.Error("the buttons are not those that the orders service allows and the page knows")
	}
	r.do(http.MethodPost, path+"/resolve", url.Values{"step": {"payment"}, "evidence": {" seen the statement "}, "money_moved": {"yes"}}, http.StatusOK)
	refused := r.do(http.MethodPost, path+"/ship", url.Values{}, http.StatusConflict)
	if !strings.Contains(refused, "the order is PLACED, not CONFIRMED") || !strings.Contains(refused, "OrderPlaced") {
		t.Error("a refusal is not shown on the order's page")
	}
	r.do(http.MethodPost, path+"/compensate", url.Values{"reason": {" recalled "}}, http.StatusOK)
	r.do(http.MethodPost, path+"/explode", url.Values{}, http.StatusNotFound)
	r.shows(path, "CANCELLING", "being cancelled by an operator", "PaymentVoided")
	r.shop.locked(func() {
		want := []string{`resolve {"evidence":"seen the statement","money_moved":true,"step":"payment"}`, "ship {}", `cancel {"by":"OPERATOR","reason":"recalled"}`}
		if who := strings.Join(r.shop.actors, " "); who != "console console console" {
			t.Errorf("the orders service was told that %s acted", who)
		}
		if strings.Join(r.shop.acted, "|") != strings.Join(want, "|") {
			t.Errorf("the orders service was asked %q, want %q", r.shop.acted, want)
		}
	})
}

// A page of another site can do nothing here in a visitor's name; a program that sends no such header can.
func TestOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, test := range map[string]struct {
		header, value string
		want          int
	}{
		"another site":   {"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		"another origin": {"Origin", "http://evil.example", http.StatusForbidden},
		"this site":      {"Sec-Fetch-Site", "same-origin", http.StatusUnprocessableEntity},
		"no browser":     {"User-Agent", "curl", http.StatusUnprocessableEntity},
	} {
		for _, path := range []string{"/orders", "/v1/orders"} {
			req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(`{"customer":"x","items":[{"sku":"85123A","quantity":101}],"shipping":"domestic"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(test.header, test.value)
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != test.want {
				t.Errorf("%s, POST %s: %d, want %d", name, path, resp.StatusCode, test.want)
			}
		}
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.shop.locked(func() { r.shop.away = true })
	r.others.mu.Lock()
	r.others.away = "cdc"
	r.others.mu.Unlock()
	got := decode[readiness](t, r.get("/readyz", http.StatusServiceUnavailable))
	if got.Services["orders"].Reason != "database: gone fishing" || got.Services["cdc"].Reason != "starting" || !got.Services["billing"].Ready || !got.Services["console"].Ready {
		t.Errorf("readiness %+v", got)
	}
	r.get("/livez", http.StatusOK)
}

func TestPassedOn(t *testing.T) {
	t.Parallel()
	r := start(t)
	if body := r.get("/v1/products", http.StatusOK); !strings.Contains(body, "85123A") {
		t.Errorf("the catalogue through the console: %s", body)
	}
	const odd = "a=1%&b;c" // is the service's to refuse: without it the answer would be to another question
	req, err := http.NewRequest(http.MethodGet, r.url+"/v1/echo?"+odd, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Connection": "X-Secret", "X-Secret": "1", "X-Forwarded-For": "1.2.3.4", "Idempotency-Key": "k", "Origin": r.url} {
		req.Header.Set(key, value)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var buf strings.Builder
	if _, err := copyAll(&buf, resp.Body); err != nil {
		t.Fatal(err)
	}
	seen := decode[http.Header](t, buf.String())
	if seen.Get("X-Secret") != "" || seen.Get("X-Forwarded-For") != "127.0.0.1" || seen.Get("Idempotency-Key") != "k" ||
		seen.Get("Origin") != "" || seen.Get("Query") != odd {
		t.Errorf("the orders service saw %v", seen)
	}
	r.get("/v1/inspect/orders/1", http.StatusNotFound)
	r.get("/v1/services/nobody/inspect/figures", http.StatusNotFound)
	for _, name := range []string{"billing", "tracker"} {
		if got := decode[inspect.Figures](t, r.get("/v1/services/"+name+"/inspect/figures", http.StatusOK)); string(got.Participant) != name {
			t.Errorf("the figures of %s: %+v", name, got)
		}
	}
	large := strings.NewReader(`{"customer":"` + strings.Repeat("x", mostBody) + `"}`)
	resp, err = r.client.Post(r.url+"/v1/orders", "application/json", large)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body beyond the limit: %d", resp.StatusCode)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n")
	resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that is not framed: %d", resp.StatusCode)
	}
}
