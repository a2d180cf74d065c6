package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// orderView is what the API says of an order, as far as scripts ask.
type orderView struct {
	Number         int64        `json:"number"`
	Status         order.Status `json:"status"`
	Reason         string       `json:"reason"`
	NeedsAttention bool         `json:"needs_attention"`
	Stuck          []string     `json:"stuck"`
}

func (c *system) api(ctx context.Context, method, path string, in, out any) error {
	return inspect.Client{Base: c.front()}.Do(ctx, method, path, in, out)
}

func (c *system) order(ctx context.Context, number string) (v orderView, err error) {
	err = c.api(ctx, http.MethodGet, "/v1/orders/"+number, nil, &v)
	return v, err
}

func cmdPlace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: place VAR ARGS")
	}
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"place", "--json", "--url", c.front()}, args[1:]...)...)
	cmd.Stdout, cmd.Stderr = &out, ts.Stderr()
	ts.Check(cmd.Run())
	var placed struct{ Number int64 }
	ts.Check(json.Unmarshal(out.Bytes(), &placed))
	ts.Setenv(args[0], strconv.FormatInt(placed.Number, 10))
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await ORDER STATUS|attention STEP|overdue|fact TYPE|deadline")
	}
	c, number := of(ts), args[0]
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	switch {
	case len(args) == 3 && args[1] == "fact":
		ts.Check(c.awaitFact(ctx, number, args[2]))
	case len(args) == 3 && args[1] == "attention":
		ts.Check(c.awaitOrder(ctx, number, "a stuck "+args[2], func(v orderView) bool { return v.NeedsAttention && slices.Contains(v.Stuck, args[2]) }))
	case len(args) == 2 && args[1] == "overdue":
		ts.Check(c.awaitOrder(ctx, number, "overdue", func(v orderView) bool { return v.NeedsAttention && len(v.Stuck) == 0 }))
	case len(args) == 2 && args[1] == "deadline":
		ts.Check(c.awaitDeadline(ctx, number))
	case len(args) == 2:
		ts.Check(c.awaitOrder(ctx, number, args[1], func(v orderView) bool { return string(v.Status) == args[1] }))
	default:
		ts.Fatalf("await: what is %q?", args)
	}
}

// awaitOrder waits until the order is as wanted. An order that has ended otherwise will never be.
func (c *system) awaitOrder(ctx context.Context, number, what string, wanted func(orderView) bool) error {
	return c.wait(fmt.Sprintf("order %s to be %s", number, what), func() (bool, error) {
		v, err := c.order(ctx, number)
		switch {
		case away(err):
			return false, nil
		case err != nil || wanted(v):
			return err == nil, err
		case v.Status.Ended():
			return false, fmt.Errorf("it is %s (%s), stuck: %v", v.Status, v.Reason, v.Stuck)
		}
		return false, nil
	})
}

// away reports that the answer was none of the order's: the service is being restarted, or does not know yet.
func away(err error) bool {
	var p *web.Problem
	if errors.As(err, &p) {
		return p.Status >= 500 || p.Status == http.StatusNotFound
	}
	return err != nil
}

// awaitFact waits until the tracker has the fact.
func (c *system) awaitFact(ctx context.Context, number, fact string) error {
	return c.awaitTold(ctx, number, fact, func(json.RawMessage) (bool, error) { return true, nil })
}

// awaitDeadline waits until the order's time is over.
func (c *system) awaitDeadline(ctx context.Context, number string) error {
	return c.awaitTold(ctx, number, "OrderPlaced", func(body json.RawMessage) (bool, error) {
		var placed struct{ Deadline time.Time }
		err := json.Unmarshal(body, &placed)
		return !placed.Deadline.IsZero() && time.Now().After(placed.Deadline), err
	})
}

// awaitTold waits until the tracker has a fact of the type with the body that is wanted.
func (c *system) awaitTold(ctx context.Context, number, fact string, wanted func(body json.RawMessage) (bool, error)) error {
	return c.wait(fmt.Sprintf("%s of order %s", fact, number), func() (bool, error) {
		var trace struct {
			Facts []struct {
				Type string
				Body json.RawMessage
			}
		}
		if err := c.api(ctx, http.MethodGet, "/v1/orders/"+number+"/trace", nil, &trace); err != nil {
			if away(err) {
				err = nil
			}
			return false, err
		}
		for _, f := range trace.Facts {
			if f.Type != fact {
				continue
			}
			if yes, err := wanted(f.Body); yes || err != nil {
				return yes, err
			}
		}
		return false, nil
	})
}

func cmdSpread(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: spread N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			number, err := c.place(ctx, fmt.Sprintf("spread %d", i))
			if err == nil {
				err = c.awaitOrder(ctx, number, "CONFIRMED", func(v orderView) bool { return v.Status == order.Confirmed })
			}
			errs[i] = err
		})
	}
	wg.Wait()
	ts.Check(errors.Join(errs...))
}

