package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/pgtest"
)

const charges = "/pay-standard/charges"

// patient is a caller's limit for an answer that must not come.
func patient(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(stop)
	return ctx
}

func TestFailuresDoNothingAndSayWhenToRetry(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	i.set(PayStandard, Behaviour{Operation: "do", FailRate: 1, FailStatus: 429, RetryAfter: 7})
	r := i.want(429, "unavailable", "POST", charges, "k", chargeOf(1, "ann", 5))
	if r.Header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After is %q, want 7", r.Header.Get("Retry-After"))
	}
	i.want(404, "unknown_key", "GET", charges+"/by-key/k", "", "") // another operation is not touched

	i.set(PayStandard, Behaviour{Operation: "do", FailRate: 1, RetryAfter: 3, RetryAfterForm: "date"})
	before := time.Now()
	r = i.want(503, "unavailable", "POST", charges, "k", chargeOf(1, "ann", 5))
	at, err := http.ParseTime(r.Header.Get("Retry-After"))
	if err != nil || at.Before(before.Add(3*time.Second-time.Millisecond)) || at.After(time.Now().Add(4*time.Second)) {
		t.Errorf("Retry-After is %q at %v, want a date in 3 to 4 s", r.Header.Get("Retry-After"), before)
	}
	i.want(201, "", "POST", "/pay-highvalue/charges", "k", chargeOf(1, "ann", 5)) // nor another provider

	i.set(PayStandard, Behaviour{Operation: "do"}) // clears
	i.want(201, "", "POST", charges, "k", chargeOf(1, "ann", 5))
}

func TestDownAndUnreachable(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	i.set(PayStandard, Behaviour{Operation: "all", Down: Down, RetryAfter: 1})
	for _, c := range [][3]string{
		{"POST", charges, chargeOf(1, "ann", 5)}, {"GET", charges + "/by-key/k", ""},
		{"POST", charges + "/by-key/k/cancel", ""}, {"POST", charges + "/PAY-1/undo", ""},
	} {
		if r := i.want(503, "unavailable", c[0], c[1], "k", c[2]); r.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: no Retry-After", c[0], c[1])
		}
	}
	i.set(PayStandard, Behaviour{Operation: "all", Down: Unreachable})
	if r, err := i.send(t.Context(), "POST", charges, "k", chargeOf(1, "ann", 5)); !errors.Is(err, io.EOF) {
		t.Errorf("unreachable provider: %v, %v, want a closed connection", r, err)
	}
	if err := i.ClearBehaviour(t.Context(), PayStandard); err != nil {
		t.Fatal(err)
	}
	i.want(404, "unknown_key", "GET", charges+"/by-key/k", "", "") // nothing of it was applied
	got := i.log(RequestFilter{Provider: PayStandard})
	want := []string{
		"do k 503 down", "lookup k 503 down", "cancel k 503 down", "undo k 503 down", "do k 0 unreachable", "lookup k 404 ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
}

// log lists calls as "operation key status fault".
func (i *instance) log(f RequestFilter) []string {
	i.t.Helper()
	found, err := i.Requests(i.t.Context(), f)
	if err != nil {
		i.t.Fatal(err)
	}
	var lines []string
	for _, r := range found {
		lines = append(lines, fmt.Sprintf("%s %s %d %s", r.Operation, r.Key, r.Status, r.Fault))
	}
	return lines
}

// The answer is lost and the effect is not (G7): the key finds it, and a repeat gets the answer that was lost.
func TestTimeoutAfterSuccessAppliesOnce(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	i.set(PayStandard, Behaviour{Operation: "do", TimeoutAfterSuccess: 1, Calls: 1})
	if r, err := i.send(patient(t), "POST", charges, "k", chargeOf(1, "ann", 5)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, %v, want no answer", r, err)
	}
	found := i.want(200, "", "GET", charges+"/by-key/k", "", "")
	again := i.want(201, "", "POST", charges, "k", chargeOf(1, "ann", 5))
	if found.Body.State != "active" || again.Body.ID != found.Body.ID {
		t.Errorf("found %s, repeat %s", found.Raw, again.Raw)
	}
	if e := i.entry(PayStandard, 1); e.Active != 1 || e.Net != 5 {
		t.Errorf("ledger has %+v, want one charge of 5", e)
	}
	i.set(PayStandard, Behaviour{Operation: "undo", TimeoutAfterSuccess: 1, Calls: 1})
	undoPath := charges + "/" + found.Body.ID + "/undo"
	if _, err := i.send(patient(t), "POST", undoPath, "u", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want no answer to the undo", err)
	}
	i.want(200, "", "POST", undoPath, "u", "")
}

