package tools

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/internal/audit"
	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/gap"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/provider/simulated"
	"chorus/internal/tracker"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// commands is every command as the program has it.
type commands struct {
	Place       PlaceCmd        `cmd:""`
	Cancel      CancelCmd       `cmd:""`
	Ship        ShipCmd         `cmd:""`
	Deliver     DeliverCmd      `cmd:""`
	Resolve     ResolveCmd      `cmd:""`
	Retry       RetryCmd        `cmd:""`
	Trace       TraceCmd        `cmd:""`
	Load        LoadCmd         `cmd:""`
	Verify      VerifyCmd       `cmd:""`
	Lag         LagCmd          `cmd:""`
	Tail        TailCmd         `cmd:""`
	DeadLetters DeadLettersCmds `cmd:""`
	Audit       AuditCmd        `cmd:""`
	Erase       EraseCmd        `cmd:""`
	Prune       PruneCmd        `cmd:""`
	Map         MapCmd          `cmd:""`
	Schemas     SchemasCmds     `cmd:""`
	Consumer    ConsumerCmds    `cmd:""`
	Healthcheck HealthCmd       `cmd:""`
	Ps          PsCmd           `cmd:""`
	Kill        KillCmd         `cmd:""`
	Process     ProcessCmds     `cmd:""`
	Providers   struct {
		Set   ProvidersSetCmd   `cmd:""`
		Show  ProvidersShowCmd  `cmd:""`
		Clear ProvidersClearCmd `cmd:""`
	} `cmd:""`
}

