package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// Front is the front address of a cluster: as flag or environment say, else as the folder of a running chorus up does, else the
// one that chorus up has when it is told nothing.
type Front struct {
	URL  string `help:"Front address of the cluster; without it the one of the chorus up in --data." env:"CHORUS_URL" name:"url" placeholder:"URL"`
	Data string `help:"Data folder of the chorus up whose front address is used." default:".chorus" type:"path" env:"CHORUS_DATA"`
}

const defaultFront = "http://127.0.0.1:8080"

// client returns a client of the front address.
func (f Front) client(ctx context.Context) (*client, error) {
	if f.URL != "" {
		return newClient(f.URL), nil
	}
	file, err := running(ctx, f.Data)
	var absent notUp
	switch {
	case errors.As(err, &absent) && !absent.left:
		return newClient(defaultFront), nil
	case err != nil:
		return nil, err
	case file.Addresses["front"] == "":
		return nil, fmt.Errorf("the cluster in %s has no front address: --url, CHORUS_URL", f.Data)
	}
	return newClient(file.Addresses["front"]), nil
}

// client sends requests to one base address.
type client struct {
	base string
	http *http.Client
}

// answerWithin bounds one request. It is longer than any of the cluster's own limits.
const answerWithin = 60 * time.Second

func newClient(base string) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256 // load keeps many requests under way
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return &client{base: strings.TrimRight(base, "/"), http: &http.Client{Transport: transport, Timeout: answerWithin}}
}

// do sends a request with an optional JSON body and reads the answer into out. An answer other than 2xx is a *web.Problem.
func (c *client) do(ctx context.Context, method, path string, in, out any, headers ...string) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		req.Header.Set(audit.Header, audit.User())
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		problem := &web.Problem{Status: resp.StatusCode, Title: resp.Status}
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(problem) // what cannot be read leaves the status
		problem.Status = resp.StatusCode
		return &refused{problem, retryAfter(resp)}
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// refused is an answer other than 2xx.
type refused struct {
	*web.Problem
	after time.Duration // when to ask again; 0 when the server has not said
}

func (r *refused) Error() string { return clean(r.Problem.Error()) }

func (r *refused) Unwrap() error { return r.Problem }

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Minute)
}

// silence says shortly why somebody has not answered. Beside their name the address and the path that an error holds are of no use.
func silence(err error) string {
	var failed *url.Error
	switch timeout := net.Error(nil); {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "is it frozen?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is it down?"
	case errors.As(err, &failed):
		return failed.Err.Error()
	}
	return err.Error()
}

// unreachable puts the usual cause first.
func (c *client) unreachable(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing answers at %s; is the cluster up? (--data, --url, CHORUS_URL)", c.base)
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%s does not answer: is it frozen?", c.base)
	}
	return fmt.Errorf("ask %s: %w", c.base, err)
}

// status returns the HTTP status of a refusal; 0 for any other error.
func status(err error) int {
	var r *refused
	if errors.As(err, &r) {
		return r.Status
	}
	return 0
}

// passing reports whether asking again may help: nobody there, or not at this moment. A refusal for good is not.
func passing(err error) bool {
	switch s := status(err); {
	case s == 0:
		return !errors.Is(err, context.Canceled) && !errors.As(err, new(ExitError))
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s >= 500:
		return true
	}
	var r *refused
	return errors.As(err, &r) && r.Status == http.StatusConflict && r.after > 0 // the same request is still under way
}

// orderView is what the orders API says of an order.
type orderView struct {
	Number         event.OrderNo `json:"number"`
	Status         order.Status  `json:"status"`
	StatusText     string        `json:"status_text"`
	NeedsAttention bool          `json:"needs_attention"`
	Stuck          []event.Step  `json:"stuck"`
	Reason         string        `json:"reason"`
	Customer       string        `json:"customer"`
	PlacedAt       time.Time     `json:"placed_at"`
	Total          int64         `json:"total"`
	Currency       string        `json:"currency"`
}

// atRest reports whether the order has come to its end as whoever placed it sees it: confirmed, or wholly undone.
func atRest(s order.Status) bool { return s.Ended() || good(s) }

// good reports whether the order was confirmed, whatever came after that.
func good(s order.Status) bool {
	return s == order.Confirmed || s == order.Shipped || s == order.Delivered
}

func orderPath(no event.OrderNo) string { return "/v1/orders/" + no.String() }

// Number is an order's number on the command line.
type Number struct {
	event.OrderNo
}

// UnmarshalText is for kong.
func (n *Number) UnmarshalText(text []byte) (err error) {
	n.OrderNo, err = event.ParseOrderNo(string(text))
	return err
}
