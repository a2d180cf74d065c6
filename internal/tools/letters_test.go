package tools

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/web"
)

// billingLetters is a billing service with dead letters, of whom each redrive does what its test says.
type billingLetters struct {
	mu      sync.Mutex
	letters []inspect.Letter         // guarded by mu
	answers map[int64]*web.Problem   // guarded by mu: refusals by letter
	asked   []inspect.RedriveRequest // guarded by mu
	order   []int64                  // guarded by mu: redriven, in this order
	by      []string                 // guarded by mu
	queries []string                 // guarded by mu
}

func (b *billingLetters) handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/inspect/dead-letters": func(w http.ResponseWriter, r *http.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			q := r.URL.Query()
			q.Del("limit")
			b.queries = append(b.queries, q.Encode())
			after, _ := strconv.ParseInt(q.Get("after"), 10, 64)
			list := []inspect.Letter{}
			for _, l := range b.letters {
				if l.ID > after && (q.Get("state") == "" || l.State == q.Get("state")) {
					list = append(list, l)
				}
			}
			answer(map[string]any{"dead_letters": list})(w, r)
		},
		"GET /v1/inspect/dead-letters/{id}": func(w http.ResponseWriter, r *http.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			answer(*b.letter(r))(w, r)
		},
		"POST /v1/inspect/dead-letters/{id}/redrive": func(w http.ResponseWriter, r *http.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			l, how := b.letter(r), read[inspect.RedriveRequest](r)
			b.asked, b.order, b.by = append(b.asked, how), append(b.order, l.ID), append(b.by, r.Header.Get(audit.Header))
			if p := b.answers[l.ID]; p != nil {
				web.Fail(w, p.Status, p.Detail)
				return
			}
			if !how.Preview {
				l.State = "redriven"
			}
			answer(inspect.Redriven{Verdict: "applied", Why: "charge", Preview: how.Preview})(w, r)
		},
		"POST /v1/inspect/dead-letters/{id}/discard": func(w http.ResponseWriter, r *http.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			l := b.letter(r)
			l.State, l.ClosedWhy = "discarded", read[map[string]string](r)["reason"]
			answer(struct{}{})(w, r)
		},
	}
}

// letter must be called with mu held.
func (b *billingLetters) letter(r *http.Request) *inspect.Letter {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return &b.letters[slices.IndexFunc(b.letters, func(l inspect.Letter) bool { return l.ID == id })]
}

// letterCluster is a cluster with letters at billing and one at the tracker.
func letterCluster(t *testing.T, b *billingLetters) Cluster {
	t.Helper()
	none := serve(t, map[string]http.HandlerFunc{
		"GET /v1/inspect/dead-letters":                  answer(map[string]any{"dead_letters": []inspect.Letter{}}),
		"GET /v1/services/tracker/inspect/dead-letters": answer(map[string]any{"dead_letters": []inspect.Letter{{ID: 3, Participant: "tracker", State: "open", Key: strings.Repeat("9", 3000)}}}),
	})
	return Cluster{Data: folder(t, map[string]string{
		"billing": serve(t, b.handlers()), "front": none, "orders": none, "inventory": none, "fraud": none, "shipping": none, "notifications": none,
	})}
}

