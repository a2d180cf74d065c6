package experiment

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"chorus/internal/event"
	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// people are about what customers and operators do and see.
func people() []Experiment {
	return []Experiment{
		{Name: "notifications", Seed: "E13", Title: "a customer is told of every change, once", run: notifications,
			About: "Elsewhere the first change is told and all later ones are swallowed, because the bookkeeping is by kind and not by event."},
		{Name: "quick-updates", Seed: "E21", Title: "two changes in a row", run: quickUpdates,
			About: "Elsewhere the second one fails with the text of a unique index. Here each goes through, or is told why not."},
		{Name: "no-remove", Seed: "E22", Title: "an order cannot be hidden while something is held for it", run: noRemove,
			About: "Elsewhere Remove takes the order out of sight, with its stock and its charge. Here there is no such thing: who wants to be rid of an order cancels it."},
		{Name: "inspect", Seed: "E23", Title: "where is the order, and what does it wait for?", run: inspectOrder,
			About: "Facts, each call with each attempt, and for what is outstanding: what is expected, from whom, since when and until when. chorus trace ORDER shows the same."},
	}
}

// trace is what the console knows of an order, as far as experiments ask.
type trace struct {
	Facts []struct {
		Type  event.Type        `json:"type"`
		Owner event.Participant `json:"owner"`
	} `json:"facts"`
	Calls []struct {
		Participant event.Participant `json:"participant"`
		Provider    string            `json:"provider"`
		Attempts    []struct {
			EndedAt *time.Time `json:"endedAt"`
		} `json:"attempts"`
	} `json:"calls"`
	Waits []struct {
		Owner event.Participant `json:"owner"`
		Step  event.Step        `json:"step"`
		Until time.Time         `json:"until"`
	} `json:"waits"`
}

func (t *trial) trace(ctx context.Context, no event.OrderNo) (v trace, err error) {
	err = t.lab.Front.Do(ctx, http.MethodGet, "/v1/orders/"+no.String()+"/trace", nil, &v)
	return v, err
}

// ignore keeps waiting for whoever has no answer yet.
func ignore(err error) error {
	if passing(err) {
		return nil
	}
	return err
}

// told waits until the customer has been told something, and returns what and how often.
func (t *trial) told(no event.OrderNo, last event.Type) (times map[event.Type]int64) {
	t.until("the customer to be told of "+string(last), func(ctx context.Context) (bool, error) {
		var page struct {
			Told []struct {
				Order event.OrderNo        `json:"order"`
				Times map[event.Type]int64 `json:"times"`
			} `json:"told"`
		}
		err := t.lab.Notifications.Do(ctx, http.MethodGet, fmt.Sprintf("/v1/inspect/told?after=%d&limit=1", no-1), nil, &page)
		if err == nil && len(page.Told) == 1 && page.Told[0].Order == no {
			times = page.Told[0].Times
		}
		return times[last] > 0, ignore(err)
	})
	return times
}

func notifications(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.must(no, "ship", struct{}{})
	t.must(no, "deliver", struct{}{})
	t.step("It is shipped, and delivered.")
	times := t.told(no, "OrderDelivered")
	for _, typ := range []event.Type{"OrderConfirmed", "OrderShipped", "OrderDelivered"} {
		t.expectCount(fmt.Sprintf("times that the customer was told of %s", typ), 1, int(times[typ]))
	}
}

func quickUpdates(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.step("Ship, ship again, deliver, cancel: one after the other without a pause.")
	for _, m := range []struct{ what, want string }{
		{"ship", "200 changed=true"}, {"ship", "200 changed=false"}, {"deliver", "200 changed=true"}, {"cancel", "409 changed=false"},
	} {
		code, changed := t.move(no, m.what, struct{}{})
		t.expect(m.what+" is answered", m.want, fmt.Sprintf("%d changed=%t", code, changed))
	}
	times := t.told(no, "OrderDelivered")
	t.expectCount("times that the customer was told of OrderShipped", 1, int(times["OrderShipped"]))
	t.ends(no, order.Delivered)
}

func noRemove(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.step("DELETE of the order.")
	t.try("delete it", func() error {
		code, err := t.ask(http.MethodDelete, "/v1/orders/"+no.String(), nil, nil)
		t.expectWord("it is", code == http.StatusMethodNotAllowed || code == http.StatusNotFound, "refused", fmt.Sprint("answered ", code))
		return err
	})
	t.try("look at it", func() error {
		v, err := t.look(t.ctx, no)
		t.expect("the order is still", string(order.Confirmed), string(v.Status))
		return err
	})
	t.cancel(no)
	t.ends(no, order.Cancelled)
	t.holds(no, nil, 0)
}

func inspectOrder(t *trial) {
	t.step("Each charge takes a second and a half.")
	t.set(simulated.Behaviour{Operation: do, LatencyMinMs: 1500, LatencyMaxMs: 1500}, processors...)
	no := t.place("ada")
	t.until("it to wait for billing", func(ctx context.Context) (bool, error) {
		v, err := t.trace(ctx, no)
		for _, w := range v.Waits {
			if w.Owner == event.Billing && w.Step == event.PaymentStep {
				t.expectWord("what it waits for has an end", !w.Until.IsZero(), "yes", "no")
				return true, nil
			}
		}
		return false, ignore(err)
	})
	t.step("Asked where it is: it waits for billing, for the payment.")
	t.ends(no, order.Confirmed)
	var seen []string
	t.until("the story to be complete", func(ctx context.Context) (bool, error) {
		v, err := t.trace(ctx, no)
		seen = seen[:0]
		for _, f := range v.Facts {
			seen = append(seen, string(f.Type))
		}
		return len(v.Facts) >= 6, ignore(err)
	})
	t.step("Its story: %s.", list(seen))
	t.expectCount("facts on its timeline", 6, len(seen))
	var providers []string
	t.try("look at its calls", func() error {
		v, err := t.trace(t.ctx, no)
		for _, c := range v.Calls {
			if len(c.Attempts) > 0 && c.Attempts[0].EndedAt != nil {
				providers = append(providers, c.Provider)
			}
		}
		return err
	})
	t.expectCount("calls with their attempts on record", 4, len(providers))
}
