// Package python tests the subscriber in Python against a broker, a registry and records as the services write them.
package python

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/brokertest"
	"chorus/internal/choreography"
	"chorus/internal/cluster/embedded"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/schemas"
)

const patience = 3 * time.Minute

// interpreter makes a virtual environment with what the subscriber requires.
func interpreter(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	env := filepath.Join(t.TempDir(), "venv")
	python := filepath.Join(env, "bin", "python")
	if out, err := exec.CommandContext(ctx, "python3", "-m", "venv", env).CombinedOutput(); err != nil {
		missing(t, "python3 with venv and pip is not here: %v: %s", err, out)
	}
	if out, err := exec.CommandContext(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt").CombinedOutput(); err != nil {
		missing(t, "requirements.txt cannot be installed: %v: %s", err, out)
	}
	return python
}

// missing skips where nobody has promised Python; a skip in CI would be a hole.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// shop is a topic of a shop, and its registry.
type shop struct {
	t         *testing.T
	client    *kgo.Client
	broker    string
	registry  string
	avro      *codec.Codec
	json      *codec.Codec
	database  string
	interpret string
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, avro: codec.Embedded(), database: filepath.Join(t.TempDir(), "sold.sqlite"), interpret: interpreter(t)}
	s.broker = brokertest.Start(t, map[string]int32{"orders.events": 3}).Addr()
	var seeds []embedded.Schema
	for _, r := range schemas.Released() {
		seeds = append(seeds, embedded.Schema{Subject: r.Subject, ID: r.ID, Version: r.Version, Text: r.Text})
	}
	registry, err := embedded.OpenRegistry(filepath.Join(t.TempDir(), "registry.log"), seeds)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	t.Cleanup(func() {
		server.Close()
		registry.Close()
	})
	s.registry = server.URL
	if s.json, err = codec.New(nil, codec.JSON); err != nil {
		t.Fatal(err)
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.broker)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// placed is the record of an order of two lines of TEA and one of 茶, in Avro or JSON by turns.
func (s *shop) placed(n int) *kgo.Record {
	c := s.avro
	if n%2 == 0 {
		c = s.json
	}
	return s.record(c, n, event.OrderPlaced{
		Customer: "ada", Currency: "EUR", Total: 1<<53 + 1, Shipping: event.Domestic, Deadline: time.Unix(1_800_000_000, 0),
		Lines: []event.Line{{SKU: "TEA", Quantity: 2, UnitPrice: "2.55"}, {SKU: "茶", Quantity: int64(n), UnitPrice: "1"}, {SKU: "TEA", Quantity: 2, UnitPrice: "2.55"}},
	})
}

func (s *shop) record(c *codec.Codec, n int, fact event.Fact) *kgo.Record {
	s.t.Helper()
	at, number := time.Unix(1_790_000_000, 0), event.OrderNo(n)
	row, err := c.Row(event.Envelope{ID: event.Derive(at, event.Orders, number, string(fact.Type()), 0), Order: number, Owner: event.Orders, OccurredAt: at, Fact: fact})
	if err != nil {
		s.t.Fatal(err)
	}
	return &kgo.Record{Topic: "orders.events", Key: []byte(row.AggregateID), Value: row.Payload, Headers: []kgo.RecordHeader{
		{Key: "id", Value: []byte(event.ID(row.ID).String())}, {Key: "eventType", Value: []byte(row.Type)}, {Key: "aggregateType", Value: []byte(row.AggregateType)},
		{Key: "occurredAt", Value: []byte(row.OccurredAt.Format("2006-01-02T15:04:05.000000Z"))}, {Key: "correlationId", Value: []byte(row.CorrelationID)},
		{Key: "causationId"}, {Key: "hop", Value: []byte("0")},
	}}
}

func (s *shop) produce(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) subscriber(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, s.interpret, append([]string{"subscriber.py", "--brokers", s.broker, "--registry", s.registry, "--database", s.database}, args...)...)
}

// sold runs the subscriber to the topic's end and returns what it prints, and what it says of broken records.
func (s *shop) sold() (units, complaints string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out, errs strings.Builder
	cmd := s.subscriber(ctx, "--once")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("subscriber: %v\n%s", err, errs.String())
	}
	return out.String(), errs.String()
}

// TestWireFormatNamesEverything: the page that others write subscribers from has every topic, fact and header.
func TestWireFormatNamesEverything(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // by topic
	for line := range strings.Lines(string(page)) {
		if topic, facts, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[topic] = facts
		}
	}
	for _, r := range choreography.Table() {
		for _, fact := range r.States {
			if row := rows[r.Who.Topic()]; !strings.Contains(row, "`"+string(fact)+"`") {
				t.Errorf("%s is not named as a fact of %s: %q", fact, r.Who.Topic(), row)
			}
		}
	}
	s := &shop{t: t, avro: codec.Embedded()}
	for _, h := range append(s.record(s.avro, 1, event.OrderShipped{}).Headers, kgo.RecordHeader{Key: "traceparent"}, kgo.RecordHeader{Key: "tracestate"}) {
		if !strings.Contains(string(page), "`"+h.Key+"`") {
			t.Errorf("header %s is not named", h.Key)
		}
	}
}

// TestSubscriberInPython feeds a subscriber that knows nothing but docs/wire-format.md with facts in both formats, duplicates next to and long after the first, strangers and broken records, kills it in
// the middle, and has it read everything again. Each order counts once (G4).
func TestSubscriberInPython(t *testing.T) {
	t.Parallel()
	s := open(t)
	const orders = 400
	var all []*kgo.Record
	want := fmt.Sprintf("TEA\t%d\n茶\t%d\n", 4*orders, orders*(orders+1)/2)
	for n := 1; n <= orders; n++ {
		all = append(all, s.placed(n))
		if n%10 == 0 {
			all = append(all, s.placed(n), s.record(s.avro, n, event.OrderConfirmed{}), s.placed(n-5))
		}
	}
	bad := s.placed(500)
	bad.Value = append(bad.Value, 0)
	short := s.placed(501)
	short.Value = []byte{0, 0, 0}
	foreign := s.placed(502)
	foreign.Value = []byte{0, 0, 0, 0x27, 0x0f, 2}
	nobody := s.placed(503)
	nobody.Headers = nobody.Headers[1:]
	twice := s.placed(504)
	twice.Headers = append(twice.Headers, twice.Headers[0])
	empty := s.placed(505)
	empty.Value = nil
	broken := []*kgo.Record{bad, short, foreign, nobody, twice, empty}
	all = append(all[:300:300], append(broken, all[300:]...)...)
	s.produce(all...)

	// It is killed as soon as it says something about a broken record, which is in the middle.
	killed := s.subscriber(t.Context())
	says, err := killed.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(says)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "set aside") {
	}
	if !strings.HasPrefix(lines.Text(), "set aside") {
		t.Errorf("it ended before it met a broken record: %v", lines.Err())
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // of a signal

	units, _ := s.sold()
	if diff := cmp.Diff(want, units); diff != "" {
		t.Errorf("sold after a kill (-want +got):\n%s", diff)
	}
	s.produce(all...)
	units, complaints := s.sold()
	if diff := cmp.Diff(want, units); diff != "" {
		t.Errorf("sold after everything was published again (-want +got):\n%s", diff)
	}
	if n := strings.Count(complaints, "set aside"); n != len(broken) {
		t.Errorf("%d records set aside, want %d:\n%s", n, len(broken), complaints)
	}
}
