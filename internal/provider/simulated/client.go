package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Client sets and inspects the simulated providers: the side that a real provider keeps to itself. The services do not
// use it.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the process at base, such as "http://127.0.0.1:8090".
func NewClient(base string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 30 * time.Second}}
}

// An APIError is an answer other than success.
type APIError struct {
	Status  int
	Code    string
	Message string
	Fields  []FieldError
}

func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s: %s", e.Status, e.Code, e.Message)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s %s", f.Field, f.Message)
	}
	return b.String()
}

// SetBehaviour puts b in force at a provider and returns all rules that now are. Nothing set but Operation and Order
// clears that rule. An *APIError with status 400 names the fields that are wrong; an unknown provider gets 404.
func (c *Client) SetBehaviour(ctx context.Context, provider string, b Behaviour) ([]Behaviour, error) {
	var rules []Behaviour
	err := c.call(ctx, http.MethodPut, "/"+url.PathEscape(provider)+"/behaviour", b, &rules)
	return rules, err
}

// ClearBehaviour takes away all rules of a provider.
func (c *Client) ClearBehaviour(ctx context.Context, provider string) error {
	return c.call(ctx, http.MethodDelete, "/"+url.PathEscape(provider)+"/behaviour", nil, nil)
}

// Behaviour lists the rules in force at a provider, with the calls that are left to each.
func (c *Client) Behaviour(ctx context.Context, provider string) ([]Behaviour, error) {
	var rules []Behaviour
	err := c.call(ctx, http.MethodGet, "/"+url.PathEscape(provider)+"/behaviour", nil, &rules)
	return rules, err
}

// Order returns the ledger's entries of one order: none when no provider knows it.
func (c *Client) Order(ctx context.Context, order int64) ([]LedgerEntry, error) {
	var page LedgerPage
	err := c.call(ctx, http.MethodGet, "/ledger?order="+strconv.FormatInt(order, 10), nil, &page)
	return page.Entries, err
}

// Ledger goes through the whole ledger in ascending order of orders, page by page. It ends with the first error. Pages
// are read one after another, so calls made meanwhile may or may not be in it.
func (c *Client) Ledger(ctx context.Context) iter.Seq2[LedgerEntry, error] {
	return func(yield func(LedgerEntry, error) bool) {
		for after := int64(0); ; {
			var page LedgerPage
			path := fmt.Sprintf("/ledger?after=%d&limit=%d", after, maxPage)
			if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
				yield(LedgerEntry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == 0 {
				return
			}
			after = page.Next
		}
	}
}

// Summary returns the ledger in total, from one snapshot.
func (c *Client) Summary(ctx context.Context) (Summary, error) {
	var sum Summary
	err := c.call(ctx, http.MethodGet, "/ledger/summary", nil, &sum)
	return sum, err
}

// Requests returns the calls in the log that f chooses, in the order in which they were decided.
func (c *Client) Requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	q := url.Values{}
	for name, n := range map[string]int64{"order": f.Order, "after": f.After, "limit": int64(f.Limit)} {
		if n != 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	for name, v := range map[string]string{"provider": f.Provider, "operation": f.Operation} {
		if v != "" {
			q.Set(name, v)
		}
	}
	var found []Request
	err := c.call(ctx, http.MethodGet, "/requests?"+q.Encode(), nil, &found)
	return found, err
}

// Balance lists a customer's accounts at a payment processor; none when the customer was never seen there.
func (c *Client) Balance(ctx context.Context, provider, customer string) ([]Balance, error) {
	var found []Balance
	err := c.call(ctx, http.MethodGet, balancePath(provider, customer), nil, &found)
	return found, err
}

// SetBalance makes a customer's balance at a payment processor what is given, in minor units of the currency.
func (c *Client) SetBalance(ctx context.Context, provider, customer, currency string, balance int64) error {
	return c.call(ctx, http.MethodPut, balancePath(provider, customer), fundBody{currency, balance}, nil)
}

func balancePath(provider, customer string) string {
	return "/" + url.PathEscape(provider) + "/balances/" + url.PathEscape(customer)
}

// call sends one request and decodes a 200 into the value given, if any.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request to providers: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("make request to providers: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask providers: %w", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read answer of providers to %s %s: %w", method, path, err)
	}
	if res.StatusCode != http.StatusOK {
		var p problem
		if json.Unmarshal(data, &p) != nil || p.Code == "" {
			p = problem{Code: "unexpected", Message: http.StatusText(res.StatusCode)}
		}
		return fmt.Errorf("%s %s: %w", method, path, &APIError{res.StatusCode, p.Code, p.Message, p.Fields})
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode answer of providers to %s %s: %w", method, path, err)
	}
	return nil
}