func TestCommandLines(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"place --customer ada --item A=1 --item B,C=2 --shipping international --key k --wait --json",
		"cancel 8842 --operator --reason recall", "ship 8842", "deliver 8842 --json", "retry 8842 stock",
		"resolve 8842 payment --evidence portal --money-moved", "trace 8842 -f",
		"load --count 10 --rate 5 --customers ok=8,declined=1", "load --replay kit_test.go load_test.go --speed 60",
		"verify --grace 5m --no-topics", "lag --json", "tail orders -f --from beginning --order 8842", "tail orders --from -3", "tail orders --from=-3 -f",
		"dead-letters", "dead-letters show billing/12", "dead-letters preview billing/12 orders/3", "dead-letters redrive billing/12 --note mended", "dead-letters redrive --all --service billing --type OrderPlaced --reason undecodable --order 8842 --since 2h --before 2026-01-12T09:30:00Z --rate 5 --force",
		"audit --order 8842 --since 24h", "erase 8842 --reason letter", "prune --keep 720h --every 24h",
		"dead-letters discard billing/12 --reason old", "map --format mermaid", "schemas", "schemas check", "schemas register",
		"consumer rewind billing orders --to beginning --postgres postgres://x", "healthcheck http://127.0.0.1:1/readyz",
		"providers set pay-standard --timeout-after-success 1 --calls 1", "providers show", "providers clear bureau",
		"ps --json", "kill billing", "process freeze billing --data x", "process stop cdc",
	} {
		var c commands
		k, err := kong.New(&c, kong.DefaultEnvars("CHORUS"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Parse(strings.Fields(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"cancel 08", "cancel x", "place --customer ada", "resolve 1 screening --evidence x", "dead-letters show 12", "dead-letters show nope/1", "tail orders --from"} {
		var c commands
		k, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Parse(strings.Fields(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// story is a trace of an order that waits for its payment.
func story() traced {
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.Local)
	placed := tracker.Fact{
		ID: event.Derive(at, event.Orders, 8842, "OrderPlaced", 0), Type: "OrderPlaced", Owner: event.Orders, OccurredAt: at,
		Topic: "orders.events", Partition: 2, Offset: 17,
	}
	ended := at.Add(2 * time.Second)
	return traced{
		Timeline: tracker.Timeline{
			Order: 8842, Status: order.Placed, StatusText: "placed", Customer: "ada\x1b[2J", Currency: "GBP", Total: 750,
		},
		Waits: []tracedWait{{
			Wait: tracker.Wait{
				Owner: event.Billing, Step: event.PaymentStep, Expects: []event.Type{"PaymentTaken", "PaymentDeclined"},
				Since: at, Until: at.Add(time.Minute), Overdue: true,
			},
			Gap: gap.Gap{Kind: gap.Failed, Who: event.Billing, Why: "the payment at pay-standard fails", Since: at},
		}},
		Audit: []tracedAction{{Participant: event.Billing, Entry: audit.Entry{At: ended, Who: "kim", Action: audit.Retry, Subject: "payment", Why: "it is back"}}},
		Facts: []tracedFact{{Fact: placed, Why: "placed", Verdicts: []tracedVerdict{
			{Participant: event.Inventory, Verdict: inspect.Verdict{Verdict: "applied", Why: "look on the shelf", Duplicates: 2}},
			{Participant: event.Fraud},
		}}},
		Calls: []tracedCall{{Participant: event.Billing, CallView: intent.CallView{
			Step: event.PaymentStep, Op: decision.Do, Provider: "pay-standard", Key: "k", Phase: decision.Asking, CreatedAt: at,
			Attempts: []intent.AttemptView{
				{N: 1, Kind: decision.Attempting, Method: "PUT", URL: "http://pay/x", StartedAt: at, EndedAt: &ended, Result: decision.Lost, Error: "timeout", DurationMS: 2000},
				{N: 2, Kind: decision.Asking, Method: "GET", URL: "http://pay/x", StartedAt: ended},
			},
		}}},
		Missing: []missing{{Participant: event.Shipping, Reason: "connection refused"}},
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	to := &said{}
	url := serve(t, map[string]http.HandlerFunc{"GET /v1/orders/8842/trace": answer(story())})
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{8842}}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(),
		"order 8842  PLACED  7.50 GBP  ada [2J", "orders states OrderPlaced: placed  orders.events/2@17, ",
		"inventory applied OrderPlaced: look on the shelf (came 2 more times)", "fraud has not handled OrderPlaced yet",
		"billing: do payment at pay-standard  ASK  key k",
		"09:00:00.000  billing do #1 attempt PUT http://pay/x  lost: timeout in 2000 ms", "billing do #2 ask GET http://pay/x  under way",
		"for PaymentTaken or PaymentDeclined, from billing (payment), since 09:00:00.000", "until 09:01:00.000, overdue",
		"failed, billing: the payment at pay-standard fails", "kim retry payment at billing: it is back",
		"shipping does not answer: connection refused",
	)
	to.out.Reset()
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(true), Order: Number{8842}}); err != nil {
		t.Fatal(err)
	}
	var back traced
	if err := json.Unmarshal(to.out.Bytes(), &back); err != nil || len(back.Facts) != 1 || len(back.Facts[0].Verdicts) != 2 {
		t.Errorf("%v: %s", err, to.out.String())
	}
}

// An order is told before the tracker has read of it, with what keeps it from there; one that is not there is told to be.
func TestTraceOfWhatTheTrackerHasNotRead(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	unknown := func(w http.ResponseWriter, _ *http.Request) {
		web.Fail(w, http.StatusNotFound, "the tracker knows nothing")
	}
	url := serve(t, map[string]http.HandlerFunc{
		"GET /v1/orders/1/trace": unknown,
		"GET /v1/orders/2/trace": func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) < 3 {
				now := time.Now()
				answer(traced{
					Timeline: tracker.Timeline{Order: 2, Status: order.Placed, Currency: "GBP", Total: 750, PlacedAt: now.Add(-time.Minute)}, Unread: true,
					Waits: []tracedWait{{
						Wait: tracker.Wait{Owner: event.Orders, Expects: []event.Type{"OrderPlaced"}, Since: now, Until: now},
						Gap:  gap.Gap{Kind: gap.NotPublished, Who: gap.CDC, Why: "it is not in orders.events"},
					}},
				})(w, r)
				return
			}
			s := story()
			s.Status, s.Waits, s.Missing = order.Confirmed, nil, nil // at rest, and not ended
			s.Facts[0].Verdicts[1].Verdict = inspect.Verdict{Verdict: "applied"}
			answer(s)(w, r)
		},
	})
	for _, follow := range []bool{false, true} {
		err := run(t, &TraceCmd{Front: Front{URL: url}, Output: (&said{}).output(false), Order: Number{1}, Follow: follow})
		if code(err) != 1 || err == nil || err.Error() != "there is no order 1" {
			t.Errorf("follow %t: got %v", follow, err)
		}
	}
	to := &said{}
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{2}}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "order 2  PLACED  7.50 GBP", "placed 1m0s ago, and the view has read no fact of it", "not published, cdc: it is not in orders.events")
	to.out.Reset()
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{2}, Follow: true}); err != nil {
		t.Fatal(err)
	}
	if contains(t, to.out.String(), "CONFIRMED"); strings.Count(to.out.String(), "not published, cdc") != 1 {
		t.Errorf("printed\n%s", to.out.String())
	}
}