// place places an order for one cup.
func (c *system) place(ctx context.Context, customer string) (number string, err error) {
	var placed orderView
	cart := map[string]any{"customer": customer, "items": []map[string]any{{"sku": "CUP", "quantity": 1}}}
	err = c.api(ctx, http.MethodPost, "/v1/orders", cart, &placed)
	return strconv.FormatInt(placed.Number, 10), err
}

func cmdSettle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: settle")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, err := of(ts).settled(ctx)
	ts.Check(err)
}

// settled waits until every order is at rest: confirmed, shipped, ended, or in need of a person. It returns all of them.
func (c *system) settled(ctx context.Context) (all []orderView, err error) {
	var moving []string
	err = c.wait("all orders to be at rest", func() (bool, error) {
		if all, err = c.orders(ctx); err != nil {
			if away(err) {
				err = nil
			}
			return false, err
		}
		moving = moving[:0]
		for _, v := range all {
			if (v.Status == order.Placed || v.Status.Undoing()) && !v.NeedsAttention {
				moving = append(moving, fmt.Sprintf("%d is %s", v.Number, v.Status))
			}
		}
		return len(moving) == 0, nil
	})
	if err != nil && len(moving) > 0 {
		err = fmt.Errorf("%w; %d of %d are not: %s", err, len(moving), len(all), strings.Join(moving[:min(len(moving), 10)], ", "))
	}
	return all, err
}

func (c *system) orders(ctx context.Context) (all []orderView, err error) {
	for path := "/v1/orders?limit=200"; ; {
		var page struct {
			Orders []orderView
			Next   string
		}
		if err := c.api(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Orders...)
		if page.Next == "" {
			return all, nil
		}
		path = "/v1/orders?limit=200&after=" + page.Next
	}
}

func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: requests ORDER [OPERATION ...]")
	}
	for _, r := range requests(ts, args[0]) {
		if len(args) > 1 && !slices.Contains(args[1:], r.Operation) {
			continue
		}
		line := fmt.Sprintf("%s %s %d %s", r.Provider, r.Operation, r.Status, r.Fault)
		fmt.Fprintln(ts.Stdout(), strings.TrimSpace(line))
	}
	fmt.Fprint(ts.Stdout()) // none is an answer too
}

func requests(ts *testscript.TestScript, number string) []simulated.Request {
	no, err := strconv.ParseInt(number, 10, 64)
	ts.Check(err)
	client, err := of(ts).providers()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := client.Requests(ctx, simulated.RequestFilter{Order: no})
	ts.Check(err)
	return found
}

func cmdSent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sent ORDER PROVIDER N")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(of(ts).wait(fmt.Sprintf("%d calls of %s about order %s", want, args[1], args[0]), func() (bool, error) {
		n := 0
		for _, r := range requests(ts, args[0]) {
			if r.Provider == args[1] {
				n++
			}
		}
		return n >= want, nil
	}))
}

func cmdLapse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: lapse ORDER PROVIDER MIN")
	}
	least, err := time.ParseDuration(args[2])
	ts.Check(err)
	var before time.Time
	calls := 0
	for _, r := range requests(ts, args[0]) {
		if r.Provider != args[1] {
			continue
		}
		if calls++; calls > 1 && r.At.Sub(before) < least {
			ts.Fatalf("call %d came %s after the one before it", calls, r.At.Sub(before))
		}
		before = r.At
	}
	if calls < 2 {
		ts.Fatalf("there are %d calls: nothing lies between them", calls)
	}
}

// effects is what a provider does, as its paths have it.
var effects = map[string]string{
	"warehouse": "reservations", "carrier-domestic": "shipments", "carrier-international": "shipments", "pay-standard": "charges", "pay-highvalue": "charges",
}

// cmdByHand is what a person does in the provider's own office: it cancels by key.
func cmdByHand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: by-hand ORDER PROVIDER")
	}
	base, err := of(ts).address("providers")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	keys := map[string]bool{}
	for _, r := range requests(ts, args[0]) {
		if r.Provider == args[1] && r.Operation == "do" {
			keys[r.Key] = true
		}
	}
	if len(keys) == 0 {
		ts.Fatalf("%s has done nothing for the order", args[1])
	}
	for k := range keys {
		path := "/" + args[1] + "/" + effects[args[1]] + "/by-key/" + url.PathEscape(k) + "/cancel"
		ts.Check(inspect.Client{Base: base}.Do(ctx, http.MethodPost, path, map[string]any{}, nil))
	}
}

func cmdLedger(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ledger ORDER")
	}
	no, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	client, err := of(ts).providers()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	entries, err := client.Order(ctx, no)
	ts.Check(err)
	for _, e := range entries {
		fmt.Fprintf(ts.Stdout(), "%s active %d undone %d refused %d net %d\n", e.Provider, e.Active, e.Undone, e.Refused, e.Net)
	}
}
