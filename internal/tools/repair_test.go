package tools

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/cluster/embedded"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/provider/simulated"
	"chorus/schemas"
)

func TestRewind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Database(t)
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, inbox.Schema); err != nil {
		t.Fatal(err)
	}
	if err := pg.Migrate(ctx, dsn, audit.Schema()); err != nil {
		t.Fatal(err)
	}
	to := &said{}
	c := &RewindCmd{
		Cluster: Cluster{Data: t.TempDir(), Kafka: []string{kafka(t)}}, Output: to.output(false),
		Consumer: "billing", Topic: "orders", To: "end", Partition: -1, Postgres: dsn, DryRun: true,
	}
	next := func() (n int64) {
		n = -1
		if err := db.QueryRow(ctx, `SELECT next_offset FROM partition_owner WHERE consumer = 'billing'`).Scan(&n); err != nil && err != pgx.ErrNoRows {
			t.Fatal(err)
		}
		return n
	}
	for _, step := range []struct {
		to     string
		dryRun bool
		next   int64
		says   string
	}{
		{"end", true, -1, "billing in orders.events/0 would go on at 2; it was at -1"},
		{"end", false, 2, "billing in orders.events/0 goes on at 2; it was at -1"},
		{"beginning", false, 0, "goes on at 0; it was at 2"},
		{"1", false, 1, "goes on at 1; it was at 0"},
	} {
		to.out.Reset()
		c.To, c.DryRun = step.to, step.dryRun
		if err := run(t, c); err != nil {
			t.Fatal(err)
		}
		contains(t, to.out.String(), step.says)
		if got := next(); got != step.next {
			t.Errorf("--to %s: next offset %d, want %d", step.to, got, step.next)
		}
	}
	var did string
	if err := db.QueryRow(ctx, `SELECT string_agg(action || ' ' || subject || ' ' || (before->>'next_offset') || ' ' || (after->>'next_offset'), ', ' ORDER BY id) FROM audit`).Scan(&did); err != nil {
		t.Fatal(err)
	}
	if want := "rewind orders.events/0 -1 2, rewind orders.events/0 2 0, rewind orders.events/0 0 1"; did != want {
		t.Errorf("audit has %q, want %q", did, want)
	}
	c.To = "3"
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "offset 3 is not in the topic, which reaches from 0 to 2") {
		t.Errorf("got %v", err)
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	registry, err := embedded.OpenRegistry(filepath.Join(t.TempDir(), "registry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	t.Cleanup(func() {
		server.Close()
		registry.Close()
	})
	c, to := Cluster{Data: t.TempDir(), Registry: server.URL}, &said{}
	if err := run(t, &SchemasCheckCmd{Cluster: c, Output: to.output(false)}); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "not registered")
	to.out.Reset()
	if err := run(t, &SchemasRegisterCmd{Cluster: c, Output: to.output(true)}); err != nil {
		t.Fatal(err)
	}
	var ids map[event.Type]int
	if err := json.Unmarshal(to.out.Bytes(), &ids); err != nil || len(ids) != len(schemas.List()) || ids["OrderPlaced"] < 1 {
		t.Errorf("%v: %s", err, to.out.String())
	}
	to.out.Reset()
	if err := run(t, &SchemasListCmd{Cluster: c, Output: to.output(false)}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(to.out.String(), "present"); n != len(schemas.List()) {
		t.Errorf("%d schemas are listed as present:\n%s", n, to.out.String())
	}
	if err := run(t, &SchemasListCmd{Cluster: Cluster{Data: t.TempDir(), Kafka: []string{"x:1"}}}); err == nil || !strings.Contains(err.Error(), "--registry") {
		t.Errorf("got %v", err)
	}
}

func TestProvidersSet(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	url := serve(t, map[string]http.HandlerFunc{
		"PUT /{provider}/behaviour": func(w http.ResponseWriter, r *http.Request) {
			b := read[simulated.Behaviour](r)
			got.Store(b)
			answer([]simulated.Behaviour{b})(w, r)
		},
		"GET /{provider}/behaviour":    answer([]simulated.Behaviour{}),
		"DELETE /{provider}/behaviour": answer(nil),
	})
	c, to := Cluster{Data: t.TempDir(), ProvidersURL: url}, &said{}
	err := run(t, &ProvidersSetCmd{Cluster: c, Output: to.output(false), Provider: "pay-standard", Operation: "do", Timeout: 1, Calls: 1, Latency: time.Second})
	want := simulated.Behaviour{Operation: "do", TimeoutAfterSuccess: 1, Calls: 1, LatencyMinMs: 1000, LatencyMaxMs: 1000}
	if err != nil || got.Load() != want {
		t.Errorf("got %+v, %v", got.Load(), err)
	}
	contains(t, to.out.String(), "pay-standard do: 100% carried out and not answered, 1000 to 1000 ms late, for 1 more calls")
	for _, cmd := range []runner{&ProvidersShowCmd{Cluster: c, Output: to.output(false)}, &ProvidersClearCmd{Cluster: c, Output: to.output(false)}} {
		to.out.Reset()
		if err := run(t, cmd); err != nil || to.out.String() != "no rules: every provider behaves\n" {
			t.Errorf("got %q, %v", to.out.String(), err)
		}
	}
	if err := run(t, &ProvidersSetCmd{Cluster: c, Provider: "bureau", Down: true, Unreachable: true}); err == nil {
		t.Error("a contradiction is taken")
	}
	for _, cmd := range []runner{
		&ProvidersSetCmd{Cluster: c, Provider: "foo"}, &ProvidersShowCmd{Cluster: c, Provider: "foo"}, &ProvidersClearCmd{Cluster: c, Provider: "foo"},
	} {
		if err := run(t, cmd); err == nil || !strings.HasPrefix(err.Error(), "there is no provider foo; providers are ") {
			t.Errorf("got %v", err)
		}
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"beginning": 5, "end": 9, "7": 7, "4": -1, "10": -1, "x": -1} {
		got, err := offset(text, 5, 9)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}
