package orders

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"chorus/internal/event"
)

const one = `{"customer":"ada","items":[{"sku":"A","quantity":1}],"shipping":"domestic"}`

func newKeyRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, nil)
	r.sell([3]string{"A", "1.00", "GBP"})
	return r
}

func TestAPI01SameKeyOtherBody(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	first := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K")
	if first.status != 202 || first.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%s", first)
	}
	if got := r.call("POST", "/v1/orders", strings.Replace(one, `"quantity":1`, `"quantity":2`, 1), "Idempotency-Key", "K"); got.status != 422 || !got.names(t, "header.Idempotency-Key") {
		t.Errorf("another body: %s", got)
	}
	for _, spelling := range []string{
		one,
		"{\n\"shipping\":\"domestic\", \"items\":[ {\"quantity\":1,\"sku\":\"\\u0041\"} ],\"customer\":\"ada\"}",
		`{"customer":"ada","items":[{"sku":"A","quantity":1}]}`, // domestic is the default
	} {
		got := r.call("POST", "/v1/orders", spelling, "Idempotency-Key", "K")
		if got.status != 202 || !bytes.Equal(got.body, first.body) || got.header.Get("Location") != first.header.Get("Location") || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %s, want the first answer %s", spelling, got, first)
		}
	}
	// The key's scope is the path: a cancel with it is a request of its own.
	if got := r.call("POST", read[Accepted](t, first).Link+"/cancel", "", "Idempotency-Key", "K"); got.status != 200 || !read[Moved](t, got).Changed {
		t.Errorf("cancel: %s", got)
	}
	if got := r.placements(); got != [3]int{1, 1, 1} {
		t.Errorf("%v orders, states and facts", got)
	}
}

// TestAPI02DoubleSubmit sends 20 requests of one key at once to two instances whose transactions are slow.
func TestAPI02DoubleSubmit(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	first := r.url
	r.serve()
	urls := []string{first, r.url}
	r.onInsert("order_states", "PERFORM pg_sleep(0.1)")
	const rounds = 4
	for round := range rounds {
		replies := make([]reply, 20)
		errs := make([]error, len(replies))
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() {
				client := *r
				client.url = urls[i%2]
				replies[i], errs[i] = client.try("POST", "/v1/orders", one, "Idempotency-Key", fmt.Sprint("round-", round))
			})
		}
		all.Wait()
		numbers := map[event.OrderNo]int{}
		for i, got := range replies {
			switch {
			case errs[i] != nil:
				t.Fatal(errs[i])
			case got.status == 202:
				numbers[read[Accepted](t, got).Number]++
			case got.status != 409 || got.header.Get("Retry-After") == "":
				t.Errorf("%s", got)
			}
		}
		if len(numbers) != 1 {
			t.Errorf("round %d: orders %v, want one", round, numbers)
		}
		if got := r.placements(); got != [3]int{round + 1, round + 1, round + 1} {
			t.Fatalf("round %d: %v orders, states and facts", round, got)
		}
	}
}

// TestStillRunning checks that a request whose key is held by a transaction that does not end gets 409 at once, and that the key
// is free again when that transaction fails.
func TestStillRunning(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	c := Keyed{Key: "K"}.claim("/v1/orders", "ada", Cart{})
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, c.lock()); err != nil {
		t.Fatal(err)
	}
	if got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K"); got.status != 409 || got.header.Get("Retry-After") != "1" {
		t.Errorf("%s", got)
	}
	if got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "other"); got.status != 202 {
		t.Errorf("another key: %s", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K"); got.status != 202 {
		t.Errorf("after the other failed: %s", got)
	}
}

// TestAPI04ErrorsAreNotKept checks that only successes are kept, and for their customer alone.
func TestAPI04ErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	if got := r.call("POST", "/v1/orders", strings.Replace(one, `:1}`, `:0}`, 1), "Idempotency-Key", "K"); got.status != 422 {
		t.Fatalf("%s", got)
	}
	first := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K")
	if first.status != 202 {
		t.Fatalf("the corrected request: %s", first)
	}
	bob := strings.Replace(one, "ada", "bob", 1)
	second := r.call("POST", "/v1/orders", strings.Replace(bob, `:1}`, `:2}`, 1), "Idempotency-Key", "K")
	if second.status != 202 || read[Accepted](t, second).Number == read[Accepted](t, first).Number {
		t.Errorf("another customer's own request: %s", second)
	}
	third := r.call("POST", "/v1/orders", strings.Replace(one, "ada", "eve", 1), "Idempotency-Key", "K")
	if third.status != 202 || read[Accepted](t, third).Number == read[Accepted](t, first).Number {
		t.Errorf("another customer's equal request: %s", third)
	}
	if got := r.placements(); got != [3]int{3, 3, 3} {
		t.Errorf("%v orders, states and facts", got)
	}
}

