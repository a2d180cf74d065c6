package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"chorus/internal/event"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// view is what the API says of an order, as far as experiments ask.
type view struct {
	Number         event.OrderNo `json:"number"`
	Status         order.Status  `json:"status"`
	StatusText     string        `json:"status_text"`
	NeedsAttention bool          `json:"needs_attention"`
	Stuck          []event.Step  `json:"stuck"`
}

// cart is what is ordered.
type cart struct {
	Customer string `json:"customer"`
	Items    []item `json:"items"`
	Shipping string `json:"shipping,omitempty"`
}

type item struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

func teapots(customer string, n int) cart {
	return cart{Customer: customer, Items: []item{{"TEAPOT", n}}}
}

// place orders teapots for a customer; words in the name force an outcome.
func (t *trial) place(customer string) event.OrderNo { return t.order(teapots(customer, 3)) }

func (t *trial) order(c cart) event.OrderNo {
	var placed view
	t.try("place an order", func() error { return t.lab.Front.Do(t.ctx, http.MethodPost, "/v1/orders", c, &placed) })
	if t.err == nil {
		t.step("Order %s is placed: %d x %s for %s.", placed.Number, c.Items[0].Quantity, c.Items[0].SKU, c.Customer)
	}
	return placed.Number
}

// quietly places n orders at once and says so in one line.
func (t *trial) quietly(n int, customer string) []event.OrderNo {
	numbers := make([]event.OrderNo, n)
	t.step("%d orders are placed at once.", n)
	t.try("place orders", func() error {
		return atOnce(n, func(i int) error {
			var placed view
			err := t.lab.Front.Do(t.ctx, http.MethodPost, "/v1/orders", teapots(fmt.Sprintf("%s %d", customer, i+1), 1), &placed)
			numbers[i] = placed.Number
			return err
		})
	})
	return numbers
}

// atOnce does something n times, thirty-two at a time.
func atOnce(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

func (t *trial) look(ctx context.Context, no event.OrderNo) (v view, err error) {
	err = t.lab.Front.Do(ctx, http.MethodGet, "/v1/orders/"+no.String(), nil, &v)
	return v, err
}

// passing reports that whoever was asked is being started again: nobody has said anything.
func passing(err error) bool {
	var p *web.Problem
	if errors.As(err, &p) {
		return p.Status >= 500 || p.Status == http.StatusNotFound
	}
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// awaited waits until an order is as wanted, or can never be.
func (t *trial) awaited(no event.OrderNo, what string, wanted func(view) bool) (v view) {
	t.until("order "+no.String()+" to be "+what, func(ctx context.Context) (bool, error) {
		now, err := t.look(ctx, no)
		switch {
		case passing(err):
			return false, nil
		case err != nil:
			return false, err
		}
		v = now
		return wanted(v) || v.Status.Ended(), nil
	})
	return v
}

// ends waits until the order is at rest, and expects a status.
func (t *trial) ends(no event.OrderNo, want order.Status) {
	began := time.Now()
	v := t.awaited(no, string(want), func(v view) bool { return v.Status == want })
	if t.err != nil {
		return
	}
	t.step("Order %s is %s after %s: %s.", no, v.Status, time.Since(began).Round(100*time.Millisecond), v.StatusText)
	t.expect(fmt.Sprintf("order %s ends", no), string(want), string(v.Status))
}

// needs waits until the order needs a person for a step.
func (t *trial) needs(no event.OrderNo, step event.Step) {
	v := t.awaited(no, "stuck", func(v view) bool { return v.NeedsAttention && slices.Contains(v.Stuck, step) })
	if t.err != nil {
		return
	}
	t.step("Order %s needs a person: %s.", no, v.StatusText)
	t.expect(fmt.Sprintf("order %s needs a person for", no), string(step), list(texts(v.Stuck)))
}

func texts[S ~string](all []S) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}

// move asks for something and returns the status of the answer; 200 when it was granted.
func (t *trial) move(no event.OrderNo, what string, body any) (code int, changed bool) {
	var said struct {
		Changed bool `json:"changed"`
	}
	t.try(what+" order "+no.String(), func() (err error) {
		code, err = t.ask(http.MethodPost, "/v1/orders/"+no.String()+"/"+what, body, &said)
		return err
	})
	return code, said.Changed
}

// ask sends a request that may be refused.
func (t *trial) ask(method, path string, in, out any) (code int, err error) {
	err = t.lab.Front.Do(t.ctx, method, path, in, out)
	var p *web.Problem
	if errors.As(err, &p) {
		return p.Status, nil
	}
	return http.StatusOK, err
}

// must asks for something that has to be granted.
func (t *trial) must(no event.OrderNo, what string, body any) {
	code, _ := t.move(no, what, body)
	t.try(what+" order "+no.String(), func() error {
		if code != http.StatusOK {
			return fmt.Errorf("refused with %d", code)
		}
		return nil
	})
}

func (t *trial) cancel(no event.OrderNo) {
	t.must(no, "cancel", map[string]any{"by": event.ByCustomer})
	t.step("The customer cancels order %s.", no)
}

// retry has a stuck step tried again.
func (t *trial) retry(no event.OrderNo, step event.Step) {
	t.must(no, "retry", map[string]any{"step": step})
	t.step("A person has the %s of order %s tried again.", step, no)
}
