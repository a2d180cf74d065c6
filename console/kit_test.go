package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/brokertest"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/tracker"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// patience bounds each wait; the machine may be busy with other tests.
const patience = 30 * time.Second

// nasty is what a customer may be called (UI-01).
const nasty = `<img src=x onerror=alert(1)></script><script>alert(2)</script>" onmouseover="alert(3)`

// rig is a running console with a real database and broker, and services that answer by the HTTP contract.
type rig struct {
	t      testing.TB
	url    string
	client *http.Client
	broker *brokertest.Broker
	kafka  *kgo.Client
	shop   *shopService
	others *participants
	db     string

	run         func(context.Context) error
	stopConsole func()
}

// start runs a console until the test ends.
func start(t testing.TB) *rig {
	t.Helper()
	topics := map[string]int32{}
	for _, topic := range tracker.Topics() {
		topics[topic] = 1
	}
	r := &rig{t: t, broker: brokertest.Start(t, topics), db: database(t)}
	var err error
	if r.kafka, err = kgo.NewClient(kgo.SeedBrokers(r.broker.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kafka.Close)
	r.shop = newShop(r)
	r.others = &participants{}
	cfg := Config{
		Listen: freeAddress(t), Postgres: r.db, Kafka: []string{r.broker.Addr()}, Waits: choreography.DefaultDurations(),
		Services: Services{
			Orders: serve(t, r.shop.handler()), Inventory: serve(t, r.others.handler("inventory")), Fraud: serve(t, r.others.handler("fraud")),
			Shipping: serve(t, r.others.handler("shipping")), Billing: serve(t, r.others.handler("billing")), CDC: serve(t, r.others.handler("cdc")),
		},
	}
	r.url = "http://" + cfg.Listen
	jar, _ := cookiejar.New(nil)
	r.client = &http.Client{Jar: jar, Timeout: patience}
	r.run = func(ctx context.Context) error { return Run(ctx, slog.New(slog.DiscardHandler), cfg) }
	r.startConsole()
	t.Cleanup(func() { r.stopConsole() })
	return r
}

// startConsole runs the console and waits until it is ready.
func (r *rig) startConsole() {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	r.stopConsole = func() {
		stop()
		if err := <-done; err != nil {
			r.t.Errorf("console: %v", err)
		}
	}
	r.eventually("the console is ready", func() error {
		status, body, err := r.try(http.MethodGet, "/readyz", nil)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%d %s %v", status, body, err)
		}
		return nil
	})
}

// database makes the tracker's database.
func database(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dsn := pgtest.Database(t)
	for _, set := range []fs.FS{audit.Schema(), tracker.Schema()} {
		if err := pg.Migrate(ctx, dsn, set); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, inbox.Schema); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// eventually waits for a condition.
func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// try sends a request; a form makes it a POST of a page on this site.
func (r *rig) try(method, path string, form url.Values) (int, string, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		return 0, "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.url)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// get reads a page, which must have this status.
func (r *rig) get(path string, want int) string {
	r.t.Helper()
	return r.do(http.MethodGet, path, nil, want)
}

func (r *rig) do(method, path string, form url.Values, want int) string {
	r.t.Helper()
	status, body, err := r.try(method, path, form)
	if err != nil || status != want {
		r.t.Fatalf("%s %s: %d %v, want %d\n%s", method, path, status, err, want, body)
	}
	return body
}

// shows waits until a page contains all of these texts.
func (r *rig) shows(path string, texts ...string) string {
	r.t.Helper()
	var body string
	r.eventually(path+" as it should be", func() (err error) {
		if _, body, err = r.try(http.MethodGet, path, nil); err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return fmt.Errorf("it lacks %q", text)
			}
		}
		return nil
	})
	return body
}

