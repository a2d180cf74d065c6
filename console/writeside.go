package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// product is one of the catalogue.
type product struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Price    string `json:"price"` // decimal in major units
	Currency string `json:"currency"`
}

// basket is an order to be placed.
type basket struct {
	Customer string             `json:"customer"`
	Items    []item             `json:"items"`
	Shipping event.ShippingType `json:"shipping"`
}

type item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// receipt is the answer to a placed order.
type receipt struct {
	Number  event.OrderNo `json:"number"`
	EventID string        `json:"event_id"`
}

// written is an order as the orders service has it, which is ahead of every view.
type written struct {
	Number         event.OrderNo `json:"number"`
	Status         order.Status  `json:"status"`
	StatusText     string        `json:"status_text"`
	NeedsAttention bool          `json:"needs_attention"`
	Customer       string        `json:"customer"`
	Currency       string        `json:"currency"`
	Total          int64         `json:"total"`
	PlacedAt       time.Time     `json:"placed_at"`
	UpdatedAt      time.Time     `json:"updated_at"` // when the status last changed
	EventID        event.ID      `json:"event_id"`   // of its OrderPlaced
	Actions        []string      `json:"actions"`    // what its state machine allows now: "cancel", "resolve:payment"
}

// How long a page waits for the orders service: for an answer, and for an action, which commits.
const (
	askWithin = 2 * time.Second
	actWithin = 15 * time.Second
)

func (s *server) orders() inspect.Client {
	return inspect.Client{Base: s.services.Orders, HTTP: s.http}
}

func (s *server) products(ctx context.Context, after string) (list []product, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var body struct {
		Products []product `json:"products"`
		Next     string    `json:"next"`
	}
	path := fmt.Sprintf("/v1/products?limit=%d", shopPage)
	if after != "" { // the orders API refuses a cursor that is there and empty
		path += "&after=" + url.QueryEscape(after)
	}
	err = s.orders().Do(ctx, http.MethodGet, path, nil, &body)
	return body.Products, body.Next, err
}

// written asks the orders service. A nil order without an error means that there is no such order.
func (s *server) written(ctx context.Context, no event.OrderNo) (*written, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var o written
	err := s.orders().Do(ctx, http.MethodGet, "/v1/orders/"+no.String(), nil, &o)
	var problem *web.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &o, nil
}

// place places an order under an idempotency key: however often it is sent, there is one order.
func (s *server) place(ctx context.Context, key string, b basket) (r receipt, err error) {
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	client := s.orders()
	client.HTTP = &http.Client{Transport: keyed{s.http.Transport, key}}
	return r, client.Do(ctx, http.MethodPost, "/v1/orders", b, &r)
}

// keyed adds the Idempotency-Key to a request.
type keyed struct {
	next http.RoundTripper
	key  string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Idempotency-Key", k.key)
	return k.next.RoundTrip(r)
}

// act has the orders service do something to an order.
func (s *server) act(ctx context.Context, no event.OrderNo, action string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	return s.orders().Do(ctx, http.MethodPost, "/v1/orders/"+no.String()+"/"+action, body, nil)
}
