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
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/brokertest"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/tracker"
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

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
