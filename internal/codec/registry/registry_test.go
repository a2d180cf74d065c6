package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/schemas"
)

// start serves an empty registry; count tells how many requests it got.
func start(t *testing.T) (fake *srfake.Registry, address string, count *atomic.Int64) {
	t.Helper()
	fake, count = srfake.NewRegistry(), &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return fake, server.URL, count
}

func client(t *testing.T, address string, log *slog.Logger) *Client {
	t.Helper()
	c, err := New(address, log)
	if err != nil {
		t.Fatal(err)
	}
	c.initial = time.Millisecond
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// registers checks everything that a deploy does against a registry without our schemas.
func registers(t *testing.T, address string) {
	t.Helper()
	c := client(t, address, quiet())
	var missing *MissingError
	if _, err := c.IDs(t.Context()); !errors.As(err, &missing) || len(missing.Subjects) != len(schemas.List()) {
		t.Errorf("ids before the deploy: %v", err)
	}
	ids, err := c.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Register(t.Context())
	if diff := cmp.Diff(ids, again); err != nil || diff != "" {
		t.Errorf("a second deploy: %v %s", err, diff)
	}
	asked, err := c.IDs(t.Context())
	if diff := cmp.Diff(ids, asked); err != nil || diff != "" {
		t.Errorf("ids at a start: %v %s", err, diff)
	}
	entries, err := c.List(t.Context())
	if err != nil || len(entries) != len(ids) {
		t.Errorf("list: %+v, %v", entries, err)
	}
	for _, e := range entries {
		if want := ids[event.Type(strings.TrimPrefix(e.Subject, schemas.Namespace+"."))]; e.ID != want || !e.Present || e.Version != 1 {
			t.Errorf("list: %+v, want id %d, version 1", e, want)
		}
	}
	all, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		if st.ID != ids[event.Type(st.Schema.Type)] || st.Version != 1 || st.Versions != 1 || len(st.Problems) > 0 {
			t.Errorf("check: %+v", st)
		}
	}
	writer, err := codec.New(ids, codec.Avro)
	if err != nil {
		t.Fatal(err)
	}
	value, err := writer.Encode(event.StockReserved{Reservation: "R-1"})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := codec.New(unlike(ids), codec.Avro)
	if err != nil {
		t.Fatal(err)
	}
	reader.LearnFrom(c.Text)
	if _, err := reader.Decode("StockReserved", value); !errors.Is(err, codec.ErrUnknownSchema) {
		t.Fatalf("before it is learned: %v", err)
	}
	if err := reader.Learn(t.Context(), ids["StockReserved"]); err != nil {
		t.Fatal(err)
	}
	if f, err := reader.Decode("StockReserved", value); err != nil || f != (event.StockReserved{Reservation: "R-1"}) {
		t.Errorf("learned: %v, %v", f, err)
	}
	if err := reader.Learn(t.Context(), 1<<31-1); !errors.Is(err, codec.ErrUnknownSchema) {
		t.Errorf("an id that nobody gave: %v", err)
	}
}

// unlike returns other ids for all facts.
func unlike(ids map[event.Type]int) map[event.Type]int {
	other := map[event.Type]int{}
	for t, id := range ids {
		other[t] = id + 1_000_000
	}
	return other
}

func TestRegisterAndLearn(t *testing.T) {
	t.Parallel()
	_, address, _ := start(t)
	registers(t, address)
}

// TestOtherRegistry runs the same against a real one, empty of our schemas, at CHORUS_TEST_REGISTRY.
func TestOtherRegistry(t *testing.T) {
	address := os.Getenv("CHORUS_TEST_REGISTRY")
	if address == "" {
		t.Skip("CHORUS_TEST_REGISTRY names no registry")
	}
	registers(t, address)
}

func TestRegisterSetsTheLevel(t *testing.T) {
	t.Parallel()
	_, address, _ := start(t)
	c := client(t, address, quiet())
	if _, err := c.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.sr.Compatibility(t.Context(), "chorus.events.OrderPlaced") {
		if r.Err != nil || r.Level != sr.CompatFullTransitive {
			t.Errorf("level %s, %v", r.Level, r.Err)
		}
	}
}

