package intent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/providertest"
)

// due gives a planned call a deadline.
func due(p intent.Planned, in time.Duration) intent.Planned {
	p.Intent.Deadline = time.Now().Add(in)
	return p
}

// TestOpenBreakerMakesCallsWait: while a provider answers nothing useful its calls wait, they do not fail and use up no attempts; one
// probe in each rest is enough to find it back.
func TestOpenBreakerMakesCallsWait(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.HTML(503), providertest.HTML(503), providertest.HTML(503), providertest.HTML(503))
	cfg := quick()
	cfg.Tries = 100
	w := b.start(cfg, configured(t, "pay", p.URL, "    breaker: {after: 3, rest: 300ms}\n    concurrency: 1\n"))
	b.plan(do(1), do(2), do(3))
	w.Wake()
	p.Wait(t.Context(), 4) // three to open it, one probe
	for range 3 {
		p.Then(created)
	}
	b.answers(3)
	seen := p.Requests()
	if len(seen) != 7 {
		t.Errorf("%d requests", len(seen))
	}
	for _, i := range []int{3, 4} {
		if gap := seen[i].At.Sub(seen[i-1].At); gap < 290*time.Millisecond {
			t.Errorf("request %d came %s after the one before it: the breaker was open", i+1, gap)
		}
	}
	if !strings.Contains(w.log.String(), "a provider answers nothing useful") {
		t.Error("nobody was told")
	}
}