// state publishes a fact, as the outbox and cdc of its owner do.
func (r *rig) state(e event.Envelope) event.ID {
	e.OccurredAt = e.OccurredAt.UTC().Truncate(time.Microsecond)
	row, err := codec.Embedded().Row(e)
	if err != nil {
		r.t.Error(err)
		return e.ID
	}
	record := &kgo.Record{Topic: e.Owner.Topic(), Key: []byte(row.AggregateID), Value: row.Payload}
	for key, value := range map[string]string{
		"id": e.ID.String(), "eventType": row.Type, "aggregateType": row.AggregateType, "occurredAt": e.OccurredAt.Format("2006-01-02T15:04:05.000000Z"),
		"correlationId": row.CorrelationID, "causationId": row.CausationID, "hop": event.OrderNo(row.Hop).String(),
	} {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.kafka.ProduceSync(ctx, record).FirstErr(); err != nil {
		r.t.Error(err)
	}
	return e.ID
}

// follow states a fact about an order, because of another.
func (r *rig) follow(no event.OrderNo, cause event.ID, hop int, owner event.Participant, f event.Fact) event.ID {
	now := time.Now()
	return r.state(event.Envelope{ID: event.Derive(now, owner, no, string(f.Type()), 0), Order: no, Owner: owner, OccurredAt: now, CausationID: cause, Hop: hop, Fact: f})
}

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

// participants answer the inspection API.
type participants struct {
	mu      sync.Mutex
	away    string // the one that does not answer
	letters []inspect.Letter
	calls   []intent.CallView // billing's
	why     string
}

func (p *participants) handler(name string) http.Handler {
	mux := http.NewServeMux()
	web.Health(mux, func(context.Context) error { return nil })
	mux.HandleFunc("GET /v1/inspect/orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		o := inspect.Order{Participant: event.Participant(name), Known: true, Phase: "held"}
		for _, text := range strings.FieldsFunc(r.URL.Query().Get("facts"), func(c rune) bool { return c == ',' }) {
			id, _ := event.ParseID(text)
			o.Inbox = append(o.Inbox, inspect.Verdict{EventID: id, Verdict: "applied", Why: p.why, Duplicates: 1})
		}
		if name == "billing" {
			o.Calls = p.calls
		}
		web.JSON(w, http.StatusOK, o)
	})
	mux.HandleFunc("GET /v1/inspect/figures", func(w http.ResponseWriter, _ *http.Request) {
		web.JSON(w, http.StatusOK, inspect.Figures{Participant: event.Participant(name), Duplicates: 3, DeadLetters: 1, Backlog: []intent.ProviderBacklog{{Provider: "paymentco", Open: 2, Due: 1}}})
	})
	mux.HandleFunc("GET /v1/inspect/dead-letters", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		letters := []inspect.Letter{}
		for _, l := range p.letters {
			if string(l.Participant) == name && l.State != inbox.Redriven && l.State != inbox.Discarded {
				letters = append(letters, l)
			}
		}
		web.JSON(w, http.StatusOK, map[string]any{"dead_letters": letters})
	})
	letter := func(r *http.Request) *inspect.Letter {
		i := slices.IndexFunc(p.letters, func(l inspect.Letter) bool {
			return string(l.Participant) == name && fmt.Sprint(l.ID) == r.PathValue("id")
		})
		if i < 0 {
			return nil
		}
		return &p.letters[i]
	}
	mux.HandleFunc("GET /v1/inspect/dead-letters/{id}", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := letter(r); l != nil {
			web.JSON(w, http.StatusOK, l)
			return
		}
		web.Fail(w, http.StatusNotFound, "there is none with this number")
	})
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/redrive", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var how inspect.RedriveRequest
		if !web.Read(w, r, 1<<20, &how) {
			return
		}
		l := letter(r)
		if l.Reason != "mended" {
			web.Fail(w, http.StatusUnprocessableEntity, "it still cannot be handled: "+l.Reason)
			return
		}
		if !how.Preview {
			l.State, l.ClosedWhy = inbox.Redriven, r.Header.Get(audit.Header)+" because "+how.Reason
		}
		web.JSON(w, http.StatusOK, inspect.Redriven{Verdict: "applied", Why: "charge", Preview: how.Preview})
	})
	mux.HandleFunc("POST /v1/inspect/dead-letters/{id}/discard", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var body struct {
			Reason string `json:"reason"`
		}
		if !web.Read(w, r, 1<<20, &body) {
			return
		}
		l := letter(r)
		if body.Reason == "" {
			web.Fail(w, http.StatusUnprocessableEntity, "a reason is needed")
			return
		}
		l.State, l.ClosedWhy = inbox.Discarded, r.Header.Get(audit.Header)+" because "+body.Reason
		web.JSON(w, http.StatusOK, map[string]string{"state": inbox.Discarded})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.away == name
		p.mu.Unlock()
		if away {
			web.Fail(w, http.StatusServiceUnavailable, "starting")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// charge is a call with two exchanges, of which the first was lost.
func charge(no event.OrderNo, at time.Time) intent.CallView {
	end, later := at.Add(5*time.Second), at.Add(7*time.Second)
	return intent.CallView{
		Order: no, Step: event.PaymentStep, Op: decision.Do, Key: "payment-" + no.String() + "-0", Provider: "paymentco", Phase: decision.Over,
		Outcome: decision.Succeeded, Result: "P-77", CreatedAt: at, EndedAt: &later,
		Attempts: []intent.AttemptView{
			{N: 1, Kind: decision.Attempting, Method: "POST", URL: "http://127.0.0.1:9090/paymentco/charges", StartedAt: at, EndedAt: &end, Result: decision.Lost, Error: "timeout after 5s", DurationMS: 5000},
			{N: 2, Kind: decision.Asking, Method: "GET", URL: "http://127.0.0.1:9090/paymentco/charges/payment-1-0", StartedAt: end, EndedAt: &later, Status: 200, Response: `{"status":"` + nasty + `"}`, Result: decision.OK, DurationMS: 12.4},
		},
	}
}

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
