package tools

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

func place(s *shop, to *said, customer string, wait, asJSON bool) *PlaceCmd {
	s.products["TEA"] = "2.50"
	return &PlaceCmd{
		Front: Front{URL: s.url}, Output: to.output(asJSON), Customer: customer, Items: []string{"TEA=1", "TEA=2"}, Shipping: "domestic",
		Wait: wait, Timeout: time.Minute,
	}
}

func TestPlacePrintsTheNumberAlone(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	if err := run(t, place(s, to, "ada", false, false)); err != nil || to.out.String() != "1\n" {
		t.Errorf("got %q, %v", to.out.String(), err)
	}
	if got := s.orders[0].cart; len(got.Items) != 2 || got.Items[1].Quantity != 2 || got.Shipping != "domestic" {
		t.Errorf("placed %+v", got)
	}
}

func TestPlaceWaitExitCodes(t *testing.T) {
	t.Parallel()
	for customer, want := range map[string]struct {
		code int
		text string
	}{
		"ada":          {0, "CONFIRMED  7.50 GBP  how it stands"},
		"declined dan": {2, "FAILED  7.50 GBP"},
		"stuck sue":    {2, "FAILED"},
	} {
		t.Run(customer, func(t *testing.T) {
			t.Parallel()
			s, to := open(t), &said{}
			err := run(t, place(s, to, customer, true, false))
			if code(err) != want.code || err != nil && err.Error() != "" {
				t.Errorf("exit %d (%v), want %d", code(err), err, want.code)
			}
			contains(t, to.out.String(), "1\n", want.text)
			if strings.Contains(to.out.String(), "\x1b") {
				t.Error("a text of the server steers the terminal")
			}
			if strings.Contains(customer, "stuck") {
				contains(t, to.err.String(), "order 1 needs a person")
			}
		})
	}
}

func TestPlaceJSON(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	if err := run(t, place(s, to, "ada", true, true)); err != nil {
		t.Fatal(err)
	}
	var v orderView
	if err := json.Unmarshal(to.out.Bytes(), &v); err != nil || v.Status != order.Confirmed {
		t.Errorf("%v: %s", err, to.out.String())
	}
}

func TestPlaceFailsWithItsCause(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	c := place(s, to, "ada", true, false)
	c.Items = []string{"=1"}
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "want SKU=QTY") {
		t.Errorf("got %v", err)
	}
	c.Items = []string{"CUP=1"}
	if err := run(t, c); err == nil || err.Error() != "place the order: the order cannot be placed; body.items[0]: not for sale" {
		t.Errorf("got %v", err)
	}
	c.URL = "http://127.0.0.1:1"
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "nothing answers at http://127.0.0.1:1; is the cluster up?") {
		t.Errorf("got %v", err)
	}
	if to.out.Len() > 0 {
		t.Errorf("printed %q", to.out.String())
	}
}

func TestPlaceWaitGivesUp(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	c := place(s, to, "ada", true, false)
	c.Timeout = time.Nanosecond
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "order 1 has not ended after 1ns") {
		t.Errorf("got %v", err)
	}
}

func TestCancelAndShip(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	for range 2 {
		if err := run(t, place(s, &said{}, "ada", false, false)); err != nil {
			t.Fatal(err)
		}
	}
	first := Number{1}
	for _, want := range []string{"order 1 is CANCELLING\n", "order 1 was CANCELLED already\n"} {
		to.out.Reset()
		if err := run(t, &CancelCmd{Front: Front{URL: s.url}, Output: to.output(false), Order: first}); err != nil || to.out.String() != want {
			t.Errorf("got %q, %v; want %q", to.out.String(), err, want)
		}
	}
	to.out.Reset()
	if err := run(t, &ShipCmd{Front: Front{URL: s.url}, Output: to.output(true), Order: Number{2}}); err != nil {
		t.Fatal(err)
	}
	var m moved
	if err := json.Unmarshal(to.out.Bytes(), &m); err != nil || m.Status != order.Shipped || !m.Changed {
		t.Errorf("%v: %s", err, to.out.String())
	}
	err := run(t, &CancelCmd{Front: Front{URL: s.url}, Output: to.output(false), Order: Number{2}})
	if err == nil || err.Error() != "cancel order 2: too late: the order is SHIPPED" {
		t.Errorf("got %v", err)
	}
	if err := run(t, &CancelCmd{Front: Front{URL: s.url}, Output: to.output(false), Order: Number{99}}); err == nil || !strings.Contains(err.Error(), "there is no order 99") {
		t.Errorf("got %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	if err := run(t, place(s, &said{}, "ada", false, false)); err != nil {
		t.Fatal(err)
	}
	c := &ResolveCmd{Front: Front{URL: s.url}, Output: to.output(false), Order: Number{1}, Step: string(event.PaymentStep), Evidence: " "}
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "--evidence is empty") {
		t.Errorf("got %v", err)
	}
	c.Evidence, c.MoneyMoved = "bank portal", true
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "order 1, payment: resolved: bank portal true")
}
