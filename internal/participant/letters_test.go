package participant_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/participant"
	"chorus/internal/web"
	"chorus/schemas"
)

// newer is a codec of a registry that gives other ids than the embedded one, as after a deployment that this version does not know.
func newer(t *testing.T) *codec.Codec {
	t.Helper()
	ids := map[event.Type]int{}
	for i, s := range schemas.List() {
		ids[event.Type(s.Type)] = 900 + i
	}
	c, err := codec.New(ids, codec.Avro)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// with returns the fact with another id and one header changed, or without it when value is empty.
func with(f inbox.Fact, n int, header, value string) inbox.Fact {
	f.ID = stranger(n)
	headers := f.Headers
	f.Headers = nil
	for _, h := range headers {
		switch {
		case h.Key == "id":
			h.Value = []byte(event.ID(f.ID).String())
		case h.Key == header && value == "":
			continue
		case h.Key == header:
			h.Value = []byte(value)
		}
		f.Headers = append(f.Headers, h)
	}
	return f
}

// Each record that cannot be read is set aside with its own reason, and the facts around it go on (G11, CON-10). What a deployment mends is
// redriven by the inspection API, once.
func TestDeadLettersAndRedrive(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())

	foreign := with(cancelled(2), 10, "", "")
	value, err := newer(t).Encode(event.OrderCancellationRequested{Reason: event.ByOperator})
	if err != nil {
		t.Fatal(err)
	}
	foreign.Value = value
	mute := with(cancelled(3), 11, "", "")
	mute.Value = nil // CON-04
	wrongKey := with(cancelled(4), 12, "", "")
	wrongKey.Key = "04"
	publish(t, kafka.Addr(), 1,
		cancelled(1),
		foreign,
		mute,
		wrongKey,
		with(cancelled(5), 13, "eventType", "OrderTeleported"),
		with(cancelled(5), 14, "hop", "many"),
		with(cancelled(5), 15, "causationId", ""),
		with(cancelled(5), 16, "eventType", "PaymentTaken"), // known, and none of billing's business: no look at its value, and no trace
		cancelled(6),
	)
	consume(b, kafka.Addr(), d, event.Billing, nil)
	eventually(t, "all facts are handled", func() bool { return one[int](b, `SELECT count(*) FROM inbox`) == 8 })

	mux := http.NewServeMux()
	inspect.Source{Participant: event.Billing, DB: pool, States: true, Calls: true, Handler: d.Handle}.Routes(mux)
	old := httptest.NewServer(mux)
	defer old.Close()
	client := inspect.Client{Base: old.URL}
	letters, err := client.Letters(t.Context(), inspect.LetterFilter{State: inbox.Open}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range letters {
		got = append(got, fmt.Sprintf("%d %s", l.Offset, l.Reason))
	}
	if diff := cmp.Diff([]string{"1 unknown_schema", "2 undecodable", "3 bad_header", "4 unknown_type", "5 bad_header", "6 bad_header"}, got); diff != "" {
		t.Fatal(diff)
	}
	if got := b.stated(1) + " " + b.stated(6); got != "PaymentVoided PaymentVoided" {
		t.Errorf("the neighbours stated %q", got)
	}

	// This version cannot read it: 422 with the reason, another attempt on record, and no effect.
	first := letters[0]
	var problem *web.Problem
	if _, err := client.Redrive(t.Context(), first.ID, inspect.RedriveRequest{}); !errors.As(err, &problem) || problem.Status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, "unknown_schema") {
		t.Errorf("redrive by a version that cannot read it: %v", err)
	}
	again, err := client.Letter(t.Context(), first.ID)
	if err != nil || again.State != inbox.Open || again.Attempts != first.Attempts+1 || !again.FirstFailedAt.Equal(first.FirstFailedAt) || string(again.Value) != string(value) {
		t.Errorf("letter after a redrive that failed: %+v %v", again, err)
	}

	// A version that can.
	d2 := participant.New(t.Context(), b.log, pool, newer(t), billing())
	mux = http.NewServeMux()
	inspect.Source{Participant: event.Billing, DB: pool, States: true, Calls: true, Handler: d2.Handle}.Routes(mux)
	deployed := httptest.NewServer(mux)
	defer deployed.Close()
	client.Base = deployed.URL
	preview, err := client.Redrive(t.Context(), first.ID, inspect.RedriveRequest{Preview: true})
	if want := (inspect.Redriven{Verdict: "applied", Why: "nothing was done; a later do is ignored", Preview: true}); err != nil || preview != want {
		t.Errorf("preview %+v %v", preview, err)
	}
	if l, err := client.Letter(t.Context(), first.ID); err != nil || l.State != inbox.Open || l.Attempts != again.Attempts || b.stated(2) != "" {
		t.Errorf("a preview left %+v %v, stated %q", l, err, b.stated(2))
	}
	done, err := client.Redrive(t.Context(), first.ID, inspect.RedriveRequest{})
	if err != nil || done.Verdict != "applied" || b.stated(2) != "PaymentVoided" {
		t.Errorf("redrive %+v %v, stated %q", done, err, b.stated(2))
	}
	if _, err := client.Redrive(t.Context(), first.ID, inspect.RedriveRequest{}); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("a second redrive: %v", err)
	}
	if verdict := one[string](b, `SELECT verdict FROM inbox WHERE event_id = $1`, [16]byte(first.EventID)); verdict != "applied" || b.stated(2) != "PaymentVoided" {
		t.Errorf("verdict %s, stated %q", verdict, b.stated(2))
	}

	// What nobody can mend is discarded, with a reason.
	if err := client.Discard(t.Context(), letters[1].ID, " "); !errors.As(err, &problem) || problem.Status != http.StatusUnprocessableEntity {
		t.Errorf("discard without a reason: %v", err)
	}
	if err := client.Discard(t.Context(), letters[1].ID, "a test wrote it"); err != nil {
		t.Error(err)
	}
	if err := client.Discard(t.Context(), letters[1].ID, "again"); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("discard twice: %v", err)
	}
	if err := client.Discard(t.Context(), 1<<40, "none"); !errors.As(err, &problem) || problem.Status != http.StatusNotFound {
		t.Errorf("discard what is not there: %v", err)
	}
	if _, err := client.Letter(t.Context(), 1<<40); !errors.As(err, &problem) || problem.Status != http.StatusNotFound {
		t.Errorf("a letter that is not there: %v", err)
	}
	figures, err := client.Figures(t.Context())
	if err != nil || figures.DeadLetters != 4 || figures.Phases["CLOSED"] != 3 {
		t.Errorf("figures %+v %v", figures, err)
	}
	o, err := client.Order(t.Context(), 1, []event.ID{event.ID(cancelled(1).ID), stranger(99)})
	if err != nil || !o.Known || o.Phase != "CLOSED" || len(o.Inbox) != 1 || o.Inbox[0].Verdict != "applied" {
		t.Errorf("order %+v %v", o, err)
	}
	states, err := client.States(t.Context(), 1, 1)
	if err != nil || len(states) != 1 || states[0].Order != 2 {
		t.Errorf("states after 1: %+v %v", states, err)
	}
}

