package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/money"
)

// PlaceCmd places an order.
type PlaceCmd struct {
	Front
	Output
	Customer string        `help:"Who orders." required:"" placeholder:"NAME"`
	Items    []string      `help:"What and how many; once for each line." name:"item" required:"" sep:"none" placeholder:"SKU=QTY"`
	Shipping string        `help:"Which carrier: domestic or international." enum:"domestic,international" default:"domestic"`
	Key      string        `help:"Idempotency key: the same command with the same key places no second order." placeholder:"KEY"`
	Wait     bool          `help:"Follow the order to its end."`
	Timeout  time.Duration `help:"With --wait: how long to follow." default:"30m"`
}

// Help is shown by --help.
func (*PlaceCmd) Help() string {
	return `Prints the order's number. The order then makes its way by itself: stock is held, the customer screened, a carrier booked, the payment taken. With --wait the command follows it and prints how it ended.

Exit code: 0 placed (with --wait: confirmed), 2 rejected, failed or cancelled (--wait), 1 anything else.

  chorus place --customer ada --item TEAPOT=1 --wait
  chorus place --customer ada --item TEAPOT=1 --item CUP=6 --shipping international --key ada-2026-01
  chorus place --customer declined-dan --item TEAPOT=1 --wait    (the processors refuse this customer: watch it be undone)

Words in a name force an outcome: "fraud", "review", "declined", "undeliverable" in a customer, "missing" in a SKU.`
}

// cart is the body of POST /v1/orders.
type cart struct {
	Customer string     `json:"customer"`
	Items    []cartItem `json:"items"`
	Shipping string     `json:"shipping"`
}

type cartItem struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// accepted is its answer.
type accepted struct {
	Number   event.OrderNo `json:"number"`
	Link     string        `json:"link"`
	EventID  string        `json:"event_id"`
	Status   string        `json:"status"`
	Total    int64         `json:"total"`
	Currency string        `json:"currency"`
}

// Run places the order.
func (c *PlaceCmd) Run(ctx context.Context, _ *slog.Logger) error {
	items, err := parseItems(c.Items)
	if err != nil {
		return err
	}
	front, err := c.client(ctx)
	if err != nil {
		return err
	}
	var placed accepted
	if err := front.place(ctx, cart{c.Customer, items, c.Shipping}, c.Key, &placed); err != nil {
		return fmt.Errorf("place the order: %w", err)
	}
	if !c.Wait {
		if c.JSON {
			return c.printJSON(placed)
		}
		c.printf("%s\n", placed.Number)
		return nil
	}
	if !c.JSON {
		c.printf("%s\n", placed.Number)
	}
	return c.follow(ctx, front, placed.Number)
}

// place sends the order. An empty key is none.
func (c *client) place(ctx context.Context, body cart, key string, out *accepted) error {
	var headers []string
	if key != "" {
		headers = []string{"Idempotency-Key", key}
	}
	return c.do(ctx, http.MethodPost, "/v1/orders", body, out, headers...)
}

// follow waits for the end and prints it.
func (c *PlaceCmd) follow(ctx context.Context, front *client, no event.OrderNo) error {
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var last string
	raw, view, err := front.untilRest(bounded, no, func(v orderView) {
		if v.NeedsAttention && v.StatusText != last {
			last = v.StatusText
			c.remark("order %s needs a person: %s", no, clean(v.StatusText))
		}
	})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("order %s has not ended after %s: it is %s (chorus trace %s shows what it waits for)", no, c.Timeout, view.Status, no)
	}
	if err != nil {
		return fmt.Errorf("follow order %s: %w", no, err)
	}
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else {
		c.printf("%s  %s  %s\n", view.Status, money.Text(view.Total, view.Currency), clean(view.StatusText))
	}
	if !good(view.Status) {
		return ExitError{Code: codeEndedBadly}
	}
	return nil
}

// How often an order is looked at: soon at first, since most end within a second.
const (
	lookFirst = 50 * time.Millisecond
	lookMost  = time.Second
)

// untilRest looks at an order until it is at rest, or ctx ends. seen is told each view. A cluster that is away for a while is waited for.
func (c *client) untilRest(ctx context.Context, no event.OrderNo, seen func(orderView)) (json.RawMessage, orderView, error) {
	var view orderView
	for pause := lookFirst; ; pause = min(pause*3/2, lookMost) {
		var raw json.RawMessage
		err := c.do(ctx, http.MethodGet, orderPath(no), nil, &raw)
		if err == nil {
			if err = json.Unmarshal(raw, &view); err != nil {
				return nil, view, fmt.Errorf("read order %s: %w", no, err)
			}
			seen(view)
			if atRest(view.Status) {
				return raw, view, nil
			}
		} else if !passing(err) {
			return nil, view, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, view, err
		}
	}
}

func parseItems(texts []string) ([]cartItem, error) {
	items := make([]cartItem, len(texts))
	for i, text := range texts {
		at := strings.LastIndexByte(text, '=')
		if at < 1 {
			return nil, fmt.Errorf("item %q: want SKU=QTY", text)
		}
		n, err := strconv.ParseInt(text[at+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("item %q: the quantity is no whole number", text)
		}
		items[i] = cartItem{text[:at], n}
	}
	return items, nil
}

// sleep waits, and returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