// A followed trace prints what is new, once, and ends with the order.
func TestTraceFollow(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	url := serve(t, map[string]http.HandlerFunc{"GET /v1/orders/8842/trace": func(w http.ResponseWriter, r *http.Request) {
		s := story()
		switch asked.Add(1) {
		case 1:
		case 2:
			http.Error(w, "restarting", http.StatusBadGateway)
			return
		default:
			s.Status, s.Waits, s.Missing = order.Failed, nil, nil
			s.Facts[0].Verdicts[1].Verdict = inspect.Verdict{Verdict: "applied", Why: "ask the bureau"}
		}
		answer(s)(w, r)
	}})
	to := &said{}
	if err := run(t, &TraceCmd{Front: Front{URL: url}, Output: to.output(false), Order: Number{8842}, Follow: true}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "PLACED", "FAILED", "fraud applied OrderPlaced: ask the bureau")
	for _, once := range []string{"states OrderPlaced", "look on the shelf", "under way"} {
		if n := strings.Count(to.out.String(), once); n != 1 {
			t.Errorf("%q is printed %d times", once, n)
		}
	}
}

// empty is a cluster without orders. spoil changes the ledger.
func empty(t *testing.T, ledger simulated.LedgerPage) Cluster {
	t.Helper()
	url := serve(t, map[string]http.HandlerFunc{
		"GET /v1/inspect/states":                   answer(map[string]any{"states": []inspect.State{}}),
		"GET /v1/inspect/figures":                  answer(inspect.Figures{DeadLetters: 3}),
		"GET /v1/services/tracker/inspect/figures": answer(inspect.Figures{DeadLetters: 1}),
		"GET /v1/stock":                            answer(map[string]any{"stock": []onShelf{}}),
		"GET /ledger":                              answer(ledger),
		"GET /ledger/summary":                      answer(simulated.Summary{}),
		"GET /v1/inspect/told":                     answer(map[string]any{"told": []any{}}),
	})
	all := map[string]string{"providers": url}
	for _, name := range []string{"orders", "inventory", "fraud", "shipping", "billing", "notifications", "front"} {
		all[name] = url
	}
	return Cluster{Data: folder(t, all)}
}

func TestVerifyExitCodes(t *testing.T) {
	t.Parallel()
	to := &said{}
	if err := run(t, &VerifyCmd{Cluster: empty(t, simulated.LedgerPage{}), Output: to.output(false), NoTopics: true}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "all is well", "money      ok: ", "open dead letters 19")
}

