package participant_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/brokertest"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/providertest"
	"chorus/internal/web"
)

// actions are what the audit has, the oldest first.
func actions(t *testing.T, client inspect.Client, f inspect.AuditFilter) (did []string) {
	t.Helper()
	entries, err := client.Audit(t.Context(), f, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		did = append([]string{fmt.Sprintf("%s %s %s of %s because %s", e.Who, e.Action, e.Subject, e.Order, e.Why)}, did...)
	}
	return did
}

// A bulk redrive that is killed goes on where it was when it is begun again: each fact takes effect once, in its order's order, and each action is in
// the audit, which the service's own role cannot change.
func TestBulkRedriveGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	writer := newer(t)
	foreign := func(number event.OrderNo) inbox.Fact {
		f := cancelled(number)
		value, err := writer.Encode(event.OrderCancellationRequested{Reason: event.ByOperator})
		if err != nil {
			t.Fatal(err)
		}
		f.Value = value
		return f
	}
	broken := with(placed(3), 20, "", "")
	broken.Value = []byte("?")
	publish(t, kafka.Addr(), 1, foreign(1), foreign(2), broken, foreign(3), foreign(4), foreign(5))
	stop := consume(b, kafka.Addr(), d, event.Billing, nil)
	eventually(t, "all are set aside", func() bool { return one[int](b, `SELECT count(*) FROM dead_letters`) == 6 })
	stop()

	mended := participant.New(t.Context(), b.log, pool, writer, billing())
	mux := http.NewServeMux()
	inspect.Source{Participant: event.Billing, DB: pool, States: true, Calls: true, Handler: mended.Handle}.Routes(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	client := inspect.Client{Base: server.URL}

	killed, left := errors.New("killed"), 2
	bulk := inspect.Bulk{Client: client, Reason: "schema registered", Pace: func(context.Context) error {
		if left--; left < 0 {
			return killed
		}
		return nil
	}}
	work := func() (did []string, err error) {
		letters, err := client.Matching(t.Context(), inspect.LetterFilter{State: inbox.Open})
		if err != nil {
			t.Fatal(err)
		}
		err = bulk.Run(audit.By(t.Context(), "kim"), letters, func(o inspect.Outcome) {
			did = append(did, o.Letter.Key+" "+o.Verdict)
		})
		return did, err
	}
	if did, err := work(); !errors.Is(err, killed) || fmt.Sprint(did) != "[1 applied 2 applied]" {
		t.Errorf("the killed run: %v %v", did, err)
	}
	bulk.Pace = nil
	if did, err := work(); err != nil || fmt.Sprint(did) != "[3 dead 3 waits 4 applied 5 applied]" {
		t.Errorf("the run after it: %v %v", did, err)
	}
	letters, err := client.Letters(t.Context(), inspect.LetterFilter{State: inbox.Open, Type: "OrderPlaced"}, 10)
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d letters, %v", len(letters), err)
	}
	later, err := client.Letters(t.Context(), inspect.LetterFilter{State: inbox.Open, Type: "OrderCancellationRequested"}, 10)
	if err != nil || len(later) != 1 {
		t.Fatalf("%d letters, %v", len(later), err)
	}
	var problem *web.Problem
	if _, err := client.Redrive(t.Context(), later[0].ID, inspect.RedriveRequest{InOrder: true}); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("redrive behind a dead letter: %v", err)
	}
	if err := client.Discard(audit.By(t.Context(), "kim"), letters[0].ID, "a test wrote it"); err != nil {
		t.Error(err)
	}
	if did, err := work(); err != nil || fmt.Sprint(did) != "[3 applied]" {
		t.Errorf("the last run: %v %v", did, err)
	}
	for number := event.OrderNo(1); number <= 5; number++ {
		if got := b.stated(number); got != "PaymentVoided" {
			t.Errorf("order %s: stated %q", number, got)
		}
	}
	if diff := cmp.Diff([]string{
		"kim redrive dead letter 1 of 1 because schema registered", "kim redrive dead letter 2 of 2 because schema registered",
		"kim redrive dead letter 3 of 3 because schema registered",
		"kim redrive dead letter 5 of 4 because schema registered", "kim redrive dead letter 6 of 5 because schema registered",
		"kim discard dead letter 3 of 3 because a test wrote it", "kim redrive dead letter 4 of 3 because schema registered",
	}, actions(t, client, inspect.AuditFilter{})); diff != "" {
		t.Error(diff)
	}
	if did := actions(t, client, inspect.AuditFilter{Order: 3, Action: audit.Discard}); len(did) != 1 {
		t.Errorf("of order 3 discarded: %v", did)
	}
	for _, sql := range []string{`UPDATE audit SET who = 'nobody'`, `DELETE FROM audit`} {
		if _, err := pool.Exec(t.Context(), sql); pg.Code(err) != "42501" {
			t.Errorf("%s as the service: %v", sql, err)
		}
	}
}

