package simulated

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/pgtest"
)

func bodyFor(p provider, order int64) string {
	switch p.effects {
	case "reservations":
		return fmt.Sprintf(`{"order":%d,"lines":[{"sku":"A","quantity":2},{"sku":"B","quantity":1}]}`, order)
	case "shipments":
		return fmt.Sprintf(`{"order":%d,"customer":"ann","units":3}`, order)
	case "messages":
		return fmt.Sprintf(`{"order":%d,"status":"SHIPPED","text":"it is on its way"}`, order)
	case "screenings":
		return fmt.Sprintf(`{"order":%d,"customer":"ann","amount":1250,"currency":"EUR","country":"FI","shipping":"domestic"}`, order)
	}
	return chargeOf(order, "ann", 1250)
}

// Every provider answers in the same way: the life of a key from its first request to after its undo (A105 to A115, C51).
func TestEachProviderKeepsItsKeys(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	for n, p := range providers() {
		t.Run(p.name, func(t *testing.T) {
			i := &instance{Client: i.Client, t: t}
			order := int64(100 + n)
			path := "/" + p.name + "/" + p.effects
			body := bodyFor(p, order)

			i.want(404, "unknown_key", "GET", path+"/by-key/k1", "", "")
			first := i.want(201, "", "POST", path, "k1", body)
			if !strings.HasPrefix(first.Body.ID, p.prefix+"-") || first.Body.Order != order {
				t.Errorf("answer %s, want an id and the order", first.Raw)
			}
			if again := i.want(201, "", "POST", path, "k1", " "+body); again.Raw != first.Raw {
				t.Errorf("repeat answered %s, the first request %s", again.Raw, first.Raw)
			}
			i.want(422, "key_reused", "POST", path, "k1", bodyFor(p, order+1000))
			if second := i.want(201, "", "POST", path, "k2", body); second.Body.ID == first.Body.ID {
				t.Error("two keys got one id")
			}
			found := i.want(200, "", "GET", path+"/by-key/k1", "", "")
			if found.Body.ID != first.Body.ID || found.Body.State != "active" || found.Body.Key != "k1" {
				t.Errorf("look-up found %s", found.Raw)
			}
			if p.name == Bureau && (found.Body.Score == nil || *found.Body.Score != *first.Body.Score) {
				t.Errorf("look-up found score %v, the answer had %v", found.Body.Score, first.Body.Score)
			}

			undoPath := path + "/" + first.Body.ID + "/undo"
			done := i.want(200, "", "POST", undoPath, "u1", `{"reason":"cancelled by customer"}`)
			if done.Body.State != "undone" || done.Body.ID != first.Body.ID {
				t.Errorf("undo answered %s", done.Raw)
			}
			if again := i.want(200, "", "POST", undoPath, "u1", `{"reason":"cancelled by customer"}`); again.Raw != done.Raw {
				t.Errorf("repeated undo answered %s, the first %s", again.Raw, done.Raw)
			}
			i.want(422, "key_reused", "POST", undoPath, "u1", `{"reason":"another"}`)
			i.want(409, "already_undone", "POST", undoPath, "u2", `{"reason":"cancelled by customer"}`)
			i.want(404, "unknown_id", "POST", path+"/"+p.prefix+"-nothing/undo", "u3", "")
			i.want(201, "", "POST", path, "k1", body) // what was answered once is answered again

			i.want(200, "", "POST", path+"/by-key/k2/cancel", "", `{"reason":"late"}`)
			i.want(409, "cancelled", "POST", path, "k2", body)
			found = i.want(200, "", "GET", path+"/by-key/k2", "", "")
			if found.Body.State != "undone" || !found.Body.Tombstone {
				t.Errorf("a cancelled effect is found as %s", found.Raw)
			}
			e := i.entry(p.name, order)
			if e.Active != 0 || e.Undone != 2 || e.Net != 0 || e.Units != 0 {
				t.Errorf("ledger has %+v, want nothing active and two undone", e)
			}
			if p.pays && (e.Charged != 2500 || e.Refunded != 2500) {
				t.Errorf("ledger has %+v, want 2500 charged and refunded", e)
			}
		})
	}
}

func TestCancelBeforeTheRequestLeavesATombstone(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	path := "/pay-standard/charges"
	for range 2 { // a cancel may be repeated
		r := i.want(200, "", "POST", path+"/by-key/k/cancel", "", `{"reason":"deadline","order":9}`)
		if r.Body.State != "cancelled" || r.Body.ID != "" {
			t.Errorf("cancel of an unknown key answered %s", r.Raw)
		}
	}
	i.want(409, "cancelled", "POST", path, "k", chargeOf(9, "ann", 5))
	e := i.entry(PayStandard, 9)
	if e.Cancelled != 1 || e.Active != 0 || e.Charged != 0 {
		t.Errorf("ledger has %+v, want one tombstone and no charge", e)
	}
}

