package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"chorus/internal/inspect"
)

// A person looks at a dead letter, sees what a redrive would come to, and redrives or discards it, one or all that a filter shows; a refusal is on the page.
func TestDeadLettersPage(t *testing.T) {
	t.Parallel()
	r := start(t)
	letter := func(id int64, reason string) inspect.Letter {
		return inspect.Letter{
			ID: id, Participant: "billing", Topic: "orders.events", Offset: id, EventType: "OrderPlaced", Key: "8842", State: "open", Reason: reason,
			Detail: "byte 0", Attempts: 1, FirstFailedAt: time.Now(), LastFailedAt: time.Now(), Value: []byte{0xff, 1}, Headers: map[string]string{"hop": "0"},
		}
	}
	r.others.mu.Lock()
	r.others.letters = []inspect.Letter{letter(1, "mended"), letter(2, "undecodable"), letter(3, "undecodable"), letter(4, "mended"), letter(5, "mended")}
	r.others.mu.Unlock()
	wants := func(body string, texts ...string) {
		t.Helper()
		for _, want := range texts {
			if !strings.Contains(body, want) {
				t.Errorf("the page does not say %q:\n%s", want, body)
			}
		}
	}
	wants(r.get("/dead-letters", http.StatusOK), `href="/dead-letters/billing/1"`, "Redrive all shown", `<option>tracker</option>`)
	if body := r.get("/dead-letters?service=tracker", http.StatusOK); strings.Contains(body, "billing/1") || !strings.Contains(body, "There are none") {
		t.Error("the filter by consumer does not filter")
	}
	wants(r.get("/dead-letters/billing/1", http.StatusOK), `be <span class="verdict applied">applied</span> charge`, "ff01 (hex)", `href="/orders/8842"`)
	wants(r.get("/dead-letters/billing/2", http.StatusOK), "would not help: it still cannot be handled: undecodable")
	wants(r.do(http.MethodPost, "/dead-letters/billing/2/redrive", url.Values{}, http.StatusUnprocessableEntity), `role="alert"`, "it still cannot be handled")
	wants(r.do(http.MethodPost, "/dead-letters/billing/2/discard", url.Values{"reason": {" "}}, http.StatusUnprocessableEntity), "a reason is needed")
	wants(r.do(http.MethodPost, "/dead-letters/billing/1/redrive", url.Values{"reason": {"mended"}}, http.StatusOK), "redriven", "console because mended")
	wants(r.do(http.MethodPost, "/dead-letters/billing/2/discard", url.Values{"reason": {"a test"}}, http.StatusOK), "discarded", "console because a test")
	wants(r.do(http.MethodPost, "/dead-letters/bulk", url.Values{"do": {"preview"}, "service": {"billing"}}, http.StatusOK), "would come to", `1 <span class="verdict dead">dead</span>`, `2 <span class="verdict waits">waits</span>`)
	wants(r.do(http.MethodPost, "/dead-letters/billing/3/discard", url.Values{"reason": {"a test"}}, http.StatusOK), "discarded")
	wants(r.do(http.MethodPost, "/dead-letters/bulk", url.Values{"do": {"redrive"}, "service": {"billing"}, "note": {"all"}}, http.StatusOK), "came to", `2 <span class="verdict applied">applied</span>`, "There are none")
	for _, path := range []string{"/dead-letters/billing/99", "/dead-letters/nobody/1", "/dead-letters/billing/x", "/dead-letters/tracker/7"} {
		r.get(path, http.StatusNotFound)
	}
}