func TestVerifyViolated(t *testing.T) {
	t.Parallel()
	to := &said{}
	stranger := simulated.LedgerPage{Entries: []simulated.LedgerEntry{{Order: 7, Tally: simulated.Tally{Provider: "warehouse", Active: 1, ActiveKeys: 1}}}}
	err := run(t, &VerifyCmd{Cluster: empty(t, stranger), Output: to.output(false), NoTopics: true})
	if code(err) != 1 {
		t.Errorf("got %v", err)
	}
	contains(t, to.out.String(), "strangers  VIOLATED 1x", "- order 7: the providers' ledger knows it and orders does not", "VIOLATED (")
	err = run(t, &VerifyCmd{Cluster: Cluster{Data: t.TempDir()}, Output: to.output(false)})
	if err == nil || !strings.Contains(err.Error(), "no cluster is up in ") {
		t.Errorf("got %v", err)
	}
}

// A service that is frozen takes connections and never answers: it is named, and what the others say is printed.
func TestSilenceIsNamed(t *testing.T) {
	t.Parallel()
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	c, to := empty(t, simulated.LedgerPage{}), &said{}
	c.InventoryURL = "http://" + frozen.Addr().String()
	c.Kafka = []string{frozen.Addr().String()}
	err = run(t, &VerifyCmd{Cluster: c, Output: to.output(false), NoTopics: true})
	if err == nil || err.Error() != "inventory does not answer: is it frozen?" {
		t.Errorf("got %v", err)
	}
	c.InventoryURL, c.Registry = "", c.InventoryURL
	err = run(t, &TailCmd{Cluster: c, Output: to.output(false), Topic: "orders"})
	if err == nil || err.Error() != "the Kafka brokers do not answer: is it frozen?" {
		t.Errorf("got %v", err)
	}
	c.InventoryURL = c.Registry
	err = run(t, &LagCmd{Cluster: c, Output: to.output(false)})
	if code(err) != 1 {
		t.Errorf("got %v", err)
	}
	contains(t, strings.Join(strings.Fields(to.out.String()), " "),
		"Kafka does not answer: is it frozen?", "inventory does not answer: is it frozen?", "- 0 0 - 0 0 3")
}

