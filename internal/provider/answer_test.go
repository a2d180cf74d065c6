package provider

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// odd is a provider with rules of its own, whose wait stands in the body.
const odd = `
routes:
  stock: [{to: odd}]
  screening: [{to: odd}]
  shipment: [{to: odd}]
  payment: [{to: odd}]
providers:
  odd:
    url: "http://h/do"
    ask: {url: "http://h/ask"}
    cancel: {url: "http://h/end"}
    revert: {url: "http://h/undo/{reference}"}
    retry_after: {path: "$..wait", format: auto, cap: 1m, fallback: 2s}
    answers:
      reference: $.data[0].id
    outcomes:
      - {on: [do, ask], status: 2xx, path: "$..error", op: exists, is: declined}
      - {on: [do], path: "$.state", op: contains, value: wait, is: unknown}
      - {on: [ask], path: "$.n", op: lt, value: 5, is: absent}
      - {on: [do, revert], status: [409, 410], is: ok}
`

// FuzzAnswer: whatever a provider answers, it has one of the meanings, a success has a reference that can stand in a path (PRV-06), a reason
// can be stored and shown, and the wait that it asks for is bounded (C16, PRV-01).
func FuzzAnswer(f *testing.F) {
	shipped, err := Load("")
	if err != nil {
		f.Fatal(err)
	}
	own, err := Parse("odd.yaml", []byte(odd), os.LookupEnv)
	if err != nil {
		f.Fatal(err)
	}
	specs := []*spec{shipped.specs["pay-standard"], own.specs["odd"]}
	for _, body := range []string{
		`{"id":"ch_1","state":"active"}`, `{"state":"refused","code":"no\u0000","message":"x"}`, `{"data":[{"id":"r"}],"error":null,"n":1e400,"wait":"-1"}`, `<html>`, ``, `{"id":"ch_1","sta`,
		`{"wait":9999999999}`, `{"data":[{"id":"../x"}]}`, `{"fields":[{"field":"customer","message":"too long"}]}`, `[[[[[[]]]]]]`, `{"id":"` + "\xff" + `"}`,
	} {
		for _, wait := range []string{"", "3", "-1", "Mon, 02 Jan 2006 15:04:05 GMT", "9223372036854775807", "NaN", "1e300"} {
			f.Add(uint16(200), []byte(body), wait, uint8(0))
			f.Add(uint16(503), []byte(body), wait, uint8(5))
		}
	}
	kinds := []Request{
		{kind: "do", Op: decision.Do, Phase: decision.Attempting}, {kind: "do", Op: decision.Look, Phase: decision.Attempting},
		{kind: "ask", Op: decision.Do, Phase: decision.Asking}, {kind: "cancel", Op: decision.Do, Phase: decision.Asking},
		{kind: "cancel", Op: decision.Do, Phase: decision.Ending}, {kind: "revert", Op: decision.Undo, Phase: decision.Attempting},
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, status uint16, body []byte, wait string, pick uint8) {
		r := kinds[int(pick)%len(kinds)]
		s := specs[int(pick)/len(kinds)%len(specs)]
		header := http.Header{"Retry-After": {wait}, "Location": {wait}, "Date": {wait}}
		code := 200 + int(status)%400
		got := s.meaning(r, &http.Response{StatusCode: code, Header: header}, body)
		switch got.Kind {
		case decision.OK, decision.Refusal, decision.Busy, decision.Lost, decision.Absent:
		default:
			t.Fatalf("%d %q means %q", code, body, got.Kind)
		}
		if got.Kind == decision.OK && r.Op == decision.Do && r.Phase == decision.Attempting && !isReference(got.Reference) {
			t.Errorf("%d %q is a success with the reference %q", code, body, got.Reference)
		}
		if got.Kind == decision.Absent && r.Phase != decision.Asking {
			t.Errorf("%d %q says of a %s that it is absent", code, body, r.kind)
		}
		for _, text := range []string{got.Reason, got.Reference} {
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxReason {
				t.Errorf("%d %q: %q cannot be stored", code, body, text)
			}
			for _, c := range text {
				if c == 0 {
					t.Errorf("%d %q: %q has a zero byte", code, body, text)
				}
			}
		}
		after, warning := s.retry.wait(header, body, now)
		if after < 0 || after > s.retry.cap {
			t.Errorf("Retry-After %q, %q: wait for %s", wait, body, after)
		}
		if !utf8.ValidString(warning) {
			t.Errorf("Retry-After %q: warning %q", wait, warning)
		}
	})
}

// TestPanicIsNoRequest: a call over which the program panics cannot be carried out, says so, and ends nobody (C16, G10).
func TestPanicIsNoRequest(t *testing.T) {
	t.Parallel()
	file, err := Parse("odd.yaml", []byte(odd), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	set, err := file.Set("http://h", time.Second, event.PaymentStep)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	call := Call{Provider: "odd", Op: decision.Do, Phase: decision.Attempting, Key: "k", Order: 1, Body: []byte(`{}`)}
	if _, err := set.Prepare(call); err != nil {
		t.Fatal(err)
	}
	set.clients["odd"].do = new(template) // a fault of ours: what Parse makes is complete
	var unknown *UnknownError
	if _, err := set.Prepare(call); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "panic") {
		t.Errorf("%v", err)
	}
}