// A request that the provider has will be carried out, though its caller gave up: so an effect arrives after its cancel
// was sent, or is refused by its tombstone.
func TestLatencyOutlivesTheCaller(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	i.set(PayStandard, Behaviour{Operation: "do", LatencyMinMs: 600, LatencyMaxMs: 700})
	for _, key := range []string{"late", "tombstone"} {
		if _, err := i.send(patient(t), "POST", charges, key, chargeOf(1, "ann", 5)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the caller's own end", err)
		}
		if key == "tombstone" {
			i.want(200, "", "POST", charges+"/by-key/"+key+"/cancel", "", `{"order":1}`)
		}
	}
	until(t, "both requests decided", func() bool { return len(i.log(RequestFilter{Operation: "do"})) == 2 })
	if d := cmp.Diff([]string{"do late 201 ", "do tombstone 409 "}, i.log(RequestFilter{Operation: "do"})); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	if e := i.entry(PayStandard, 1); e.Active != 1 || e.Cancelled != 1 {
		t.Errorf("ledger has %+v, want one late charge and one tombstone", e)
	}
}

func TestDeclinesAreDefinite(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	path := "/carrier-domestic/shipments"
	body := bodyFor(providers()[2], 1)
	ok := i.want(201, "", "POST", path, "ok", body)
	i.set(CarrierDomestic, Behaviour{Operation: "all", DeclineRate: 1})
	i.want(409, "declined", "POST", path, "k", body)
	i.want(201, "", "POST", path, "ok", body) // what was accepted is not declined afterwards
	i.want(403, "undo_refused", "POST", path+"/"+ok.Body.ID+"/undo", "u", "")
	i.want(403, "undo_refused", "POST", path+"/by-key/ok/cancel", "", "")
	i.want(200, "", "GET", path+"/by-key/ok", "", "")
	i.set(CarrierDomestic, Behaviour{Operation: "all"})
	i.want(409, "declined", "POST", path, "k", body) // recorded under its key
	i.want(201, "", "POST", path, "k2", body)
	i.want(200, "", "POST", path+"/"+ok.Body.ID+"/undo", "u", "") // a refused undo is not recorded
	i.set(PayStandard, Behaviour{Operation: "do", DeclineRate: 1})
	i.want(402, "declined", "POST", charges, "k", chargeOf(1, "ann", 5))
	if found, err := i.Balance(t.Context(), PayStandard, "ann"); err != nil || len(found) != 0 {
		t.Errorf("a declined charge moved %+v, %v", found, err)
	}
}

func TestRulesForOneOrderComeFirst(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	i.want(201, "", "POST", charges, "k1", chargeOf(1, "ann", 5))
	two := i.want(201, "", "POST", charges, "k2", chargeOf(2, "ann", 5))
	i.set(PayStandard, Behaviour{Operation: "all", FailRate: 1, FailStatus: 500})
	i.set(PayStandard, Behaviour{Operation: "lookup", FailRate: 1, FailStatus: 502})
	i.set(PayStandard, Behaviour{Operation: "all", Order: 2, FailRate: 1, FailStatus: 504})
	i.set(PayStandard, Behaviour{Operation: "cancel", Order: 2, FailRate: 1, FailStatus: 507})

	i.want(500, "unavailable", "POST", charges, "k", chargeOf(1, "ann", 5))
	i.want(502, "unavailable", "GET", charges+"/by-key/k1", "", "")
	i.want(504, "unavailable", "POST", charges, "k", chargeOf(2, "ann", 5))
	i.want(504, "unavailable", "GET", charges+"/by-key/k2", "", "") // the order is known from the effect
	i.want(504, "unavailable", "POST", charges+"/"+two.Body.ID+"/undo", "u", "")
	i.want(504, "unavailable", "GET", charges+"/by-key/none?order=2", "", "")
	i.want(507, "unavailable", "POST", charges+"/by-key/k2/cancel", "", "")
	i.want(507, "unavailable", "POST", charges+"/by-key/none/cancel", "", `{"order":2}`)
}

func TestRateIsAShareThatFollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (n int, drawn []bool) {
		r := &rules{rand: rand.New(rand.NewPCG(seed, 1)), set: []rule{{Behaviour: Behaviour{Operation: "all", FailRate: 0.3}}}}
		for range 1000 {
			failed := r.choose(do, 1, time.Now()).fault == faultFail
			if drawn = append(drawn, failed); failed {
				n++
			}
		}
		return n, drawn
	}
	n, first := draw(1)
	if n < 250 || n > 350 {
		t.Errorf("%d of 1000 failed at a rate of 0.3", n)
	}
	if _, second := draw(1); !cmp.Equal(first, second) {
		t.Error("one seed drew two sequences")
	}
	if _, other := draw(2); cmp.Equal(first, other) {
		t.Error("two seeds drew one sequence")
	}
}

// Rules and what is left of a count survive a restart.
func TestBehaviourSurvivesARestart(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	i := start(t, dsn)
	i.set(PayStandard, Behaviour{Operation: "do", FailRate: 1, Calls: 3})
	i.set(PayStandard, Behaviour{Operation: "undo", Order: 4, LatencyMinMs: 1, LatencyMaxMs: 2})
	i.want(503, "unavailable", "POST", charges, "k", chargeOf(1, "ann", 5))
	i.stop()

	i = start(t, dsn)
	got, err := i.Behaviour(t.Context(), PayStandard)
	want := []Behaviour{
		{Operation: "do", FailRate: 1, Calls: 2},
		{Operation: "undo", Order: 4, LatencyMinMs: 1, LatencyMaxMs: 2},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("rules after the restart (-want +got), %v:\n%s", err, d)
	}
	for range 2 {
		i.want(503, "unavailable", "POST", charges, "k", chargeOf(1, "ann", 5))
	}
	i.want(201, "", "POST", charges, "k", chargeOf(1, "ann", 5))
	i.stop()

	i = start(t, dsn)
	i.want(201, "", "POST", charges, "k2", chargeOf(1, "ann", 5)) // a rule used up does not come back
}

func TestEveryCallIsLogged(t *testing.T) {
	t.Parallel()
	i := startWith(t, Config{Postgres: pgtest.Database(t), Seed: 1, KeepRequests: 3})
	i.want(404, "unknown_key", "GET", charges+"/by-key/k", "", "") // belongs to the order that its key turns out to be of
	i.want(404, "unknown_key", "GET", charges+"/by-key/other", "", "")
	i.want(400, "invalid", "POST", charges, "", chargeOf(8, "ann", 5))
	r := i.want(201, "", "POST", charges, "k", chargeOf(8, "ann", 5))
	i.want(200, "", "POST", charges+"/"+r.Body.ID+"/undo", "u", "")
	i.want(200, "", "POST", charges+"/by-key/late/cancel", "", `{"order":8}`)
	want := []string{"lookup k 404 ", "do  400 ", "do k 201 ", "undo u 200 ", "cancel late 200 "}
	if d := cmp.Diff(want, i.log(RequestFilter{Order: 8})); d != "" {
		t.Errorf("log of the order (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want[2:3], i.log(RequestFilter{Order: 8, Operation: "do", After: 3, Limit: 1})); d != "" {
		t.Errorf("filtered log (-want +got):\n%s", d)
	}
}

func TestLogIsPruned(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	i := start(t, dsn)
	for n := range 10 {
		i.want(404, "unknown_key", "GET", charges+"/by-key/"+strconv.Itoa(n), "", "")
	}
	s := openStore(t, dsn)
	if err := s.prune(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"lookup 7 404 ", "lookup 8 404 ", "lookup 9 404 "}, i.log(RequestFilter{})); d != "" {
		t.Errorf("log after pruning (-want +got):\n%s", d)
	}
}