// kafka is a broker with our topics and two records in orders.events: a fact and none.
func kafka(t *testing.T) string {
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
	defer client.Close()
	row, err := codec.Embedded().Row(event.Envelope{
		ID: event.Derive(time.Now(), event.Orders, 8842, "OrderShipped", 0), Order: 8842, Owner: event.Orders, OccurredAt: time.Now(), Fact: event.OrderFailed{Reason: "a test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := event.ID(row.ID)
	records := []*kgo.Record{
		{Topic: "orders.events", Key: []byte("8842"), Value: row.Payload, Headers: []kgo.RecordHeader{
			{Key: "id", Value: []byte(id.String())}, {Key: "eventType", Value: []byte(row.Type)}, {Key: "aggregateType", Value: []byte("orders")},
			{Key: "occurredAt", Value: []byte("2026-01-02T09:00:00.000000Z")}, {Key: "correlationId", Value: []byte("8842")},
			{Key: "causationId", Value: nil}, {Key: "hop", Value: []byte("1")},
		}},
		{Topic: "orders.events", Key: []byte("8843"), Value: []byte("rubbish\x1b[31m")},
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return b.Addr()
}

func TestTail(t *testing.T) {
	t.Parallel()
	c, to := Cluster{Data: t.TempDir(), Kafka: []string{kafka(t)}}, &said{}
	if err := run(t, &TailCmd{Cluster: c, Output: to.output(false), Topic: "orders", From: "beginning"}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), `orders.events/0@0  8842  OrderFailed  {"reason":"a test"}`, "orders.events/0@1  8843    NOT A FACT: ", "rubbish [31m")
	to.out.Reset()
	if err := run(t, &TailCmd{Cluster: c, Output: to.output(true), Topic: "all", From: "beginning", Order: Number{8842}}); err != nil {
		t.Fatal(err)
	}
	var l struct {
		Offset int64
		Key    string
		Value  struct{ Reason string }
	}
	if err := json.Unmarshal(to.out.Bytes(), &l); err != nil || l.Key != "8842" || l.Value.Reason != "a test" {
		t.Errorf("%v: %s", err, to.out.String())
	}
	to.out.Reset()
	if err := run(t, &TailCmd{Cluster: c, Output: to.output(false), Topic: "orders", From: "-1"}); err != nil || strings.Count(to.out.String(), "\n") != 1 {
		t.Errorf("got %q, %v", to.out.String(), err)
	}
	if err := run(t, &TailCmd{Cluster: c, Output: to.output(false), Topic: "orders", From: "5"}); err == nil {
		t.Error("--from 5 is taken")
	}
	err := run(t, &TailCmd{Cluster: c, Output: to.output(false), Topic: "nope"})
	if err == nil || !strings.HasPrefix(err.Error(), "there is no topic nope; topics are orders.events, ") {
		t.Errorf("got %v", err)
	}
	for want, c := range map[int64]TailCmd{10: {}, -1: {Order: Number{8842}}, 3: {From: "-3", Order: Number{8842}}} {
		if got, err := c.last(); err != nil || got != want {
			t.Errorf("from %q of %s: %d, %v; want %d", c.From, c.Order, got, err, want)
		}
	}
}

// OPS-01, OPS-03: a group that never committed, or is not there, is shown as such, and never below zero.
func TestLag(t *testing.T) {
	t.Parallel()
	lag := int64(4096)
	url := serve(t, map[string]http.HandlerFunc{
		"GET /v1/inspect/figures": answer(inspect.Figures{Participant: event.Billing, Duplicates: 5, Backlog: []intent.ProviderBacklog{
			{Provider: "pay-standard", Open: 7, Due: 2, OldestDue: 1500 * time.Millisecond},
		}}),
		"GET /readyz": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(map[string]any{"ready": false, "sources": []cdc.Status{
				{Source: "orders", State: cdc.Stalled, Reason: "Kafka is away", SlotLagBytes: &lag},
			}})
		},
	})
	c := Cluster{Data: folder(t, map[string]string{"kafka": kafka(t), "billing": url, "cdc": url})}
	to := &said{}
	if err := run(t, &LagCmd{Cluster: c, Output: to.output(false)}); err != nil {
		t.Fatal(err)
	}
	contains(t, strings.Join(strings.Fields(to.out.String()), " "),
		"inventory orders.events 0 no commit 2 2", "tracker orders.events 0 no commit 2 2", "(nobody works on it) 2",
		"billing pay-standard 7 2 1.5s 0 5 0", "shipping does not answer: the address of shipping is not known",
		"orders stalled 4096 bytes 0 Kafka is away")
	to.out.Reset()
	if err := run(t, &LagCmd{Cluster: c, Output: to.output(true)}); err != nil {
		t.Fatal(err)
	}
	var v lagView
	if err := json.Unmarshal(to.out.Bytes(), &v); err != nil || v.Groups[0].Partitions[0].Committed != nil || len(v.Services) != 6 || v.CDC.Ready {
		t.Errorf("%v: %s", err, to.out.String())
	}
}

func TestMap(t *testing.T) {
	t.Parallel()
	to := &said{}
	for format, want := range map[string]string{"text": "(place)", "mermaid": "flowchart LR"} {
		to.out.Reset()
		if err := run(t, &MapCmd{Format: format, Output: to.output(false)}); err != nil {
			t.Fatal(err)
		}
		contains(t, to.out.String(), want)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	url := serve(t, map[string]http.HandlerFunc{
		"GET /readyz": answer("ok"),
		"GET /livez": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "database: away", http.StatusServiceUnavailable)
		},
	})
	if err := run(t, &HealthCmd{Address: url + "/readyz", Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
	if err := run(t, &HealthCmd{Address: url + "/livez", Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "database: away") {
		t.Errorf("got %v", err)
	}
}
