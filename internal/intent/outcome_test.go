package intent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/intent"
	"chorus/internal/providertest"
)

var (
	created  = providertest.JSON(201, `{"id":"ch_1"}`)
	active   = providertest.JSON(200, `{"id":"ch_1","state":"active"}`)
	unknown  = providertest.JSON(404, `{"code":"unknown_key"}`)
	busy     = providertest.JSON(503, `{"code":"busy"}`)
	broken   = providertest.Answer{Fault: providertest.CloseAfterReading}
	declined = providertest.JSON(402, `{"code":"insufficient_funds","message":"the balance is too low"}`)
	ended    = providertest.JSON(200, `{"state":"cancelled"}`)
	undone   = providertest.JSON(200, `{"id":"ch_1","state":"undone"}`)
)

// TestEveryOutcome covers the states of D7 and the guarantees G6 and G7 against a real database and a provider that misbehaves.
func TestEveryOutcome(t *testing.T) {
	look := do(1)
	look.Intent.Op = decision.Look
	late := do(1)
	late.Intent.Deadline = time.Now().Add(-time.Second)
	for _, c := range []struct {
		name   string
		plan   intent.Planned
		cfg    func(*intent.Config)
		script []providertest.Answer
		answer string
		trail  []string
	}{
		{name: "succeeds", plan: do(1), script: []providertest.Answer{created},
			answer: "1 payment do SUCCEEDED ch_1", trail: []string{"ATTEMPT ok"}},
		{name: "is declined", plan: do(1), script: []providertest.Answer{declined},
			answer: "1 payment do DECLINED insufficient_funds: the balance is too low", trail: []string{"ATTEMPT refused"}},
		{name: "is busy, then succeeds", plan: do(1), script: []providertest.Answer{busy, busy, created},
			answer: "1 payment do SUCCEEDED ch_1", trail: []string{"ATTEMPT busy", "ATTEMPT busy", "ATTEMPT ok"}},
		{name: "stays busy: fails, nothing to end", plan: do(1), script: []providertest.Answer{busy, busy, busy, busy},
			answer: "1 payment do FAILED busy", trail: []string{"ATTEMPT busy", "ATTEMPT busy", "ATTEMPT busy", "ATTEMPT busy"}},
		{name: "is lost and found", plan: do(1), script: []providertest.Answer{broken, active},
			answer: "1 payment do SUCCEEDED ch_1", trail: []string{"ATTEMPT lost", "ASK ok"}},
		{name: "is lost and absent, then succeeds", plan: do(1), script: []providertest.Answer{broken, unknown, created},
			answer: "1 payment do SUCCEEDED ch_1", trail: []string{"ATTEMPT lost", "ASK absent", "ATTEMPT ok"}},
		{name: "is lost and was refused", plan: do(1), script: []providertest.Answer{broken, providertest.JSON(200, `{"state":"refused","code":"declined"}`)},
			answer: "1 payment do DECLINED declined", trail: []string{"ATTEMPT lost", "ASK refused"}},
		{name: "is lost each time: ended by key", plan: do(1), cfg: func(c *intent.Config) { c.Tries = 2 },
			script: []providertest.Answer{broken, unknown, broken, busy, unknown, broken, ended},
			answer: "1 payment do FAILED no answer",
			trail:  []string{"ATTEMPT lost", "ASK absent", "ATTEMPT lost", "ASK busy", "ASK absent", "END lost", "END ok"}},
		{name: "cannot be found out: stuck", plan: do(1), cfg: func(c *intent.Config) { c.Asks = 2 },
			script: []providertest.Answer{broken, broken, providertest.JSON(500, `{}`)},
			answer: "1 payment do STUCK look-up: HTTP 500 Internal Server Error",
			trail:  []string{"ATTEMPT lost", "ASK lost", "ASK lost"}},
		{name: "cannot be ended: stuck", plan: do(1), cfg: func(c *intent.Config) { c.Tries, c.Ends = 1, 2 },
			script: []providertest.Answer{broken, unknown, busy, busy},
			answer: "1 payment do STUCK cancel by key: busy",
			trail:  []string{"ATTEMPT lost", "ASK absent", "END busy", "END busy"}},
		{name: "comes after the deadline: no attempt", plan: late,
			answer: "1 payment do FAILED DEADLINE"},
		{name: "looks", plan: look, script: []providertest.Answer{broken, providertest.JSON(201, `{"id":"sc_1","score":7}`)},
			answer: "1 payment look SUCCEEDED sc_1", trail: []string{"ATTEMPT lost", "ATTEMPT ok"}},
		{name: "looks in vain", plan: look, script: []providertest.Answer{broken, broken, busy, broken},
			answer: "1 payment look FAILED the connection broke before the answer",
			trail:  []string{"ATTEMPT lost", "ATTEMPT lost", "ATTEMPT busy", "ATTEMPT lost"}},
		{name: "undoes", plan: undo(1), script: []providertest.Answer{broken, busy, undone},
			answer: "1 payment undo SUCCEEDED ch_1", trail: []string{"ATTEMPT lost", "ATTEMPT busy", "ATTEMPT ok"}},
		{name: "undoes once the provider has recovered (CMP-01)", plan: undo(1),
			script: []providertest.Answer{providertest.HTML(500), providertest.HTML(500), providertest.HTML(500), undone},
			answer: "1 payment undo SUCCEEDED ch_1", trail: []string{"ATTEMPT lost", "ATTEMPT lost", "ATTEMPT lost", "ATTEMPT ok"}},
		{name: "undoes what is not there (CMP-04)", plan: undo(1), script: []providertest.Answer{providertest.JSON(404, `{"code":"unknown_id"}`)},
			answer: "1 payment undo SUCCEEDED ", trail: []string{"ATTEMPT ok"}},
		{name: "follows no redirect (PRV-05)", plan: do(1),
			script: []providertest.Answer{providertest.Redirect(302, "/login"), unknown, declined, ended},
			answer: "1 payment do FAILED insufficient_funds: the balance is too low",
			trail:  []string{"ATTEMPT lost", "ASK absent", "ATTEMPT refused", "END ok"}},
		{name: "asks after an unreadable success (PRV-06)", plan: do(1), script: []providertest.Answer{providertest.HTML(200), active},
			answer: "1 payment do SUCCEEDED ch_1", trail: []string{"ATTEMPT lost", "ASK ok"}},
		{name: "undoes what is undone already", plan: undo(1), script: []providertest.Answer{providertest.JSON(409, `{"code":"already_undone"}`)},
			answer: "1 payment undo SUCCEEDED ", trail: []string{"ATTEMPT ok"}},
		{name: "cannot undo: stuck", plan: undo(1), cfg: func(c *intent.Config) { c.Undos = 3 }, script: []providertest.Answer{busy, broken, busy},
			answer: "1 payment undo STUCK busy", trail: []string{"ATTEMPT busy", "ATTEMPT lost", "ATTEMPT busy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			p := providertest.Start(t, c.script...)
			cfg := quick()
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			b.plan(c.plan)
			b.start(cfg, provided(t, p.URL, 5*time.Second))
			if diff := cmp.Diff([]string{c.answer}, b.answers(1)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.trail, b.trail(1)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if n := p.Unused(); n != 0 {
				t.Errorf("%d answers of the script were not asked for", n)
			}
			oneKey(t, p.Requests(), c.plan.Key())
			if open := value[int](b, "SELECT count(*) FROM calls WHERE ended_at IS NULL OR lease_owner IS NOT NULL OR running"); open != 0 {
				t.Errorf("the call is still open")
			}
		})
	}
}

// oneKey checks that attempts share the key and the bytes, and that questions and ends name it.
func oneKey(t *testing.T, requests []providertest.Request, key string) {
	t.Helper()
	body := ""
	for _, r := range requests {
		switch {
		case r.Method == "GET" && r.Path != "/pay/charges/by-key/"+key:
			t.Errorf("asked at %s", r.Path)
		case r.Method == "POST" && r.Key() != key:
			t.Errorf("POST %s with key %q, want %q", r.Path, r.Key(), key)
		case r.Method == "POST" && !strings.HasSuffix(r.Path, "/cancel"):
			if body != "" && body != string(r.Body) {
				t.Errorf("body changed from %s to %s", body, r.Body)
			}
			body = string(r.Body)
		}
		if r.Header.Get("X-Order") != "1" {
			t.Errorf("X-Order %q", r.Header.Get("X-Order"))
		}
	}
}

// TestExchangeIsOnRecordAndOutsideTransactions looks from inside the provider at the moment of the request (G6).
func TestExchangeIsOnRecordAndOutsideTransactions(t *testing.T) {
	b := newBench(t)
	started, inTransaction := -1, -1
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started = value[int](b, "SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE part = 'start' AND key = $1", r.Header.Get("Idempotency-Key"))
		inTransaction = value[int](b, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()")
		io.WriteString(w, `{"id":"ch_1"}`)
	}))
	t.Cleanup(srv.Close)
	cfg := quick()
	cfg.Poll = time.Minute // nothing else looks into the database meanwhile
	b.plan(do(1))
	b.start(cfg, provided(t, srv.URL, 5*time.Second))
	b.answers(1)
	srv.Close()
	if started != 1 {
		t.Errorf("%d start rows at the time of the request", started)
	}
	if inTransaction != 0 {
		t.Errorf("%d transactions were open at the time of the request", inTransaction)
	}
}