// resolver is a registry with the schemas of newer. Until up is closed it cannot be asked.
func resolver(up <-chan struct{}, asked chan<- struct{}) codec.Resolver {
	return func(_ context.Context, id int) (string, error) {
		select {
		case <-up:
			return string(schemas.List()[id-900].Text), nil
		default:
			asked <- struct{}{}
			return "", errors.New("connection refused")
		}
	}
}

// A registry that is away holds up the partition and loses nothing; one that answers lets it go on (SCH-12).
func TestUnknownSchemaIsLearnt(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	writer := newer(t)
	reader := codec.Embedded()
	up, asked := make(chan struct{}), make(chan struct{}, 100)
	reader.LearnFrom(resolver(up, asked))
	d := participant.New(t.Context(), b.log, b.pool(nil), reader, billing())
	foreign := with(cancelled(2), 10, "", "")
	value, err := writer.Encode(event.OrderCancellationRequested{Reason: event.ByOperator})
	if err != nil {
		t.Fatal(err)
	}
	foreign.Value = value
	publish(t, kafka.Addr(), 1, foreign, cancelled(3))
	consume(b, kafka.Addr(), d, event.Billing, nil)
	within(t, "a question to the registry", asked)
	within(t, "another one", asked)
	if n := one[int](b, `SELECT count(*) FROM inbox`); n != 0 {
		t.Errorf("%d facts were handled without the registry", n)
	}
	close(up)
	eventually(t, "both facts are handled", func() bool { return b.stated(2)+b.stated(3) == "PaymentVoidedPaymentVoided" })
	if n := one[int](b, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
