package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

var quiet = slog.New(slog.DiscardHandler)

// said is what a command printed.
type said struct{ out, err bytes.Buffer }

func (s *said) output(asJSON bool) Output { return Output{JSON: asJSON, out: &s.out, err: &s.err} }

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

func code(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(ExitError); ok {
		return exit.Code
	}
	return 1
}

// serve is an HTTP server for the test's handlers.
func serve(t *testing.T, handlers map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.HandleFunc(pattern, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// answer is a handler that always says the same.
func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { web.JSON(w, http.StatusOK, v) }
}

// folder is a data folder as chorus up leaves it.
func folder(t *testing.T, addresses map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(cluster.File{Addresses: addresses})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shop is the front of a cluster in which orders end at once, by a word in the customer's name.
type shop struct {
	mu       sync.Mutex // guards all below
	products map[string]string
	stock    map[string]onShelf
	orders   []*sale
	keys     map[string]*sale
	deaf     int // refuse the next so many requests that place
	early    int // cancellations of orders that were not confirmed
	url      string
}

type sale struct {
	tracker.Entry
	cart cart
	seen int // times that it was listed: it ends at the second
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{products: map[string]string{}, stock: map[string]onShelf{}, keys: map[string]*sale{}}
	s.url = serve(t, map[string]http.HandlerFunc{
		"PUT /v1/products":             s.locked(s.putProducts),
		"PUT /v1/stock":                s.locked(s.putStock),
		"GET /v1/stock":                s.locked(s.getStock),
		"POST /v1/orders":              s.locked(s.place),
		"POST /v1/orders/{no}/cancel":  s.locked(s.cancel),
		"POST /v1/orders/{no}/ship":    s.locked(s.ship),
		"POST /v1/orders/{no}/resolve": s.locked(s.resolve),
		"GET /v1/orders/{no}":          s.locked(s.get),
		"GET /v1/tracker/orders":       s.locked(s.list),
	})
	return s
}

func (s *shop) locked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		h(w, r)
	}
}

func read[T any](r *http.Request) (v T) {
	_ = json.NewDecoder(r.Body).Decode(&v)
	return v
}

func (s *shop) putProducts(w http.ResponseWriter, r *http.Request) {
	for _, p := range read[[]product](r) {
		s.products[p.SKU] = p.Price
	}
	web.JSON(w, http.StatusOK, struct{}{})
}

func (s *shop) putStock(w http.ResponseWriter, r *http.Request) {
	for _, c := range read[[]count](r) {
		row := s.stock[c.SKU]
		row.SKU, row.OnHand = c.SKU, c.OnHand
		s.stock[c.SKU] = row
	}
	web.JSON(w, http.StatusOK, struct{}{})
}

func (s *shop) getStock(w http.ResponseWriter, r *http.Request) {
	page := []onShelf{}
	for _, sku := range sortedKeys(s.stock) {
		if sku > r.URL.Query().Get("after") && len(page) < 500 {
			page = append(page, s.stock[sku])
		}
	}
	web.JSON(w, http.StatusOK, map[string]any{"stock": page})
}

func (s *shop) place(w http.ResponseWriter, r *http.Request) {
	body := read[cart](r)
	if s.deaf > 0 {
		s.deaf--
		web.Fail(w, http.StatusServiceUnavailable, "not at this moment")
		return
	}
	for i, item := range body.Items {
		if item.Quantity > 100_000 || s.products[item.SKU] == "" {
			web.Fail(w, http.StatusUnprocessableEntity, "the order cannot be placed",
				web.Fault{Location: fmt.Sprintf("body.items[%d]", i), Message: "not for sale"})
			return
		}
	}
	key := r.Header.Get("Idempotency-Key")
	o := s.keys[key]
	if o == nil || key == "" {
		now := time.Now()
		o = &sale{cart: body, Entry: tracker.Entry{
			Number: event.OrderNo(len(s.orders) + 1), Status: order.Placed, Customer: body.Customer, Currency: "GBP", Total: 750, PlacedAt: &now,
		}}
		s.orders = append(s.orders, o)
		s.keys[key] = o
		for _, item := range body.Items {
			row := s.stock[item.SKU]
			row.Held += item.Quantity
			s.stock[item.SKU] = row
		}
	}
	web.JSON(w, http.StatusAccepted, accepted{Number: o.Number, Link: orderPath(o.Number), Status: "PLACED", Total: 750, Currency: "GBP"})
}

