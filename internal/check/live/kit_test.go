package live_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/check/live"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
	"chorus/services/billing/payment"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// world answers as the services and the providers of a system do. Its rows are the test's.
type world struct {
	mu     sync.Mutex // guards all below
	states map[event.Participant][]inspect.State
	ledger map[event.OrderNo][]simulated.LedgerEntry
	stock  map[string][2]int64 // on hand, held
	asked  int                 // questions so far
	asking func(w *world)      // runs before each answer, under mu
	spent  int64               // from the accounts, beside the charges
	told   map[event.OrderNo]map[event.Type]int64
	outbox map[event.Participant][]inspect.OutboxRow // by falling ids; nil: the services do not show theirs
}

const total = 500

var lines = []event.Line{{SKU: "TEA@5", Quantity: 1, UnitPrice: "5"}}

// newWorld has n confirmed orders, 1 to n, with which everything is right.
func newWorld(n int) *world {
	w := &world{
		states: map[event.Participant][]inspect.State{}, ledger: map[event.OrderNo][]simulated.LedgerEntry{},
		told: map[event.OrderNo]map[event.Type]int64{}, stock: map[string][2]int64{"TEA@5": {1_000_000, int64(n)}, "UNSOLD": {5, 0}},
	}
	done := decision.Effect{Phase: decision.Done}
	for no := event.OrderNo(1); no <= event.OrderNo(n); no++ {
		w.set(event.Orders, no, order.State{Status: order.Confirmed})
		w.told[no] = map[event.Type]int64{"OrderConfirmed": 1}
		w.set(event.Inventory, no, stock.State{Effect: done, Lines: lines, Held: true})
		w.set(event.Shipping, no, shipment.State{Effect: done, Units: 1, Shipping: event.Domestic})
		w.set(event.Billing, no, payment.State{Effect: done, Placed: true, Currency: "GBP", Total: total})
		w.enter(no, simulated.Tally{Provider: "warehouse", Active: 1, ActiveKeys: 1, Units: 1})
		w.enter(no, simulated.Tally{Provider: "carrier-domestic", Active: 1, ActiveKeys: 1, Units: 1})
		w.enter(no, simulated.Tally{Provider: "pay-standard", Currency: "GBP", Active: 1, ActiveKeys: 1, Charged: total, Net: total})
	}
	return w
}

// set makes a state, the next or one that is there.
func (w *world) set(p event.Participant, no event.OrderNo, state any) {
	raw, err := json.Marshal(state)
	if err != nil {
		panic(err)
	}
	row := inspect.State{Order: no, State: raw, UpdatedAt: time.Now()}
	for i, s := range w.states[p] {
		if s.Order == no {
			w.states[p][i] = row
			return
		}
	}
	w.states[p] = append(w.states[p], row)
}

func (w *world) enter(no event.OrderNo, t simulated.Tally) {
	w.ledger[no] = append(w.ledger[no], simulated.LedgerEntry{Order: int64(no), Tally: t})
}

func (w *world) serve(t *testing.T) live.Sources {
	t.Helper()
	client := func(p event.Participant) inspect.Client {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/inspect/states", w.answer(func(r *http.Request) any { return w.page(p, r) }))
		mux.HandleFunc("GET /v1/inspect/figures", w.answer(func(*http.Request) any { return inspect.Figures{Participant: p, Duplicates: 2, DeadLetters: 1} }))
		mux.HandleFunc("GET /v1/stock", w.answer(w.shelf))
		mux.HandleFunc("GET /v1/inspect/told", w.answer(w.tells))
		if w.outbox != nil {
			mux.HandleFunc("GET /v1/inspect/outbox", w.answer(func(r *http.Request) any { return w.rows(p, r) }))
		}
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		return inspect.Client{Base: s.URL}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ledger", w.answer(w.entries))
	mux.HandleFunc("GET /ledger/summary", w.answer(w.summary))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return live.Sources{
		Orders: client(event.Orders), Inventory: client(event.Inventory), Fraud: client(event.Fraud),
		Shipping: client(event.Shipping), Billing: client(event.Billing), Notifications: client("notifications"), Providers: simulated.NewClient(s.URL), Codec: codec.Embedded(),
	}
}

// rows is a page of an outbox.
func (w *world) rows(p event.Participant, r *http.Request) any {
	before := r.URL.Query().Get("before")
	page := []inspect.OutboxRow{}
	for _, row := range w.outbox[p] {
		if (before == "" || row.ID.String() < before) && len(page) < int(number(r, "limit")) {
			page = append(page, row)
		}
	}
	return map[string]any{"rows": page}
}

// tells is a page of what customers were told.
func (w *world) tells(r *http.Request) any {
	type row struct {
		Order event.OrderNo        `json:"order"`
		Times map[event.Type]int64 `json:"times"`
	}
	page := []row{}
	for _, no := range slices.Sorted(maps.Keys(w.told)) {
		if no > number(r, "after") && len(page) < int(number(r, "limit")) {
			page = append(page, row{no, w.told[no]})
		}
	}
	return map[string]any{"told": page}
}

func (w *world) answer(of func(*http.Request) any) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked++
		if w.asking != nil {
			w.asking(w)
		}
		_ = json.NewEncoder(rw).Encode(of(r))
	}
}

func number(r *http.Request, name string) event.OrderNo {
	n, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	return event.OrderNo(n)
}