func TestWordsForceAnAnswer(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	lines := `"lines":[{"sku":"Missing-1","quantity":1}]`
	for _, c := range []struct {
		path, body, code string
		status           int
	}{
		{"/pay-standard/charges", chargeOf(1, "Ann Declined", 5), "insufficient_funds", 402},
		{"/pay-highvalue/charges", chargeOf(1, "declined", 5), "insufficient_funds", 402},
		{"/warehouse/reservations", `{"order":1,` + lines + `}`, "out_of_stock", 409},
		{"/carrier-domestic/shipments", `{"order":1,"customer":"undeliverable","units":1}`, "undeliverable", 409},
	} {
		i.want(c.status, c.code, "POST", c.path, "k", c.body)
		i.want(c.status, c.code, "POST", c.path, "k", c.body) // replayed
		if r := i.want(200, c.code, "GET", c.path+"/by-key/k", "", ""); r.Body.State != "refused" {
			t.Errorf("%s: a refused key is found as %s", c.path, r.Raw)
		}
	}
	for customer, want := range map[string]int{"Mr Fraud": 95, "needs review": 70} {
		r := i.want(201, "", "POST", "/bureau/screenings", customer[:2], fmt.Sprintf(
			`{"order":2,"customer":%q,"amount":1,"currency":"EUR"}`, customer))
		if r.Body.Score == nil || *r.Body.Score != want {
			t.Errorf("%s scored %s, want %d", customer, r.Raw, want)
		}
	}
}

func TestScoresAreMostlyLow(t *testing.T) {
	t.Parallel()
	low, n := 0, 4000
	for amount := range n {
		s := (&screening{Customer: fmt.Sprintf("customer %d", amount%50), Amount: int64(amount), Currency: "EUR"}).score()
		if s < 0 || s >= 90 {
			t.Fatalf("score %d without being forced", s)
		}
		if s < 50 {
			low++
		}
	}
	if share := float64(low) / float64(n); share < 0.8 || share > 0.95 {
		t.Errorf("%.0f%% of scores are below 50, want about 87%%", share*100)
	}
	a := screening{Order: 1, Customer: "ann", Amount: 5, Currency: "EUR"}
	b := a
	b.Order = 2
	if a.score() != b.score() {
		t.Error("the same purchase scored differently under another order number")
	}
}

func TestBadInputIsRefusedAndRecordsNothing(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	good := chargeOf(1, "ann", 5)
	for _, c := range []struct {
		name, method, path, key, body string
		status                        int
		fields                        []string
	}{
		{"all fields", "POST", "/pay-standard/charges", "k", `{}`, 400, []string{"order", "customer", "amount", "currency"}},
		{"no key", "POST", "/pay-standard/charges", "", good, 400, []string{"Idempotency-Key"}},
		{"key with a space", "POST", "/pay-standard/charges", "a b", good, 400, []string{"Idempotency-Key"}},
		{"unknown field", "POST", "/pay-standard/charges", "k", `{"order":1,"tip":5}`, 400, []string{"body"}},
		{"two values", "POST", "/pay-standard/charges", "k", good + "{}", 400, []string{"body"}},
		{"no body", "POST", "/pay-standard/charges", "k", "", 400, []string{"body"}},
		{"zero byte", "POST", "/pay-standard/charges", "k", `{"order":1,"customer":"a\u0000","amount":1,"currency":"EUR"}`, 400, []string{"customer"}},
		{"line", "POST", "/warehouse/reservations", "k", `{"order":1,"lines":[{"sku":"A","quantity":1},{"sku":"","quantity":0}]}`, 400, []string{"lines[1].sku", "lines[1].quantity"}},
		{"large body", "POST", "/warehouse/reservations", "k", `{"order":1,"lines":[` + strings.Repeat(" ", 2<<20) + `]}`, 413, nil},
		{"undo", "POST", "/warehouse/reservations/x/undo", "", `{"order":-1}`, 400, []string{"Idempotency-Key", "order"}},
		{"zero byte in key", "GET", "/warehouse/reservations/by-key/a%00", "", "", 400, []string{"key"}},
		{"look-up", "GET", "/warehouse/reservations/by-key/k?page=1", "", "", 400, []string{"page"}},
		{"ledger", "GET", "/ledger?order=x&limit=99999", "", "", 400, []string{"order", "limit"}},
		{"behaviour", "PUT", "/bureau/behaviour", "", `{"operation":"undo","failRate":2,"down":"half","latencyMinMs":5,"calls":-1}`, 400, []string{"down", "failRate", "latencyMaxMs", "calls"}},
		{"balance", "PUT", "/pay-standard/balances/ann", "", `{"currency":"euro","balance":-1}`, 400, []string{"currency", "balance"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := i.send(t.Context(), c.method, c.path, c.key, c.body)
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, f := range r.Body.Fields {
				fields = append(fields, f.Field)
			}
			if d := cmp.Diff(c.fields, fields); r.Status != c.status || d != "" {
				t.Errorf("answered %d %s, want %d; fields (-want +got):\n%s", r.Status, r.Raw, c.status, d)
			}
		})
	}
	sum, err := i.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if sum.Orders != 0 || len(sum.Totals) != 0 {
		t.Errorf("bad input left %+v in the ledger", sum)
	}
	i.want(201, "", "POST", "/pay-standard/charges", "k", good) // nothing was recorded under the key
}

