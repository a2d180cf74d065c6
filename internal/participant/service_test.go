package participant_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/participant"
	"chorus/internal/provider"
	"chorus/internal/providertest"
	"chorus/internal/web"
)

// run runs billing as a process does. stop ends it and returns what Run returned.
func run(t *testing.T, b *base, cfg participant.Config) (client inspect.Client, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = l.Addr().String()
	l.Close()
	cfg.Postgres = b.dsn
	file, err := provider.Load("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- participant.Run(ctx, b.log, cfg, participant.Setup[paymentState]{Spec: billing(), Providers: file, Step: event.PaymentStep})
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return within(t, "the service's end", done)
	}
	t.Cleanup(func() { _ = stop() })
	return inspect.Client{Base: "http://" + cfg.Listen}, stop
}

func status(t *testing.T, client inspect.Client, path string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(client.Base + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

// A participant as a process: it consumes, calls, answers, tells how it is, takes a person's word, and stops.
func TestService(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	bank := providertest.Start(t,
		providertest.JSON(http.StatusCreated, `{"id":"ch-1"}`),
		providertest.JSON(http.StatusPaymentRequired, `{"reason":"no money"}`),
	)
	client, stop := run(t, b, participant.Config{Kafka: []string{kafka.Addr()}, Providers: bank.URL})
	eventually(t, "the service is ready", func() bool { code, _ := status(t, client, "/readyz"); return code == http.StatusOK })

	publish(t, kafka.Addr(), 1, placed(1), screened(1, event.Clear), scheduled(1))
	eventually(t, "order 1 is charged", func() bool { return b.stated(1) == "PaymentTaken" })
	publish(t, kafka.Addr(), 1, placed(2), screened(2, event.Clear), scheduled(2))
	eventually(t, "order 2 is declined", func() bool { return b.stated(2) == "PaymentDeclined" })
	o, err := client.Order(t.Context(), 1, nil)
	if err != nil || o.Phase != "DONE" || len(o.Calls) != 1 {
		t.Errorf("order 1: %+v %v", o, err)
	}

	var problem *web.Problem
	for _, c := range []struct {
		path string
		body any
		want int
	}{
		{"/v1/orders/1/resolve", map[string]any{"step": "payment", "evidence": "the bank says so"}, http.StatusConflict},
		{"/v1/orders/1/retry", map[string]any{"step": "payment"}, http.StatusConflict},
		{"/v1/orders/1/retry", map[string]any{"Step": "payment"}, http.StatusBadRequest},
		{"/v1/orders/1/retry", map[string]any{"step": "stock"}, http.StatusUnprocessableEntity},
		{"/v1/orders/01/retry", map[string]any{"step": "payment"}, http.StatusBadRequest},
		{"/v1/orders/1/resolve", map[string]any{"step": "payment", "evidence": " "}, http.StatusUnprocessableEntity},
		{"/v1/orders/1/resolve", map[string]any{"step": "payment", "evidence": strings.Repeat("a", 2001)}, http.StatusUnprocessableEntity},
		{"/v1/orders/1/resolve", map[string]any{"step": "payment", "evidence": "a\x00"}, http.StatusBadRequest},
	} {
		if err := client.Do(t.Context(), http.MethodPost, c.path, c.body, nil); !errors.As(err, &problem) || problem.Status != c.want {
			t.Errorf("%s %v: %v, want %d", c.path, c.body, err, c.want)
		}
	}
	code, metrics := status(t, client, "/metrics")
	for _, want := range []string{
		`chorus_partition_running{partition="0",topic="orders.events"} 1`,
		`chorus_partition_next_offset{partition="0",topic="fraud.events"} 2`,
		`route="POST /v1/orders/{order}/retry",status="409"`,
	} {
		if code != http.StatusOK || !strings.Contains(metrics, want) {
			t.Errorf("metrics: %d, no %s", code, want)
		}
	}

	kafka.Stop() // what it has joined it keeps for now; facts stop, the service does not
	if code, _ := status(t, client, "/livez"); code != http.StatusOK {
		t.Errorf("alive: %d", code)
	}
	kafka.Restart()
	publish(t, kafka.Addr(), 1, cancelled(3))
	eventually(t, "a later fact is handled", func() bool { return b.stated(3) == "PaymentVoided" })
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	eventually(t, "no connection is left", func() bool {
		return one[int](b, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`) == 0
	})
}

// A service that is stopped while it waits for its database, or its broker, has not failed.
func TestServiceStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	dsn := b.dsn
	for name, cfg := range map[string]participant.Config{
		"database": {Kafka: []string{"127.0.0.1:1"}},
		"broker":   {Kafka: []string{"127.0.0.1:1"}},
	} {
		if b.dsn = dsn; name == "database" {
			b.dsn = "postgres://nobody@127.0.0.1:1/nothing"
		}
		client, stop := run(t, b, cfg)
		eventually(t, "the service answers", func() bool { code, _ := status(t, client, "/livez"); return code == http.StatusOK })
		if name == "broker" {
			eventually(t, "it says what it waits for", func() bool {
				code, body := status(t, client, "/readyz")
				return code == http.StatusServiceUnavailable && strings.Contains(body, "broker: not yet a member")
			})
		}
		if err := stop(); err != nil {
			t.Errorf("%s: stop: %v", name, err)
		}
	}
}

func TestConfigurationFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	err := participant.Run(t.Context(), nil, participant.Config{Batch: -1, MaxConns: 1, Timeout: -1}, participant.Setup[paymentState]{Spec: billing()})
	for _, want := range []string{"no URL", "batch of -1", "1 connections", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}

// The inbox forgets what is older than its horizon and an hour, as the service's role, and nothing else (CON-15).
func TestHousekeeping(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	must(t, pool, d, event.Billing, cancelled(1), cancelled(2), cancelled(3))
	const horizon = 24 * time.Hour
	for order, age := range map[event.OrderNo]time.Duration{1: horizon + 2*time.Hour, 2: horizon + 30*time.Minute} {
		if _, err := b.conn.Exec(t.Context(), `UPDATE inbox SET handled_at = now() - $2::interval, occurred_at = now() - $2::interval WHERE event_id = $1`,
			cancelled(order).ID, age); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := participant.Prune(t.Context(), pool, string(event.Billing), horizon); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	var left []inbox.Fact
	for _, f := range []inbox.Fact{cancelled(1), cancelled(2), cancelled(3)} {
		if one[int](b, `SELECT count(*) FROM inbox WHERE event_id = $1`, f.ID) == 1 {
			left = append(left, f)
		}
	}
	if len(left) != 2 || left[0].Key != "2" {
		t.Errorf("%d rows are left", len(left))
	}
}

// An id of a request has its time: the ids of the facts that follow from its calls take it over.
func TestNewID(t *testing.T) {
	t.Parallel()
	begun := time.Now().Truncate(time.Millisecond)
	id, other := participant.NewID(), participant.NewID()
	if at := id.Time(); at.Before(begun) || at.After(time.Now()) || id == other {
		t.Errorf("ids %s and %s of %s", id, other, at)
	}
	if parsed, err := event.ParseID(id.String()); err != nil || parsed != id || id[6]>>4 != 7 {
		t.Errorf("id %s: %v", id, err)
	}
}