func (w *world) page(p event.Participant, r *http.Request) any {
	page := []inspect.State{}
	for _, s := range w.states[p] {
		if s.Order > number(r, "after") && len(page) < int(number(r, "limit")) {
			page = append(page, s)
		}
	}
	return map[string]any{"states": page}
}

func (w *world) entries(r *http.Request) any {
	var page simulated.LedgerPage
	if no := number(r, "order"); no > 0 {
		page.Entries = w.ledger[no]
		return page
	}
	for no := number(r, "after") + 1; no <= 1000 && page.Next == 0; no++ {
		if page.Entries = append(page.Entries, w.ledger[no]...); len(page.Entries) > 10 {
			page.Next = int64(no)
		}
	}
	return page
}

func (w *world) summary(*http.Request) any {
	var net int64
	for _, entries := range w.ledger {
		for _, e := range entries {
			net += e.Net
		}
	}
	return simulated.Summary{
		Totals:   []simulated.Tally{{Provider: "pay-standard", Currency: "GBP", Net: net}},
		Accounts: []simulated.AccountSummary{{Provider: "pay-standard", Currency: "GBP", Funded: 1 << 40, Balance: 1<<40 - net - w.spent}},
	}
}

func (w *world) shelf(r *http.Request) any {
	type count struct {
		SKU    string `json:"sku"`
		OnHand int64  `json:"on_hand"`
		Held   int64  `json:"held"`
	}
	list := []count{}
	for _, sku := range []string{"TEA@5", "UNSOLD"} {
		if sku > r.URL.Query().Get("after") && len(list) == 0 { // pages of one
			list = append(list, count{sku, w.stock[sku][0], w.stock[sku][1]})
		}
	}
	return map[string]any{"stock": list}
}

// quick is a configuration with hardly any pauses.
func quick() live.Config {
	cfg := live.Defaults()
	cfg.Page = 7
	cfg.Pauses = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	return cfg
}

var quiet = slog.New(slog.DiscardHandler)

// publisher writes facts as cdc does.
type publisher struct {
	t      *testing.T
	broker *brokertest.Broker
	client *kgo.Client
	last   event.ID
	rows   []inspect.OutboxRow // what the records were made of
}

func publish(t *testing.T) *publisher {
	t.Helper()
	topics := map[string]int32{}
	for _, owner := range event.Owners() {
		topics[owner.Topic()] = 1
	}
	b := brokertest.Start(t, topics)
	client, err := broker.NewClient([]string{b.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &publisher{t: t, broker: b, client: client}
}

// say states a fact that the one said before has caused, or another one.
func (p *publisher) say(no event.OrderNo, owner event.Participant, f event.Fact, cause ...event.ID) event.ID {
	p.t.Helper()
	id, publish := p.write(no, owner, f, cause...)
	publish()
	return id
}

// write makes the row of a fact, which publish then publishes.
func (p *publisher) write(no event.OrderNo, owner event.Participant, f event.Fact, cause ...event.ID) (id event.ID, publish func()) {
	p.t.Helper()
	env := event.Envelope{
		ID: event.Derive(time.Now(), owner, no, string(f.Type()), 0), Order: no, Owner: owner, OccurredAt: time.Now(), CausationID: p.last, Fact: f,
	}
	if len(cause) > 0 {
		env.CausationID = cause[0]
	}
	row, err := codec.Embedded().Row(env)
	if err != nil {
		p.t.Fatal(err)
	}
	r := &kgo.Record{Topic: owner.Topic(), Key: []byte(no.String()), Value: row.Payload, Headers: []kgo.RecordHeader{
		{Key: "id", Value: []byte(env.ID.String())}, {Key: "eventType", Value: []byte(row.Type)},
		{Key: "aggregateType", Value: []byte(row.AggregateType)}, {Key: "occurredAt", Value: []byte(row.OccurredAt.Format("2006-01-02T15:04:05.000000Z07:00"))},
		{Key: "correlationId", Value: []byte(row.CorrelationID)}, {Key: "causationId", Value: []byte(row.CausationID)},
		{Key: "hop", Value: []byte("0")},
	}}
	p.last = env.ID
	p.rows = append(p.rows, inspect.OutboxRow{ID: env.ID, Topic: owner.Topic(), Key: no.String(), Type: f.Type(), OccurredAt: env.OccurredAt, CommittedAt: env.OccurredAt})
	return env.ID, func() {
		if err := p.client.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			p.t.Error(err)
		}
	}
}

// confirm states all of a confirmed order but its last fact, which it returns.
func (p *publisher) confirm(no event.OrderNo) (last func()) {
	placed := p.say(no, event.Orders, event.OrderPlaced{
		Customer: "ada", Currency: "GBP", Lines: lines, Total: total, Shipping: event.Domestic, Deadline: time.Now().Truncate(time.Second),
	}, event.Derive(time.Now(), event.Orders, no, "request", 0))
	p.say(no, event.Fraud, event.OrderScreened{Verdict: event.Clear}, placed)
	p.say(no, event.Inventory, event.StockReserved{}, placed)
	p.say(no, event.Shipping, event.ShipmentScheduled{Carrier: "carrier-domestic"})
	taken := p.say(no, event.Billing, event.PaymentTaken{Amount: total, Currency: "GBP"})
	return func() { p.say(no, event.Orders, event.OrderConfirmed{}, taken) }
}

func text(v any) string {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(raw), "\n", "\n\t")
}
