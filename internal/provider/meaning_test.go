package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/provider"
	"chorus/internal/providertest"
)

const long = 10 << 20

func TestMeaningOfAnswers(t *testing.T) {
	do, undo, look := attempt(decision.Do, `{}`), attempt(decision.Undo, ""), attempt(decision.Look, `{}`)
	ask, end := in(decision.Asking, do), in(decision.Ending, do)
	ok := func(reference string) decision.Result {
		return decision.Result{Kind: decision.OK, Reference: reference}
	}
	is := func(kind decision.ResultKind, reason string) decision.Result {
		return decision.Result{Kind: kind, Reason: reason}
	}
	for _, c := range []struct {
		name   string
		call   provider.Call
		answer providertest.Answer
		want   decision.Result
	}{
		{"do", do, providertest.JSON(201, `{"id":"ch_1"}`), ok("ch_1")},
		{"do, repeated", do, providertest.JSON(200, `{"id":"ch_1","more":[1]}`), ok("ch_1")},
		{"do, empty reference", do, providertest.JSON(201, `{"id":""}`), is(decision.Lost, "HTTP 201 without a reference")},
		{"do, reference that leads elsewhere", do, providertest.JSON(201, `{"id":".."}`), is(decision.Lost, "HTTP 201 without a reference")},
		{"do, reference of broken Unicode", do, providertest.JSON(201, "{\"id\":\"ch-\xff\"}"), is(decision.Lost, "HTTP 201 without a reference")},
		{"do, number for a reference", do, providertest.JSON(201, `{"id":7}`), is(decision.Lost, "HTTP 201 without a reference")},
		{"do, 202 without body", do, providertest.Answer{Status: 202}, is(decision.Lost, "HTTP 202 without a readable answer")},
		{"do, insufficient funds", do, providertest.JSON(402, `{"code":"insufficient_funds","message":"too low"}`), is(decision.Refusal, "insufficient_funds: too low")},
		{"do, bad field (PRV-09)", do, providertest.JSON(422, `{"code":"invalid","fields":[{"field":"customer","message":"is too long"}]}`), is(decision.Refusal, "invalid: customer is too long")},
		{"do, 404 page", do, providertest.HTML(404), is(decision.Refusal, "HTTP 404 Not Found")},
		{"do, 408", do, providertest.HTML(408), is(decision.Busy, "HTTP 408 Request Timeout")},
		{"do, 425", do, providertest.HTML(425), is(decision.Busy, "HTTP 425 Too Early")},
		{"do, 429", do, providertest.JSON(429, `{"code":"slow_down"}`), is(decision.Busy, "slow_down")},
		{"do, 503", do, providertest.HTML(503), is(decision.Busy, "HTTP 503 Service Unavailable")},
		{"do, 500", do, providertest.HTML(500), is(decision.Lost, "HTTP 500 Internal Server Error")},
		{"do, 502", do, providertest.JSON(502, `{"code":"up"}`), is(decision.Lost, "up")},
		{"do, 504", do, providertest.HTML(504), is(decision.Lost, "HTTP 504 Gateway Timeout")},
		{"do, zero byte in a reason", do, providertest.JSON(409, `{"code":"a\u0000b"}`), is(decision.Refusal, "ab")},
		{"do, endless reason", do, providertest.JSON(409, `{"code":"`+strings.Repeat("é", 501)+`"}`), is(decision.Refusal, strings.Repeat("é", 499)+"…")},
		{"do, broken before reading", do, providertest.Answer{Fault: providertest.CloseBeforeReading}, is(decision.Lost, "the connection broke before the answer")},
		{"do, broken after reading", do, providertest.Answer{Fault: providertest.CloseAfterReading}, is(decision.Lost, "the connection broke before the answer")},

		{"look", look, providertest.JSON(201, `{"id":"sc_1","score":0}`), decision.Result{Kind: decision.OK, Reference: "sc_1"}},
		{"look, risky", look, providertest.JSON(201, `{"id":"sc_1","score":100}`), decision.Result{Kind: decision.OK, Reference: "sc_1", Score: 100}},
		{"look, without score", look, providertest.JSON(201, `{"id":"sc_1"}`), is(decision.Lost, "HTTP 201 without a score from 0 to 100")},
		{"look, absurd score", look, providertest.JSON(201, `{"id":"sc_1","score":101}`), is(decision.Lost, "HTTP 201 without a score from 0 to 100")},

		{"ask, active", ask, providertest.JSON(200, `{"id":"ch_1","state":"active"}`), ok("ch_1")},
		{"ask, refused", ask, providertest.JSON(200, `{"state":"refused","code":"declined"}`), is(decision.Refusal, "declined")},
		{"ask, cancelled", ask, providertest.JSON(200, `{"state":"cancelled"}`), is(decision.Refusal, "cancelled")},
		{"ask, undone", ask, providertest.JSON(200, `{"id":"ch_1","state":"undone"}`), is(decision.Refusal, "undone")},
		{"ask, new state", ask, providertest.JSON(200, `{"id":"ch_1","state":"pending"}`), is(decision.Lost, "HTTP 200 without a state that is known")},
		{"ask, active without reference", ask, providertest.JSON(200, `{"state":"active"}`), is(decision.Lost, "HTTP 200 without a reference")},
		{"ask, absent", ask, providertest.JSON(404, `{"code":"unknown_key"}`), decision.Result{Kind: decision.Absent}},
		{"ask, forbidden", ask, providertest.HTML(403), is(decision.Lost, "HTTP 403 Forbidden")},
		{"ask, busy", ask, providertest.HTML(429), is(decision.Busy, "HTTP 429 Too Many Requests")},

		{"end", end, providertest.JSON(200, `{"state":"cancelled"}`), ok("")},
		{"end, refused", end, providertest.HTML(404), is(decision.Refusal, "HTTP 404 Not Found")},
		{"end, page", end, providertest.HTML(200), is(decision.Lost, "HTTP 200 without a readable answer")},

		{"undo", undo, providertest.JSON(200, `{"id":"ch_1","state":"undone"}`), ok("ch_1")},
		{"undo, unknown effect", undo, providertest.HTML(404), ok("")},
		{"undo, undone already", undo, providertest.JSON(409, `{"code":"already_undone"}`), ok("")},
		{"undo, gone", undo, providertest.HTML(410), ok("")},
		{"undo, refused", undo, providertest.JSON(403, `{"code":"too_late"}`), is(decision.Refusal, "too_late")},
		{"undo, page", undo, providertest.HTML(200), is(decision.Lost, "HTTP 200 without a readable answer")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := providertest.Start(t, c.answer)
			got, x := send(t, open(t, p.URL), c.call)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if c.answer.Fault == providertest.None && x.Status != c.answer.Status {
				t.Errorf("status %d is on record, want %d", x.Status, c.answer.Status)
			}
			if x.Duration <= 0 {
				t.Error("no duration is on record")
			}
		})
	}
}