// warnings counts log lines, and announces each.
type warnings struct {
	slog.Handler
	n    atomic.Int64
	seen chan struct{}
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		w.n.Add(1)
		select {
		case w.seen <- struct{}{}:
		default:
		}
	}
	return nil
}

func TestSCH12RegistryAwayAtTheStart(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	w := &warnings{Handler: slog.DiscardHandler, seen: make(chan struct{}, 1)}
	c := client(t, "http://"+address, slog.New(w))
	type result struct {
		ids map[event.Type]int
		err error
	}
	done := make(chan result, 1)
	go func() {
		ids, err := c.Register(t.Context())
		done <- result{ids, err}
	}()
	<-w.seen // refused connections

	fake, requests := srfake.NewRegistry(), atomic.Int64{}
	fake.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		switch n := requests.Add(1); {
		case n <= 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n <= 6:
			http.Error(w, `{"error_code":50001,"message":"leader is away"}`, http.StatusInternalServerError)
		default:
			return false
		}
		return true
	})
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: fake.Handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	r := <-done
	if r.err != nil || len(r.ids) != len(schemas.List()) {
		t.Errorf("after the outage: %d ids, %v", len(r.ids), r.err)
	}
	// Versions, registration and level for each schema, and one answer for each of the six failures.
	if n, most := requests.Load(), int64(3*len(schemas.List())+6); n > most {
		t.Errorf("%d requests, want at most %d", n, most)
	}
	if w.n.Load() < 7 {
		t.Errorf("%d warnings for at least 7 failures", w.n.Load())
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(server.Close)
	w := &warnings{Handler: slog.DiscardHandler, seen: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-w.seen; cancel() }()
	if _, err := client(t, server.URL, slog.New(w)).IDs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTextAsksOnce(t *testing.T) {
	t.Parallel()
	fake, address, count := start(t)
	fake.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	_, err := client(t, address, quiet()).Text(t.Context(), 5)
	if err == nil || errors.Is(err, codec.ErrUnknownSchema) || count.Load() != 1 {
		t.Errorf("got %v after %d requests", err, count.Load())
	}
}

func TestWrongAddressIsNotAnEmptyRegistry(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	c := client(t, server.URL, quiet())
	if _, err := c.Register(t.Context()); err == nil || !strings.Contains(err.Error(), "404 page not found") {
		t.Errorf("register: %v", err)
	}
	if _, err := c.Text(t.Context(), 5); err == nil || errors.Is(err, codec.ErrUnknownSchema) {
		t.Errorf("text: %v", err)
	}
}

func TestSCH13IncompatibleRegistersNothing(t *testing.T) {
	t.Parallel()
	fake, address, _ := start(t)
	placed := schemas.List()[0]
	other := strings.Replace(placed.Text, `"fields": [`, `"fields": [{"name":"channel","type":"string"},`, 1)
	fake.SeedSchema(placed.Subject, 1, 40, sr.Schema{Schema: other})
	c := client(t, address, quiet())
	_, err := c.Register(t.Context())
	var bad *IncompatibleError
	if !errors.As(err, &bad) || bad.Subject != placed.Subject || !strings.Contains(err.Error(), placed.Subject+".channel: the older version cannot read the newer") {
		t.Errorf("got %v", err)
	}
	if entries, err := c.List(t.Context()); err != nil || len(entries) != 1 || entries[0].Present {
		t.Errorf("registered all the same: %+v, %v", entries, err)
	}
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	fake, address, _ := start(t)
	fake.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/versions") {
			return false
		}
		http.Error(w, `{"error_code":409,"message":"reader lacks a default"}`, http.StatusConflict)
		return true
	})
	var bad *IncompatibleError
	if _, err := client(t, address, quiet()).Register(t.Context()); !errors.As(err, &bad) || !strings.Contains(err.Error(), "reader lacks a default") {
		t.Errorf("got %v", err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:8081", "ftp://x", "http://", "http://a b"} {
		if _, err := New(bad, quiet()); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	var user string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ = r.BasicAuth()
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	_, err := client(t, strings.Replace(server.URL, "http://", "http://deploy:secret@", 1), quiet()).IDs(t.Context())
	if err == nil || user != "deploy" || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("user %q, %v", user, err)
	}
}