// TestDeadlineEndsWaiting: a call that waits for an open breaker, a pause or a rate ends with its deadline, without an exchange (D4).
func TestDeadlineEndsWaiting(t *testing.T) {
	paused := providertest.HTML(503)
	paused.Header.Set("Retry-After", "60")
	for name, c := range map[string]struct {
		more   string
		answer providertest.Answer
	}{
		"breaker": {"    breaker: {after: 1, rest: 1h}\n", providertest.HTML(503)},
		"pause":   {"", paused},
		"rate":    {"    rate: {per_minute: 1, burst: 1}\n", providertest.HTML(503)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := providertest.Start(t, c.answer)
			w := b.start(quick(), configured(t, "pay", p.URL, c.more+"    concurrency: 1\n"))
			b.plan(due(do(1), time.Second))
			w.Wake()
			got := b.answers(1)
			if diff := cmp.Diff([]string{"1 payment do FAILED DEADLINE"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(p.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestPRV03BodySurvivesANewFile: a body that was made for its provider is the same in each attempt, also when a new process has another
// configuration.
func TestPRV03BodySurvivesANewFile(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.HTML(503))
	template := func(version string) string {
		return "    body: {version: " + version + ", amount: '{amount}', key: '{key}'}\n    values: {amount: 'request:$.amount'}\n"
	}
	cfg := quick()
	cfg.Backoff, cfg.BackoffCap = 100*time.Millisecond, 100*time.Millisecond
	first := b.start(cfg, configured(t, "pay", p.URL, template("1")))
	b.plan(do(1))
	first.Wake()
	p.Wait(t.Context(), 1)
	first.stop()
	p.Then(created, created)
	b.start(cfg, configured(t, "pay", p.URL, template("2")))
	b.plan(do(2))
	b.answers(2)
	var bodies []string
	for _, r := range p.Requests() {
		bodies = append(bodies, r.Key()+" "+string(r.Body))
	}
	const one = `payment-1-0 {"amount":100,"key":"payment-1-0","version":1}`
	if bodies[0] != one || bodies[1] != one && bodies[2] != one {
		t.Errorf("%s", strings.Join(bodies, "\n"))
	}
	if !strings.Contains(strings.Join(bodies, "\n"), `payment-2-0 {"amount":100,"key":"payment-2-0","version":2}`) {
		t.Errorf("%s", strings.Join(bodies, "\n"))
	}
}

// TestUndoFromTheRecord: an undo is made from the request and the answer of its call, as they are on record (A63).
func TestUndoFromTheRecord(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.JSON(201, `{"id":"ch_1","transaction":{"id":"t 7"}}`), providertest.JSON(200, `{}`))
	file := strings.Replace(`
routes: {stock: [{to: pay}], screening: [{to: pay}], shipment: [{to: pay}], payment: [{to: pay}]}
providers:
  pay:
    url: "URL/charges"
    unknown: repeat
    revert:
      url: "URL/charges/{tx}/refund"
      method: POST
      values: {tx: $.transaction.id, amount: "request:$.amount"}
      body: {amount: "{amount}", reason: "{reason}"}
`, "URL", p.URL, -1)
	w := b.start(quick(), parsed(t, file))
	b.plan(do(1))
	w.Wake()
	b.answers(1)
	b.plan(undo(1))
	w.Wake()
	b.answers(2)
	r := p.Requests()[1]
	if got := r.Method + " " + r.Path + " " + string(r.Body); got != `POST /charges/t%207/refund {"amount":100,"reason":"CUSTOMER"}` {
		t.Error(got)
	}
}

// TestUndoWithoutItsRecordRests: what an undo is made from is gone, so it is not sent, and people see why (CMP-03).
func TestUndoWithoutItsRecordRests(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t)
	b.start(quick(), configured(t, "pay", p.URL, "")).stop()
	file := strings.ReplaceAll(`
routes: {stock: [{to: pay}], screening: [{to: pay}], shipment: [{to: pay}], payment: [{to: pay}]}
providers:
  pay: {url: "URL/x", unknown: repeat, revert: {url: "URL/x/{tx}", values: {tx: $.tx}}}
`, "URL", p.URL)
	w := b.start(quick(), parsed(t, file))
	b.plan(undo(1))
	w.Wake()
	b.until("the problem is on record", func() bool {
		return value[int](b, `SELECT count(*) FROM calls WHERE problem LIKE '%value {tx}%' AND ended_at IS NULL`) == 1
	})
}

// TestPRV09RefusedFieldIsFinal: a 422 that names a field ends the call at once, with the field's name.
func TestPRV09RefusedFieldIsFinal(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.JSON(422, `{"code":"invalid","fields":[{"field":"customer","message":"has an emoji"}]}`))
	w := b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.plan(do(1))
	w.Wake()
	if diff := cmp.Diff([]string{"1 payment do DECLINED invalid: customer has an emoji"}, b.answers(1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnknownIsRepeated and cancelled: the two ways of a provider without look-up, to the end of the call (G7).
func TestUnknownWithoutLookUp(t *testing.T) {
	for name, c := range map[string]struct {
		more   string
		script []providertest.Answer
		want   string
		paths  string
	}{
		"repeat": {"unknown: repeat", []providertest.Answer{broken, broken, created}, "1 payment do SUCCEEDED ch_1", "POST /c, POST /c, POST /c"},
		"cancel": {"unknown: cancel", []providertest.Answer{broken, broken, providertest.JSON(200, `{}`)},
			"1 payment do DECLINED the outcome was unknown; the key is cancelled", "POST /c, POST /c/payment-1-0/void, POST /c/payment-1-0/void"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := providertest.Start(t, c.script...)
			file := strings.NewReplacer("URL", p.URL, "MORE", c.more).Replace(`
routes: {stock: [{to: pay}], screening: [{to: pay}], shipment: [{to: pay}], payment: [{to: pay}]}
providers:
  pay: {url: "URL/c", MORE, cancel: {url: "URL/c/{key}/void"}, revert: {url: "URL/c/{reference}"}}
`)
			w := b.start(quick(), parsed(t, file))
			b.plan(do(1))
			w.Wake()
			if diff := cmp.Diff([]string{c.want}, b.answers(1)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var paths, keys []string
			for _, r := range p.Requests() {
				paths, keys = append(paths, r.Method+" "+r.Path), append(keys, r.Key())
			}
			if got := strings.Join(paths, ", "); got != c.paths || keys[0] != keys[1] || keys[1] != keys[2] {
				t.Errorf("%s with keys %v", got, keys)
			}
		})
	}
}

// TestOwnPatience: a provider's own retries hold for its calls, undos and cancels.
func TestOwnPatience(t *testing.T) {
	b := newBench(t)
	p := providertest.Start(t, providertest.HTML(503), providertest.HTML(503), providertest.HTML(503), providertest.HTML(503), providertest.HTML(503))
	w := b.start(quick(), configured(t, "pay", p.URL, "    retry: {tries: 2, backoff: 1ms}\n"))
	b.plan(do(1))
	w.Wake()
	b.answers(1)
	if got := b.trail(1); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestEraseByOrder: personal fields go, the record of calls and attempts stays; not while something is open or stuck.
func TestEraseByOrder(t *testing.T) {
	owner, service := asRoles(t)
	b := &bench{t: t, pool: service}
	p := providertest.Start(t, providertest.JSON(201, `{"id":"ch_1","customer":"Ada Lovelace"}`), providertest.JSON(201, `{"id":"ch_2"}`))
	w := b.start(quick(), configured(t, "pay", p.URL, "    texts: [{path: $.amount, max: 9}]\n"))
	b.plan(do(1), do(2))
	w.Wake()
	b.answers(2)
	erase := func(db *pgxpool.Pool, order event.OrderNo) (n int, err error) {
		err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			n, err = intent.Erase(t.Context(), tx, order)
			return err
		})
		return n, err
	}
	if _, err := erase(service, 1); err == nil {
		t.Error("the service erases")
	}
	if n, err := erase(owner, 1); n != 1 || err != nil {
		t.Errorf("erased %d calls, %v", n, err)
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM calls WHERE order_no = 1":                                                     1,
		"SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE order_no = 1":                  2,
		"SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE order_no = 1 AND body <> ''":   0,
		"SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE order_no = 2 AND body <> ''":   1,
		"SELECT count(*) FROM call_bodies":                                                                  1,
		"SELECT count(*) FROM call_sent":                                                                    1,
		"SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE order_no = 1 AND status = 201": 1,
	} {
		if got := value[int](b, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
	w.stop()
	b.plan(intent.Planned{Order: 2, Intent: decision.Intent{Step: event.StockStep, Op: decision.Do, Provider: "pay", Body: charge{2, 1}}})
	if _, err := erase(owner, 2); !errors.Is(err, intent.ErrOpen) {
		t.Errorf("erase of an open order: %v", err)
	}
}
