package tools

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/provider/simulated"
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