func (s *shop) of(w http.ResponseWriter, r *http.Request) *sale {
	n, _ := strconv.Atoi(r.PathValue("no"))
	if n < 1 || n > len(s.orders) {
		web.Fail(w, http.StatusNotFound, "there is no order "+r.PathValue("no"))
		return nil
	}
	return s.orders[n-1]
}

func (s *shop) cancel(w http.ResponseWriter, r *http.Request) {
	o := s.of(w, r)
	if o == nil {
		return
	}
	switch o.Status {
	case order.Cancelled:
		web.JSON(w, http.StatusOK, moved{Number: o.Number, Status: o.Status})
		return
	case order.Placed:
		s.early++
	case order.Confirmed:
	default:
		web.Fail(w, http.StatusConflict, "too late: the order is "+string(o.Status))
		return
	}
	o.Status = order.Cancelled
	web.JSON(w, http.StatusOK, moved{Number: o.Number, Status: order.Cancelling, Changed: true})
}

func (s *shop) ship(w http.ResponseWriter, r *http.Request) {
	if o := s.of(w, r); o != nil {
		o.Status = order.Shipped
		web.JSON(w, http.StatusOK, moved{Number: o.Number, Status: o.Status, Changed: true})
	}
}

func (s *shop) resolve(w http.ResponseWriter, r *http.Request) {
	body := read[map[string]any](r)
	if o := s.of(w, r); o != nil {
		web.JSON(w, http.StatusOK, map[string]any{"number": o.Number, "step": body["step"], "why": fmt.Sprintf("resolved: %v %v", body["evidence"], body["money_moved"])})
	}
}

// move ends the order the second time that anybody looks.
func (o *sale) move() {
	if o.seen++; o.seen < 2 || o.Status != order.Placed && o.Status != order.Compensating {
		return
	}
	switch {
	case strings.Contains(o.Customer, "declined"):
		o.Status = order.Failed
	case strings.Contains(o.Customer, "stuck"):
		o.Status, o.NeedsAttention = order.Compensating, o.seen < 4
		if o.seen >= 4 {
			o.Status = order.Failed
		}
	default:
		o.Status = order.Confirmed
	}
	at := o.PlacedAt.Add(100 * time.Millisecond)
	o.EndedAt = &at
}

func (s *shop) get(w http.ResponseWriter, r *http.Request) {
	if o := s.of(w, r); o != nil {
		o.move()
		web.JSON(w, http.StatusOK, orderView{
			Number: o.Number, Status: o.Status, StatusText: "how it stands\x1b[31m", NeedsAttention: o.NeedsAttention, Total: 750, Currency: "GBP",
		})
	}
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
			return n
		}
		return otherwise
	}
	page, next := []tracker.Entry{}, ""
	for n := min(number("after", len(s.orders)+1)-1, len(s.orders)); n >= number("from", 1); n-- {
		if len(page) == 10 {
			next = strconv.Itoa(n + 1)
			break
		}
		s.orders[n-1].move()
		page = append(page, s.orders[n-1].Entry)
	}
	body := map[string]any{"orders": page}
	if next != "" {
		body["next"] = next
	}
	web.JSON(w, http.StatusOK, body)
}

// runner is a command.
type runner interface {
	Run(context.Context, *slog.Logger) error
}

func run(t *testing.T, c runner) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.Run(ctx, quiet)
}
