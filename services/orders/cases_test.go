package orders

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

// TestCMP13CancelsAndTheDeadlineAtOnce: twenty cancels of each of fifty orders, just when their deadline comes. Each order is cancelled once, by one
// of them or by its deadline, and whoever came too late is told how it stands.
func TestCMP13CancelsAndTheDeadlineAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t, 3*time.Second, nil)
	s.publish(1, event.PaymentDeclined{Reason: "of an order that is none of ours"})
	const rounds, askers = 50, 20
	numbers := make([]event.OrderNo, rounds)
	for i := range numbers {
		numbers[i] = s.place("c", Item{"A", 1}).Number
	}
	until(t, "the first deadline", func() bool {
		return s.count(`SELECT count(*) FROM order_states WHERE order_no = $1 AND (state->>'deadline')::timestamptz < now() + interval '50 ms'`, int64(numbers[0])) == 1
	})
	var all sync.WaitGroup
	var mu sync.Mutex // guards answers and errs
	answers, won := map[string]int{}, map[event.OrderNo]int{}
	for _, number := range numbers {
		for range askers {
			all.Go(func() {
				got, err := s.try("POST", "/v1/orders/"+number.String()+"/cancel", "")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				answers[fmt.Sprint(got.status)]++
				if got.status == 200 && strings.Contains(string(got.body), `"changed":true`) {
					won[number]++
				}
			})
		}
		all.Wait() // an order at a time: some are cancelled before their deadline, some about then, some after it
	}
	if answers["200"]+answers["409"]+answers["429"] != rounds*askers {
		t.Errorf("answers %v", answers)
	}
	for _, number := range numbers {
		until(t, "a cause", func() bool { return s.order(number).Status != order.Placed })
		asked := s.count(`SELECT count(*) FROM outbox WHERE aggregateid = $1 AND type = 'OrderCancellationRequested'`, number.String())
		status := s.order(number).Status
		if asked != 1 || won[number] > 1 || (won[number] == 1) != (status == order.Cancelling) {
			t.Errorf("order %s is %s: cancelled %d times, %d askers were told that they did it", number, status, asked, won[number])
		}
	}
}

// TestPRV10UnknownCurrency: what no table has the digits of cannot be sold, so it cannot be charged either.
func TestPRV10UnknownCurrency(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	for _, code := range []string{"XXX", "XYZ", "gbp", "", "EURO"} {
		got := r.call("PUT", "/v1/products", text(t, []map[string]string{{"sku": "Z", "name": "Z", "price": "1.00", "currency": code}}))
		if got.status != 422 || !got.names(t, "body[0].currency") {
			t.Errorf("%q: %s", code, got)
		}
	}
	for code, price := range map[string]string{"JPY": "10000", "KWD": "1.234", "HUF": "500"} {
		if got := r.call("PUT", "/v1/products", text(t, []map[string]string{{"sku": code, "name": code, "price": price, "currency": code}})); got.status/100 != 2 {
			t.Errorf("%s: %s", code, got)
		}
	}
}