// TestCrashInTheMiddle makes each statement of the transaction fail, by an error and by the end of the connection. Nothing stays,
// and the same request then makes one order.
func TestCrashInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	placed := 0
	for _, table := range []string{"order_states", "outbox", "orders", "idempotency"} {
		for fault, status := range map[string]int{
			"RAISE EXCEPTION 'broken'":                       500,
			"PERFORM pg_terminate_backend(pg_backend_pid())": 503,
			"RAISE EXCEPTION 'full' USING ERRCODE = '53100'": 503,
		} {
			key := fmt.Sprintf("%s-%x", table, fault)
			stop := r.onInsert(table, fault)
			got := r.call("POST", "/v1/orders", one, "Idempotency-Key", key)
			if got.status != status || strings.Contains(string(got.body), "broken") {
				t.Errorf("%s, %s: %s; want %d and no inner text", table, fault, got, status)
			}
			if status == 503 && got.header.Get("Retry-After") == "" {
				t.Errorf("%s, %s: no Retry-After", table, fault)
			}
			stop()
			if now := r.placements(); now != [3]int{placed, placed, placed} {
				t.Fatalf("%s, %s: %v orders, states and facts, want %d", table, fault, now, placed)
			}
			got = r.call("POST", "/v1/orders", one, "Idempotency-Key", key)
			placed++
			if now := r.placements(); got.status != 202 || now != [3]int{placed, placed, placed} {
				t.Fatalf("%s, %s: again: %s, %v orders, states and facts", table, fault, got, now)
			}
		}
	}
}

func TestAPI05OddKeys(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	for name, headers := range map[string][]string{
		"empty":         {""},
		"spaces":        {"   "},
		"quoted empty":  {`""`},
		"quoted spaces": {`"  "`},
		"256":           {strings.Repeat("k", 256)},
		"10,000":        {strings.Repeat("k", 10_000)},
		"non-ASCII":     {"schlüssel"},
		"tab inside":    {"a\tb"},
		"space inside":  {"a b"},
		"joined":        {"a, b"},
		"quote inside":  {`a"b`},
		"twice":         {"a", "b"},
		"twice equal":   {"a", "a"},
	} {
		var all []string
		for _, v := range headers {
			all = append(all, "Idempotency-Key", v)
		}
		if got := r.call("POST", "/v1/orders", one, all...); got.status != 400 || !got.names(t, "header.Idempotency-Key") {
			t.Errorf("%s: %s", name, got)
		}
	}
	number := func(key string) event.OrderNo {
		t.Helper()
		got := r.call("POST", "/v1/orders", one, "Idempotency-Key", key)
		if got.status != 202 {
			t.Fatalf("%s: %s", key, got)
		}
		return read[Accepted](t, got).Number
	}
	number(strings.Repeat("k", 255))
	number(`"` + strings.Repeat("q", 255) + `"`)
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	lower := number(uuid)
	if quoted := number(`"` + uuid + `"`); quoted != lower {
		t.Error("the quoted key is another key")
	}
	if upper := number(strings.ToUpper(uuid)); upper == lower {
		t.Error("capitals do not matter")
	}
	if got := r.placements(); got != [3]int{4, 4, 4} {
		t.Errorf("%v orders, states and facts", got)
	}
}

// TestKeysExpire checks that an expired answer is not given, whether or not it has been pruned, and that pruning is bounded.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	numbers := map[event.OrderNo]bool{}
	place := func(key string) {
		t.Helper()
		got := r.call("POST", "/v1/orders", one, "Idempotency-Key", key)
		if got.status != 202 || got.header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s: %s", key, got)
		}
		numbers[read[Accepted](t, got).Number] = true
	}
	for _, key := range []string{"a", "b", "c"} {
		place(key)
	}
	r.ddl(`UPDATE idempotency SET created_at = now() - interval '1 day 1 second'`)
	place("a")
	for _, want := range []int{1, 1, 0} {
		n, err := pruneSome(t.Context(), r.db, 24*time.Hour, 1)
		if err != nil || n != want {
			t.Fatalf("pruned %d, %v; want %d", n, err, want)
		}
	}
	place("b")
	if len(numbers) != 5 || r.count(`SELECT count(*) FROM idempotency`) != 2 {
		t.Errorf("orders %v, %d keys", numbers, r.count(`SELECT count(*) FROM idempotency`))
	}
	if got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "a"); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the new answer is not kept: %s", got)
	}
}

// TestRequestIDsFollowTheKey checks that a repeated request has the same hash in its id, and that unkeyed requests differ.
func TestRequestIDsFollowTheKey(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_700_000_000_000_000)
	a := Keyed{Key: "k"}.claim("/v1/orders", "ada", 1)
	b := Keyed{Key: "k"}.claim("/v1/orders", "ada", 2)
	c := Keyed{Key: "k"}.claim("/v1/orders", "bob", 1)
	if a.requestID(at) != b.requestID(at) || a.requestID(at) == c.requestID(at) {
		t.Error("the id does not follow customer and key")
	}
	var unkeyed claim
	if first, second := unkeyed.requestID(at), unkeyed.requestID(at); first == second {
		t.Error("two requests without key have one id")
	}
}