func billingLetter(id, offset int64, key string) inspect.Letter {
	return inspect.Letter{
		ID: id, Participant: event.Billing, Topic: "orders.events", Partition: 1, Offset: offset, Key: key, EventType: "OrderPlaced",
		Reason: "undecodable", Detail: "begins with byte 0x72", State: "open", Value: []byte("rubbish"), Headers: map[string]string{"hop": "1"},
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := &billingLetters{letters: []inspect.Letter{billingLetter(12, 5, "8842")}}
	c, to := letterCluster(t, b), &said{}
	text := func() string {
		defer to.out.Reset()
		return strings.Join(strings.Fields(to.out.String()), " ")
	}
	if err := run(t, &LettersListCmd{Cluster: c, Output: to.output(false), LetterFilter: LetterFilter{Service: "billing"}, State: "open"}); err != nil {
		t.Fatal(err)
	}
	contains(t, text(), "billing/12 open undecodable OrderPlaced 8842 orders.events/1@5")
	if err := run(t, &LettersListCmd{Cluster: c, Output: to.output(false), State: "open"}); err != nil {
		t.Fatal(err)
	}
	both := text()
	contains(t, both, "billing/12 open", "tracker/3 open")
	if len(both) > 400 {
		t.Error("a key as long as its record makes every line of the list that long")
	}
	if err := run(t, &LettersListCmd{Cluster: c, Output: to.output(false), LetterFilter: LetterFilter{Service: "bill"}}); err == nil || !strings.HasPrefix(err.Error(), "there is no service bill; ") {
		t.Errorf("got %v", err)
	}
	if err := run(t, &LettersShowCmd{Cluster: c, Output: to.output(false), Letter: Letter{event.Billing, 12}}); err != nil {
		t.Fatal(err)
	}
	contains(t, text(), "begins with byte 0x72", "header hop 1", "value rubbish")
	if err := run(t, &LettersDiscardCmd{Cluster: c, Output: to.output(false), Letter: Letter{event.Billing, 12}, Reason: "a test"}); err != nil || b.letters[0].ClosedWhy != "a test" {
		t.Errorf("got %v, %+v", err, b.letters[0])
	}
}

// Filters reach the service; letters are redriven in the order of their facts; where one stays dead those behind it wait, and nobody else does;
// a second run goes on with what is left.
func TestBulkRedrive(t *testing.T) {
	t.Parallel()
	b := &billingLetters{
		letters: []inspect.Letter{billingLetter(1, 9, "7"), billingLetter(2, 4, "7"), billingLetter(3, 5, "8"), billingLetter(4, 6, "9"), billingLetter(5, 8, "9")},
		answers: map[int64]*web.Problem{2: {Status: 422, Detail: "it still cannot be handled"}, 4: {Status: 409, Detail: "the fact has been handled in the meantime"}},
	}
	c, to := letterCluster(t, b), &said{}
	number := Number{8842}
	redrive := &LettersRedriveCmd{
		Cluster: c, Output: to.output(false), Rate: 1000, Note: "mended",
		LetterChoice: LetterChoice{All: true, LetterFilter: LetterFilter{Service: "billing", Type: "OrderPlaced", Reason: "undecodable", Order: &number}},
	}
	if err := run(t, redrive); code(err) != 1 || err.Error() != "3 of 5 are not redriven" {
		t.Errorf("got %v", err)
	}
	if got, want := b.queries[0], "key=8842&reason=undecodable&state=open&type=OrderPlaced"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	if want := []int64{2, 3, 4, 5}; !slices.Equal(b.order, want) {
		t.Errorf("redriven %v, want %v", b.order, want)
	}
	if how := b.asked[0]; !how.InOrder || how.Preview || how.Reason != "mended" || b.by[0] != audit.User() {
		t.Errorf("asked %+v by %s", how, b.by[0])
	}
	contains(t, to.out.String(), "billing/2  dead  it still", "billing/3  applied  charge", "billing/1  waits  behind dead letter 2",
		"billing: 2 applied, as billing/3: charge", "billing: 1 refused, as billing/4: the fact has been handled in the meantime")

	delete(b.answers, 2)
	b.order, b.letters[3].State = nil, "redriven"
	to.out.Reset()
	if err := run(t, redrive); err != nil || !slices.Equal(b.order, []int64{2, 1}) {
		t.Errorf("the second run: %v, redriven %v", err, b.order)
	}
	to.out.Reset()
	if err := run(t, redrive); err != nil {
		t.Error(err)
	}
	contains(t, to.out.String(), "no dead letters")
	for _, wrong := range []LetterChoice{{}, {All: true, Letters: []Letter{{event.Billing, 1}}}, {Letters: []Letter{{event.Billing, 1}}, LetterFilter: LetterFilter{Type: "X"}}} {
		if err := run(t, &LettersRedriveCmd{Cluster: c, Output: to.output(false), Rate: 1, LetterChoice: wrong}); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

func TestPreviewCounts(t *testing.T) {
	t.Parallel()
	b := &billingLetters{
		letters: []inspect.Letter{billingLetter(1, 9, "7"), billingLetter(2, 4, "7"), billingLetter(3, 5, "8")},
		answers: map[int64]*web.Problem{3: {Status: 422, Detail: "it still cannot be handled"}},
	}
	to := &said{}
	preview := &LettersPreviewCmd{
		Cluster: letterCluster(t, b), Output: to.output(false), Rate: 1000,
		LetterChoice: LetterChoice{All: true, LetterFilter: LetterFilter{Service: "billing"}},
	}
	if err := run(t, preview); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "billing: 2 would be applied", "billing: 1 would be dead")
	for _, how := range b.asked {
		if !how.Preview {
			t.Error("a preview redrives")
		}
	}
}
