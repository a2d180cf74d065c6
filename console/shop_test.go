package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// shopService answers as the orders service does, by the HTTP contract.
type shopService struct {
	rig *rig

	mu       sync.Mutex
	orders   map[event.OrderNo]*written
	receipts map[string]receipt // by idempotency key
	last     event.OrderNo
	mute     bool // placed orders are not published: cdc is down
	away     bool // the service answers 503
	unsure   bool // the next order is placed, and the answer is a 503
	acted    []string
	actors   []string // who acted
	products []product
}

func newShop(r *rig) *shopService {
	return &shopService{
		rig: r, orders: map[event.OrderNo]*written{}, receipts: map[string]receipt{}, last: 8841,
		products: []product{
			{"85123A", "White hanging heart T-light holder", "2.55", "EUR"}, {"71053", "White metal lantern", "3.39", "EUR"},
			{"84406B", "Cream cupid hearts coat hanger", "2.75", "EUR"}, {"22752", "Set of 7 babushka nesting boxes", "7.65", "EUR"},
			{"21730", "Glass star frosted T-light holder", "4.25", "EUR"}, {"22633", "Hand warmer Union Jack", "1.85", "EUR"},
			{`"onmouseover="alert(1)`, nasty, "0.00", "EUR"},
		},
	}
}

func (s *shopService) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *shopService) handler() http.Handler {
	mux := http.NewServeMux()
	web.Health(mux, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away {
			return fmt.Errorf("database: gone fishing")
		}
		return nil
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		web.JSON(w, http.StatusOK, map[string]string{"openapi": "3.1.0"})
	})
	mux.HandleFunc("GET /v1/products", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Has("after") && q.Get("after") == "" {
			web.Fail(w, http.StatusUnprocessableEntity, "query.after: is empty") // as the orders service does
			return
		}
		web.JSON(w, http.StatusOK, map[string]any{"products": s.products})
	})
	mux.HandleFunc("POST /v1/orders", s.place)
	mux.HandleFunc("GET /v1/orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		no, _ := event.ParseOrderNo(r.PathValue("order"))
		s.mu.Lock()
		defer s.mu.Unlock()
		if o := s.orders[no]; o != nil {
			web.JSON(w, http.StatusOK, o)
			return
		}
		web.Fail(w, http.StatusNotFound, "no such order")
	})
	mux.HandleFunc("POST /v1/orders/{order}/{action}", s.act)
	mux.HandleFunc("GET /v1/echo", func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Query", r.URL.RawQuery)
		web.JSON(w, http.StatusOK, r.Header)
	})
	return mux
}

func (s *shopService) place(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b basket
	if !web.Read(w, r, 1<<20, &b) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if before, ok := s.receipts[key]; ok {
		web.JSON(w, http.StatusAccepted, before)
		return
	}
	placed := event.OrderPlaced{Customer: b.Customer, Currency: "EUR", Shipping: b.Shipping, Deadline: time.Now().UTC().Truncate(time.Microsecond).Add(15 * time.Minute)}
	for i, it := range b.Items {
		if it.Quantity > 100 {
			web.Fail(w, http.StatusUnprocessableEntity, "the order cannot be taken", web.Fault{Location: fmt.Sprintf("body.items[%d].quantity", i), Message: "at most 100"})
			return
		}
		placed.Lines = append(placed.Lines, event.Line{SKU: it.SKU, Quantity: it.Quantity, UnitPrice: "2.55"})
		placed.Total += 255 * it.Quantity
	}
	s.last++
	now := time.Now()
	id := event.Derive(now, event.Orders, s.last, "OrderPlaced", 0)
	s.orders[s.last] = &written{
		Number: s.last, Status: order.Placed, StatusText: "placed, nothing is held or charged yet", Customer: b.Customer, Currency: "EUR", Total: placed.Total,
		PlacedAt: now, Actions: []string{"cancel"},
	}
	s.receipts[key] = receipt{Number: s.last, EventID: id.String()}
	if !s.mute {
		s.rig.state(event.Envelope{ID: id, Order: s.last, Owner: event.Orders, OccurredAt: now, Fact: placed})
	}
	if s.unsure {
		s.unsure = false
		web.Fail(w, http.StatusServiceUnavailable, "whether the order was placed is not known")
		return
	}
	web.JSON(w, http.StatusAccepted, s.receipts[key])
}

func (s *shopService) act(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no, _ := event.ParseOrderNo(r.PathValue("order"))
	o, action := s.orders[no], r.PathValue("action")
	body, _ := io.ReadAll(r.Body)
	s.acted, s.actors = append(s.acted, action+" "+string(body)), append(s.actors, r.Header.Get(audit.Header))
	if o == nil || action == "ship" {
		web.Fail(w, http.StatusConflict, "the order is PLACED, not CONFIRMED")
		return
	}
	if action == "cancel" {
		o.Status, o.Actions = order.Cancelling, nil
		s.rig.follow(no, event.ID{}, 0, event.Orders, event.OrderCancellationRequested{Reason: event.ByOperator})
	}
	web.JSON(w, http.StatusOK, map[string]any{"number": no, "status": o.Status, "changed": true})
}
