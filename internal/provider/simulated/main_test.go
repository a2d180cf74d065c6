package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets a test run the process for real: as a child that it can kill.
func TestMain(m *testing.M) {
	if dsn := os.Getenv("CHORUS_SIMULATED_CHILD"); dsn != "" {
		cfg := Config{Listen: os.Getenv("CHORUS_SIMULATED_LISTEN"), Postgres: dsn, Seed: 1}
		fmt.Fprintln(os.Stderr, Run(context.Background(), slog.New(slog.DiscardHandler), cfg))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// An instance is the process, run inside the test.
type instance struct {
	*Client
	t    testing.TB
	stop func()
}

func start(t testing.TB, dsn string) *instance {
	t.Helper()
	return startWith(t, Config{Postgres: dsn, Seed: 7})
}

func startWith(t testing.TB, cfg Config) *instance {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, slog.New(slog.DiscardHandler), cfg, ln) }()
	i := &instance{Client: NewClient("http://" + ln.Addr().String()), t: t}
	running := true
	i.stop = func() {
		if !running {
			return
		}
		running = false
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("providers ended with %v", err)
		}
	}
	t.Cleanup(i.stop)
	waitReady(t, i.base)
	return i
}

// waitReady waits until the process answers; a listener that is open makes the first call wait, not fail.
func waitReady(t testing.TB, base string) {
	t.Helper()
	until(t, "providers ready", func() bool {
		res, err := http.Get(base + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A reply is an answer as a caller sees it.
type reply struct {
	Status int
	Header http.Header
	Raw    string
	Body   struct {
		ID, Key, Code, State string
		Order, Amount, Units int64
		Score                *int
		Tombstone            bool
		Fields               []FieldError
	}
}

// send makes one request on a connection of its own, which net/http must not repeat.
func (i *instance) send(ctx context.Context, method, path, key, body string) (reply, error) {
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, i.base+path, rd)
	if err != nil {
		return reply{}, err
	}
	req.GetBody = nil
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := i.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{Status: res.StatusCode, Header: res.Header, Raw: string(bytes.TrimSpace(data))}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(data, &r.Body)
	}
	return r, err
}

// want makes one request and checks status and code.
func (i *instance) want(status int, code, method, path, key, body string) reply {
	i.t.Helper()
	r, err := i.send(i.t.Context(), method, path, key, body)
	if err != nil {
		i.t.Fatalf("%s %s: %v", method, path, err)
	}
	if r.Status != status || r.Body.Code != code {
		i.t.Fatalf("%s %s with key %q answered %d %s, want %d %s", method, path, key, r.Status, r.Raw, status, code)
	}
	return r
}

func (i *instance) set(provider string, b Behaviour) {
	i.t.Helper()
	if _, err := i.SetBehaviour(i.t.Context(), provider, b); err != nil {
		i.t.Fatal(err)
	}
}

// entry adds up the ledger of one provider for an order. A tombstone stands apart from the charges: it has no currency.
func (i *instance) entry(provider string, order int64) Tally {
	i.t.Helper()
	found, err := i.Order(i.t.Context(), order)
	if err != nil {
		i.t.Fatal(err)
	}
	var sum Tally
	for _, e := range found {
		if e.Provider == provider {
			sum.Active += e.Active
			sum.Undone += e.Undone
			sum.Cancelled += e.Cancelled
			sum.Units += e.Units
			sum.Charged += e.Charged
			sum.Refunded += e.Refunded
			sum.Net += e.Net
		}
	}
	return sum
}

func chargeOf(order int64, customer string, amount int64) string {
	return fmt.Sprintf(`{"order":%d,"customer":%q,"amount":%d,"currency":"EUR"}`, order, customer, amount)
}