// What a person does about a stuck step is on record with who, why, before and after; what is refused is not.
func TestStepActionsAreRecorded(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	for number := event.OrderNo(1); number <= 2; number++ {
		must(t, pool, d, event.Billing, placed(number), screened(number, event.Clear), scheduled(number))
		stuck := intent.Answer{Order: number, Cause: intent.Cause{CausationID: scheduled(number).ID}, Answered: decision.Answered{
			Step: event.PaymentStep, Op: decision.Do, Outcome: decision.Outcome{Kind: decision.Stuck, Reason: "look-up: no answer"},
		}}
		end := func(ctx context.Context, tx pgx.Tx) error { // or the service would go on with it, and a retry would hurry it
			_, err := tx.Exec(ctx, `UPDATE calls SET ended_at = now(), phase = 'OVER', outcome = 'stuck' WHERE order_no = $1`, int64(number))
			return err
		}
		if err := d.Answer(t.Context(), []intent.Answer{stuck}, end); err != nil {
			t.Fatal(err)
		}
	}
	client, _ := run(t, b, participant.Config{Kafka: []string{"127.0.0.1:1"}, Providers: "http://127.0.0.1:1"})
	eventually(t, "the service answers", func() bool { code, _ := status(t, client, "/v1/inspect/figures"); return code == http.StatusOK })
	kim := audit.By(t.Context(), "kim")
	var said struct{ Why string }
	if err := client.Do(kim, http.MethodPost, "/v1/orders/1/resolve", map[string]string{"step": "payment", "evidence": "bank portal: no charge"}, &said); err != nil {
		t.Fatal(err)
	}
	var problem *web.Problem
	if err := client.Do(kim, http.MethodPost, "/v1/orders/1/retry", map[string]string{"step": "payment"}, nil); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("retry of a resolved step: %v", err)
	}
	if err := client.Do(t.Context(), http.MethodPost, "/v1/orders/2/retry", map[string]string{"step": "payment", "reason": "the bank is back"}, &said); err != nil {
		t.Fatal(err)
	}
	if want := "the call is cancelled by its key: what it may have done is taken back"; said.Why != want {
		t.Errorf("retry says %q, want %q", said.Why, want)
	}
	if diff := cmp.Diff([]string{"kim resolve payment of 1 because bank portal: no charge", "unknown retry payment of 2 because the bank is back"}, actions(t, client, inspect.AuditFilter{})); diff != "" {
		t.Error(diff)
	}
	o, err := client.Order(t.Context(), 1, nil)
	if err != nil || len(o.Audit) != 1 || string(o.Audit[0].Before) != `{"phase":"STUCK_DOING"}` || len(o.Stated) != 2 || o.Stated[0].Type != "UndoStuck" || o.Stated[1].Type != "PaymentDeclined" ||
		string(o.Audit[0].After) != fmt.Sprintf(`{"facts":[%q],"phase":"CLOSED"}`, o.Stated[1].ID) {
		t.Errorf("order 1: %+v %v", o, err)
	}
}

// A query that no database takes is the asker's fault (G11).
func TestInspectionRefusesOddQueries(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	mux := http.NewServeMux()
	inspect.Source{Participant: event.Billing, DB: b.pool(nil), States: true, Calls: true}.Routes(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]int{
		"dead-letters?state=%00": 400, "dead-letters?state=%ff": 400, "dead-letters?state=closed": 400, "dead-letters?reason=%00": 400,
		"dead-letters?type=%00": 400, "dead-letters?key=%00": 400, "dead-letters?since=today": 400, "dead-letters?after=-1": 400,
		"dead-letters?limit=0": 400, "audit?order=x": 400, "audit?action=%00": 400, "audit?before=x": 400, "states?after=x": 400,
		"dead-letters?state=open&since=2026-01-12T09:30:00Z": 200, "audit?order=7&limit=1": 200, "states?limit=1": 200,
	} {
		resp, err := http.Get(server.URL + "/v1/inspect/" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
}

// A step that is not stuck but waits for its next attempt goes on at once when a person wants it to; one that waits for nothing does not.
func TestRetryHurriesWhatWaits(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	must(t, pool, d, event.Billing, placed(1), screened(1, event.Clear), scheduled(1))
	bank := providertest.Start(t, providertest.HTML(http.StatusServiceUnavailable), providertest.JSON(http.StatusCreated, `{"id":"ch-1"}`))
	calls := intent.Defaults()
	calls.Backoff, calls.BackoffCap, calls.UndoCap = time.Hour, time.Hour, time.Hour
	client, _ := run(t, b, participant.Config{Kafka: []string{"127.0.0.1:1"}, Providers: bank.URL, Calls: calls})
	eventually(t, "the call waits", func() bool {
		return one[int](b, `SELECT count(*) FROM calls WHERE exchanges = 1 AND NOT running AND due_at > now() + interval '1 minute'`) == 1
	})
	var said struct{ Why string }
	if err := client.Do(audit.By(t.Context(), "kim"), http.MethodPost, "/v1/orders/1/retry", map[string]string{"step": "payment", "reason": "the bank is back"}, &said); err != nil {
		t.Fatal(err)
	}
	if want := "the next attempt at pay-standard is made now"; said.Why != want {
		t.Errorf("retry says %q, want %q", said.Why, want)
	}
	eventually(t, "the charge is made", func() bool { return b.stated(1) == "PaymentTaken" })
	var problem *web.Problem
	if err := client.Do(t.Context(), http.MethodPost, "/v1/orders/1/retry", map[string]string{"step": "payment"}, nil); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("retry of what is done: %v", err)
	}
	if did := actions(t, client, inspect.AuditFilter{}); len(did) != 1 || did[0] != "kim retry payment of 1 because the bank is back" {
		t.Errorf("the audit has %v", did)
	}
}
