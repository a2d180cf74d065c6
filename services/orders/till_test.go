package orders

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// placeAtOnce sends the requests while all turns are taken, so that they are placed together, and returns their replies. A request is a body with its headers.
func (r *rig) placeAtOnce(t *testing.T, requests ...[]string) []reply {
	t.Helper()
	for range mostTurns {
		r.api.till.turns <- struct{}{}
	}
	replies := make([]reply, len(requests))
	errs := make([]error, len(requests))
	var wg sync.WaitGroup
	for i, request := range requests {
		wg.Go(func() { replies[i], errs[i] = r.try("POST", "/v1/orders", request[0], request[1:]...) })
	}
	until(t, "all requests to wait", func() bool {
		r.api.till.mu.Lock()
		defer r.api.till.mu.Unlock()
		return len(r.api.till.waiting) == len(requests)
	})
	<-r.api.till.turns
	wg.Wait()
	for range mostTurns - 1 {
		<-r.api.till.turns
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return replies
}

func cartOf(customer string) string {
	return fmt.Sprintf(`{"customer":%q,"items":[{"sku":"A","quantity":1}]}`, customer)
}

// TestPlacedTogether: requests that wait share a transaction, and each has the answer that it would have alone.
func TestPlacedTogether(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	before := r.call("POST", "/v1/orders", cartOf("eve"), "Idempotency-Key", "old")
	replies := r.placeAtOnce(t,
		[]string{cartOf("ada")},
		[]string{cartOf("bob"), "Idempotency-Key", "B"},
		[]string{`{"customer":"cy","items":[{"sku":"NOTHING","quantity":1}]}`},
		[]string{cartOf("dan"), "Idempotency-Key", "D"},
		[]string{cartOf("eve"), "Idempotency-Key", "old"},
		[]string{cartOf("dan"), "Idempotency-Key", "D"},
		[]string{cartOf("fay")},
	)
	var numbers []int64
	for i, want := range []int{202, 202, 422, 202, 202, 202, 202} {
		if replies[i].status != want {
			t.Errorf("request %d: %s, want %d", i, replies[i], want)
		}
		if want == 202 {
			numbers = append(numbers, int64(read[Accepted](t, replies[i]).Number))
		}
	}
	if t.Failed() {
		return
	}
	if !replies[2].names(t, "body.items[0].sku") {
		t.Errorf("the fault has no path: %s", replies[2])
	}
	ada, bob, dan, eve, again, fay := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
	if dan != again || (replies[3].header.Get("Idempotent-Replayed") == "true") == (replies[5].header.Get("Idempotent-Replayed") == "true") {
		t.Errorf("one key, and the orders %d and %d", dan, again)
	}
	if eve != int64(read[Accepted](t, before).Number) || replies[4].header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("an old key: %s", replies[4])
	}
	fresh := []int64{ada, bob, dan, fay}
	slices.Sort(fresh)
	if len(slices.Compact(fresh)) != 4 {
		t.Errorf("numbers %v", numbers)
	}
	if got := r.placements(); got != [3]int{5, 5, 5} {
		t.Errorf("%v orders, states and facts, want 5 of each", got)
	}
	if n := r.count(`SELECT count(*) FROM orders AS o JOIN outbox AS x ON x.id = o.event_id AND x.aggregateid = o.order_no::text`); n != 5 {
		t.Errorf("%d orders have their fact", n)
	}
	if n := r.count(`SELECT count(*) FROM idempotency AS i JOIN orders AS o ON o.order_no = (i.response->>'number')::bigint AND o.event_id = (i.response->>'event_id')::uuid`); n != 3 {
		t.Errorf("%d answers are under their keys", n)
	}
	if n := r.count(`SELECT count(DISTINCT xmin::text) FROM orders WHERE order_no = ANY($1)`, fresh); n > 2 {
		t.Errorf("%d transactions", n)
	}
}

// TestPlacedTogetherWithACulprit: a request that fails its transaction fails nobody else (G11).
func TestPlacedTogetherWithACulprit(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	r.onInsert("orders", `IF NEW.customer = 'bad' THEN RAISE EXCEPTION 'no'; END IF`)
	replies := r.placeAtOnce(t, []string{cartOf("ada")}, []string{cartOf("bad"), "Idempotency-Key", "K"}, []string{cartOf("cy"), "Idempotency-Key", "C"})
	for i, want := range []int{202, 500, 202} {
		if replies[i].status != want {
			t.Errorf("request %d: %s, want %d", i, replies[i], want)
		}
	}
	if got := r.placements(); got != [3]int{2, 2, 2} {
		t.Errorf("%v orders, states and facts, want 2 of each", got)
	}
}

// TestPlacedTogetherUnderATakenKey: another replica is about to have the key of one of the requests. That one is told so, and nobody waits.
func TestPlacedTogetherUnderATakenKey(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	held := Keyed{Key: "K"}.claim("/v1/orders", "bob", Cart{})
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", held.lock()); err != nil {
		t.Fatal(err)
	}
	replies := r.placeAtOnce(t, []string{cartOf("ada")}, []string{cartOf("bob"), "Idempotency-Key", "K"}, []string{cartOf("cy")})
	for i, want := range []int{202, 409, 202} {
		if replies[i].status != want {
			t.Errorf("request %d: %s, want %d", i, replies[i], want)
		}
	}
	if got := r.placements(); got != [3]int{2, 2, 2} {
		t.Errorf("%v orders, states and facts, want 2 of each", got)
	}
}

// TestPlacedTogetherWithoutAnswer: the COMMIT for several requests is carried out and its answer lost. Each finds its own order, and none is placed again (G2).
func TestPlacedTogetherWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	between, dsn := newLossy(t, r.dsn)
	r.dsn = dsn
	r.serve()
	between.arm(false)
	replies := r.placeAtOnce(t, []string{cartOf("ada")}, []string{cartOf("bob"), "Idempotency-Key", "B"}, []string{cartOf("cy")})
	for i, got := range replies {
		if got.status != 202 {
			t.Errorf("request %d: %s", i, got)
		}
	}
	if between.lost != 1 {
		t.Fatalf("%d answers were lost", between.lost)
	}
	if got := r.placements(); got != [3]int{3, 3, 3} {
		t.Errorf("%v orders, states and facts, want 3 of each", got)
	}
}

// TestGoneWhileItWaits: a request whose client has left before anything began is not placed, and those behind it are.
func TestGoneWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	for range mostTurns {
		r.api.till.turns <- struct{}{}
	}
	waiting := func(n int) func() bool {
		return func() bool {
			r.api.till.mu.Lock()
			defer r.api.till.mu.Unlock()
			return len(r.api.till.waiting) == n
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/orders", strings.NewReader(cartOf("ada")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	until(t, "the request to wait", waiting(1))
	leave()
	if err := <-gone; err == nil {
		t.Fatal("the client that left has an answer")
	}
	until(t, "the request that left to be taken back", waiting(0))
	for range mostTurns {
		<-r.api.till.turns
	}
	if got := r.call("POST", "/v1/orders", cartOf("bob")); got.status != 202 {
		t.Errorf("%s", got)
	}
	if got := r.placements(); got != [3]int{1, 1, 1} {
		t.Errorf("%v orders, states and facts, want 1 of each", got)
	}
}