// TestPRV05RedirectIsNotFollowed: a charge that became a GET must not be taken for one that was made.
func TestPRV05RedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		p := providertest.Start(t, providertest.Redirect(status, "/login?token=secret"))
		got, x := send(t, open(t, p.URL), attempt(decision.Do, `{}`))
		want := decision.Result{Kind: decision.Lost, Reason: fmt.Sprintf(`redirect %d to "/login", which is not followed`, status)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d: result (-want +got):\n%s", status, diff)
		}
		if x.Header["Location"] != "/login" {
			t.Errorf("%d: Location %q is on record, want it without its secret", status, x.Header["Location"])
		}
		if n := len(p.Requests()); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

// TestPRV06UnreadableAnswers: an error goes by its status whatever the body; a success without a readable id is unknown.
func TestPRV06UnreadableAnswers(t *testing.T) {
	t.Parallel()
	page := providertest.HTML(503)
	page.Header.Set("Retry-After", "2")
	for _, c := range []struct {
		name   string
		answer providertest.Answer
		want   decision.ResultKind
		after  time.Duration
	}{
		{"500 page", providertest.HTML(500), decision.Lost, 0},
		{"503 page", page, decision.Busy, 2 * time.Second},
		{"429 cut off", providertest.Answer{Status: 429, Body: `{"code":"slow`, CutAt: 5}, decision.Busy, 0},
		{"402 cut off", providertest.Answer{Status: 402, Body: `{"code":"slow`, CutAt: 5}, decision.Refusal, 0},
		{"200 page", providertest.HTML(200), decision.Lost, 0},
		{"200 cut off", providertest.Answer{Body: `{"id":"ch_1","state":"active"}`, CutAt: 16}, decision.Lost, 0},
		{"200 cut off after the headers", providertest.Answer{Body: `{"id":"ch_1"}`, Fault: providertest.CloseAfterHeaders}, decision.Lost, 0},
		{"200 empty", providertest.Answer{}, decision.Lost, 0},
		{"200 endless", providertest.Answer{Body: strings.Repeat(" ", long)}, decision.Lost, 0},
		{"200 endless after an id", providertest.Answer{Body: `{"id":"ch_1"}` + strings.Repeat(" ", long)}, decision.Lost, 0},
	} {
		p := providertest.Start(t, c.answer)
		got, x := send(t, open(t, p.URL), attempt(decision.Do, `{}`))
		if got.Kind != c.want || got.Reference != "" || x.RetryAfter != c.after {
			t.Errorf("%s: %+v, Retry-After %s, want %s and %s", c.name, got, x.RetryAfter, c.want, c.after)
		}
		if len(x.Body) > 16<<10 {
			t.Errorf("%s: %d bytes are on record", c.name, len(x.Body))
		}
	}
}

// TestLostAtEveryByte cuts the answer to a charge that was made at each of its bytes: never a success, never a failure (G7).
func TestLostAtEveryByte(t *testing.T) {
	t.Parallel()
	const body = `{"id":"ch_1","order":8842}`
	for at := 1; at < len(body); at++ {
		p := providertest.Start(t, providertest.Answer{Status: http.StatusCreated, Body: body, CutAt: at})
		if got, _ := send(t, open(t, p.URL), attempt(decision.Do, `{}`)); got.Kind != decision.Lost {
			t.Errorf("cut at %d: %+v", at, got)
		}
	}
}