func TestBalancesMoveWithChargesAndRefunds(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	path := "/pay-highvalue/charges"
	if found, err := i.Balance(t.Context(), PayHighValue, "ann"); err != nil || len(found) != 0 {
		t.Fatalf("a customer never seen has %v, %v", found, err)
	}
	if err := i.SetBalance(t.Context(), PayHighValue, "ann", "EUR", 1000); err != nil {
		t.Fatal(err)
	}
	first := i.want(201, "", "POST", path, "k1", chargeOf(1, "ann", 700))
	i.want(402, "insufficient_funds", "POST", path, "k2", chargeOf(2, "ann", 301))
	i.want(201, "", "POST", path, "k3", chargeOf(3, "ann", 300))
	i.want(200, "", "POST", path+"/"+first.Body.ID+"/undo", "u1", "")
	i.want(402, "insufficient_funds", "POST", path, "k2", chargeOf(2, "ann", 301)) // a definite no stays
	i.want(200, "", "POST", path+"/by-key/k3/cancel", "", "")
	i.want(201, "", "POST", path, "k4", chargeOf(2, "ann", 301))

	found, err := i.Balance(t.Context(), PayHighValue, "ann")
	if d := cmp.Diff([]Balance{{Currency: "EUR", Funded: 1000, Balance: 699}}, found); err != nil || d != "" {
		t.Errorf("balance (-want +got), %v:\n%s", err, d)
	}
	sum, err := i.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{
		Orders: 3,
		Totals: []Tally{{
			Provider: PayHighValue, Currency: "EUR", Active: 1, ActiveKeys: 1, Undone: 2, Refused: 1,
			Charged: 1301, Refunded: 1000, Net: 301,
		}},
		Accounts: []AccountSummary{{Provider: PayHighValue, Currency: "EUR", Accounts: 1, Funded: 1000, Balance: 699}},
	}
	if d := cmp.Diff(want, sum); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
}

func TestLedgerComesInPagesOfWholeOrders(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	for order := int64(1); order <= 5; order++ {
		i.want(201, "", "POST", "/pay-standard/charges", fmt.Sprint("c", order), chargeOf(order, "ann", order))
		i.want(201, "", "POST", "/warehouse/reservations", fmt.Sprint("r", order), bodyFor(providers()[0], order))
	}
	var page LedgerPage
	if err := i.call(t.Context(), http.MethodGet, "/ledger?after=1&limit=2", nil, &page); err != nil {
		t.Fatal(err)
	}
	var orders []int64
	for _, e := range page.Entries {
		orders = append(orders, e.Order)
	}
	if d := cmp.Diff([]int64{2, 2, 3, 3}, orders); d != "" || page.Next != 3 {
		t.Errorf("page ends at %d with orders (-want +got):\n%s", page.Next, d)
	}
	entries, net, held := 0, int64(0), int64(0)
	for e, err := range i.Ledger(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		entries, net, held = entries+1, net+e.Net, held+e.Units
	}
	if entries != 10 || net != 15 || held != 15 {
		t.Errorf("ledger has %d entries, net %d, %d units, want 10, 15 and 15", entries, net, held)
	}
}

func TestClientReportsTheFieldsAtFault(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	_, err := i.SetBehaviour(t.Context(), Bureau, Behaviour{Operation: "sometimes"})
	var api *APIError
	if !errors.As(err, &api) || api.Status != 400 || len(api.Fields) != 1 || api.Fields[0].Field != "operation" {
		t.Errorf("got %v, want a 400 that names the operation", err)
	}
	_, err = i.Behaviour(t.Context(), "nobody")
	if !errors.As(err, &api) || api.Status != 404 {
		t.Errorf("got %v, want 404 for an unknown provider", err)
	}
}

// TestPRV11LinesMustSum: a processor that is told the lines of a charge refuses those that do not sum to the amount.
func TestPRV11LinesMustSum(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	body := func(tax int) string {
		return fmt.Sprintf(`{"order":7,"customer":"ann","amount":893,"currency":"CAD","lines":[{"name":"A","quantity":1,"amount":298},{"name":"B","quantity":1,"amount":479},{"name":"tax","quantity":1,"amount":%d}]}`, tax)
	}
	refused := i.want(400, "invalid", "POST", "/pay-standard/charges", "k1", body(117))
	if !strings.Contains(refused.Raw, "must sum to the amount: -1 are missing") {
		t.Errorf("%s", refused.Raw)
	}
	i.want(201, "", "POST", "/pay-standard/charges", "k1", body(116))
}
