package orders

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/codec"
	"chorus/internal/event"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.sell([3]string{"A", "2.55", "GBP"}, [3]string{"B", "0.001", "GBP"})
	got := r.call("POST", "/v1/orders", `{"customer":"ada","items":[{"sku":"A","quantity":3},{"sku":"B","quantity":5}],"shipping":"international"}`)
	if got.status != 202 || got.header.Get("Location") != "/v1/orders/1001" {
		t.Fatalf("%s, location %q", got, got.header.Get("Location"))
	}
	x := read[Accepted](t, got)
	if x.Number != 1001 || x.Link != "/v1/orders/1001" || x.Status != "PLACED" || x.Total != 766 || x.Currency != "GBP" { // 7.655 rounds up
		t.Errorf("accepted %+v", x)
	}
	o := read[Order](t, r.call("GET", x.Link, ""))
	want := Order{
		Summary: Summary{Number: 1001, Status: "PLACED", Customer: "ada", Total: 766, Currency: "GBP", Shipping: "international"},
		Lines:   []row{{"A", 3, "2.55"}, {"B", 5, "0.001"}}, Goods: 766, EventID: x.EventID,
		Stuck: []string{}, Actions: []string{"cancel", "compensate"}, StatusText: "accepted; stock, shipment and payment are being arranged",
	}
	if o.PlacedAt.IsZero() || !o.Deadline.Equal(o.PlacedAt.Add(15*time.Minute)) || !o.UpdatedAt.Equal(o.PlacedAt) {
		t.Errorf("placed at %s, deadline %s, updated at %s", o.PlacedAt, o.Deadline, o.UpdatedAt)
	}
	o.PlacedAt, o.Deadline, o.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	fact := r.fact(x)
	if fact.Customer != "ada" || fact.Total != 766 || fact.Shipping != "international" || len(fact.Lines) != 2 || fact.Lines[1].UnitPrice != "0.001" {
		t.Errorf("the fact %+v", fact)
	}
}

// fact reads OrderPlaced of an order from the outbox, where it has the id of the answer.
func (r *rig) fact(x Accepted) event.OrderPlaced {
	r.t.Helper()
	var payload []byte
	if err := r.db.QueryRow(r.t.Context(), `SELECT payload FROM outbox WHERE id = $1::uuid AND aggregateid = $2`, x.EventID, x.Number.String()).Scan(&payload); err != nil {
		r.t.Fatalf("the fact of order %s: %v", x.Number, err)
	}
	f, err := codec.Embedded().Decode("OrderPlaced", payload)
	if err != nil {
		r.t.Fatal(err)
	}
	return f.(event.OrderPlaced)
}

// TestRefusals checks that everything a shop must not take gets a clear 4xx with its path and leaves nothing behind (API-08, API-10, API-11, API-15).
func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.sell([3]string{"A", "1.00", "GBP"}, [3]string{"E", "1.00", "EUR"}, [3]string{"gold", "46116860184273.04", "GBP"},
		[3]string{"platinum", "9999999999999999.99", "GBP"})
	line := func(quantity string) string {
		return `{"customer":"c","items":[{"sku":"A","quantity":1},{"sku":"A","quantity":` + quantity + `}],"shipping":"domestic"}`
	}
	items := func(items string) string { return `{"customer":"c","items":` + items + `,"shipping":"domestic"}` }
	for _, test := range []struct {
		name, body string
		status     int
		location   string
	}{
		{"API-08 negative", line("-1"), 422, "body.items[1].quantity"},
		{"API-08 zero", line("0"), 422, "body.items[1].quantity"},
		{"API-08 minus zero", line("-0"), 422, "body.items[1].quantity"},
		{"API-08 fraction", line("1.5"), 422, "body.items[1].quantity"},
		{"API-08 text", line(`"3"`), 422, "body.items[1].quantity"},
		{"API-08 exponent", line("1e2"), 422, "body.items[1].quantity"},
		{"API-08 null", line("null"), 422, "body.items[1].quantity"},
		{"API-08 true", line("true"), 422, "body.items[1].quantity"},
		{"API-08 object", line(`{"n":1}`), 422, "body.items[1].quantity"},
		{"API-08 too large", line("1000001"), 422, "body.items[1].quantity"},
		{"API-08 beyond 32 bits", line("2147483648"), 422, "body.items[1].quantity"},
		{"API-08 beyond 64 bits", line("9223372036854775808"), 422, "body.items[1].quantity"},
		{"API-08 missing", items(`[{"sku":"A"}]`), 422, "body.items[0]"},
		{"API-08 no lines", items(`[]`), 422, "body.items"},
		{"lines are null", items(`null`), 422, "body.items"},
		{"a line is null", items(`[null]`), 422, "body.items[0]"},
		{"API-10 one line", items(`[{"sku":"platinum","quantity":1000000}]`), 422, "body.items"},
		{"API-10 just above", items(`[{"sku":"gold","quantity":1},{"sku":"gold","quantity":1},{"sku":"platinum","quantity":1}]`), 422, "body.items"},
		{"API-11 NUL", `{"customer":"a\u0000b","items":[{"sku":"A","quantity":1}]}`, 422, "body.customer"},
		{"API-11 NUL in a code", items(`[{"sku":"A\u0000","quantity":1}]`), 422, "body.items[0].sku"},
		{"API-11 lone surrogate", `{"customer":"a\ud83d","items":[{"sku":"A","quantity":1}]}`, 422, "body.customer"},
		{"API-11 broken bytes", "{\"customer\":\"a\xff\",\"items\":[{\"sku\":\"A\",\"quantity\":1}]}", 422, "body.customer"},
		{"API-11 broken field name", "{\"customer\":\"a\",\"x\xff\":1,\"items\":[{\"sku\":\"A\",\"quantity\":1}]}", 422, "body"},
		{"API-15 own price", items(`[{"sku":"A","quantity":1,"unit_price":0.01}]`), 422, "body.items[0].unit_price"},
		{"API-15 own currency", `{"customer":"c","currency":"JPY","items":[{"sku":"A","quantity":1}]}`, 422, "body.currency"},
		{"unknown code", items(`[{"sku":"A","quantity":1},{"sku":"a","quantity":1}]`), 422, "body.items[1].sku"},
		{"two currencies", items(`[{"sku":"A","quantity":1},{"sku":"E","quantity":1}]`), 422, "body.items[1].sku"},
		{"unknown shipping", `{"customer":"c","items":[{"sku":"A","quantity":1}],"shipping":"rocket"}`, 422, "body.shipping"},
		{"shipping is null", `{"customer":"c","items":[{"sku":"A","quantity":1}],"shipping":null}`, 422, "body.shipping"},
		{"empty customer", `{"customer":"","items":[{"sku":"A","quantity":1}]}`, 422, "body.customer"},
		{"no customer", `{"items":[{"sku":"A","quantity":1}]}`, 422, "body"},
		{"field twice", `{"customer":"c","customer":"d","items":[{"sku":"A","quantity":1}]}`, 422, "body.customer"},
		{"field twice in a line", items(`[{"sku":"A","quantity":1,"quantity":2}]`), 422, "body.items[0].quantity"},
		{"other capitals", `{"Customer":"c","items":[{"sku":"A","quantity":1}]}`, 422, "body.Customer"},
		{"other capitals in a line", items(`[{"sku":"A","Quantity":1}]`), 422, "body.items[0].Quantity"},
		{"an array", `[]`, 422, "body"},
		{"null", `null`, 422, "body"},
		{"too many lines", items("[" + strings.Repeat(`{"sku":"A","quantity":1},`, 10_000) + `{"sku":"A","quantity":1}]`), 422, "body.items"},
		{"more behind", items(`[{"sku":"A","quantity":1}]`) + ` {}`, 400, "body"},
		{"a comma too much", items(`[{"sku":"A","quantity":1},]`), 400, "body"},
		{"cut off", `{"customer":"c"`, 400, "body"},
		{"no JSON", `customer=c`, 400, "body"},
		{"not a number", line("NaN"), 400, "body"},
		{"leading zero", line("01"), 400, "body"},
		{"too deep", strings.Repeat("[", 100_000), 400, "body"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := r.call("POST", "/v1/orders", test.body, "Idempotency-Key", strings.ReplaceAll(test.name, " ", "-"))
			if got.status != test.status || !got.names(t, test.location) {
				t.Errorf("%s; want %d at %s", got, test.status, test.location)
			}
			if len(got.body) > 64<<10 {
				t.Errorf("the answer has %d bytes", len(got.body))
			}
		})
	}
	if got := r.call("POST", "/v1/orders", ""); got.status != 400 {
		t.Errorf("no body: %s", got)
	}
	if got := r.placements(); got != [3]int{} || r.count(`SELECT count(*) FROM idempotency`) != 0 {
		t.Errorf("refused requests left %v orders, states and facts, or a key", got)
	}
}

// TestAllFaultsAtOnce checks that one answer names everything that is wrong.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	got := r.call("POST", "/v1/orders", `{"customer":"a\u0000","gift":true,"items":[{"sku":"","quantity":0},{"quantity":1.5,"sku":"A","sku":"B"}],"shipping":"x"}`)
	var where []string
	for _, f := range got.problem(t).Errors {
		where = append(where, f.Location)
	}
	for _, want := range []string{"body.customer", "body.gift", "body.items[0].sku", "body.items[0].quantity", "body.items[1].quantity", "body.items[1].sku", "body.shipping"} {
		if !got.names(t, want) {
			t.Errorf("%s is not named in %v", want, where)
		}
	}
}

// TestLargeOrdersPass holds the limits against the largest real orders: 1,114 lines (invoice 573585) and 80,995 x 2.08 (581483).
func TestLargeOrdersPass(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var list [][3]string
	var cart []Item
	for i := range 1114 {
		list = append(list, [3]string{fmt.Sprintf("SKU-%04d", i), "1.25", "GBP"})
		cart = append(cart, Item{fmt.Sprintf("SKU-%04d", i), 2})
	}
	r.sell(append(list, [3]string{"paper", "2.08", "GBP"}, [3]string{"gift", "0", "GBP"})...)
	if x := r.place("many", cart...); x.Total != 1114*250 {
		t.Errorf("total %d, want %d", x.Total, 1114*250)
	}
	if x := r.place("one", Item{"paper", 80_995}); x.Total != 16_846_960 {
		t.Errorf("total %d, want 16846960", x.Total)
	}
	if x := r.place("gift", Item{"gift", 1}, Item{"gift", 1}); x.Total != 0 || len(r.fact(x).Lines) != 2 {
		t.Errorf("a gift costs %d with %d lines", x.Total, len(r.fact(x).Lines))
	}
	long := make([]Item, 2000)
	for i := range long {
		long[i] = Item{"gift", 1_000_000}
	}
	r.place("limit", long...)
}

// TestAnOrderThatNoTopicTakesIsRefused: an order whose fact no topic takes would stand in the way of every other one: cdc does not pass it by. It is refused before it is placed (G11).
func TestAnOrderThatNoTopicTakesIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	sku := strings.Repeat("\U0001F9E6", 512)
	r.sell([3]string{sku, "0.01", "EUR"})
	before := r.placements()
	lines := make([]Item, 600)
	for i := range lines {
		lines[i] = Item{SKU: sku, Quantity: 1}
	}
	got := r.call("POST", "/v1/orders", text(t, Cart{Customer: "c", Items: lines, Shipping: event.Domestic}))
	if got.status != 422 || !got.names(t, "body.items") {
		t.Errorf("%s; want a 422 that names body.items", got)
	}
	if after := r.placements(); after != before {
		t.Errorf("%v rows after the refusal, %v before", after, before)
	}
	r.place("c", lines[:400]...)
}

// TestTextSurvives checks that odd but valid text comes back byte for byte (API-11).
func TestTextSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, name := range []string{
		"Søren O'Hara", `"; DROP TABLE orders; --`, "\u202eevil", strings.Repeat("\u0301", 10_000), "£", " ", "\t\r\n", "<script>", `\`, "\ufeff", "\uffff", "\U0010ffff", "\x01\x1f\x7f", "null", "{}", "%00",
	} {
		r.sell([3]string{clip(name, 100), "1", "GBP"})
		x := r.place(name, Item{clip(name, 100), 1})
		o := read[Order](t, r.call("GET", x.Link, ""))
		if o.Customer != name || o.Lines[0].SKU != clip(name, 100) || r.fact(x).Customer != name {
			t.Errorf("%q came back as %q", name, o.Customer)
		}
	}
}

// TestPricesAreTheCatalogues checks that a price change counts at once and for later orders alone (API-15).
func TestPricesAreTheCatalogues(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.sell([3]string{"A", "100000.00", "GBP"})
	first := r.place("c", Item{"A", 1})
	r.sell([3]string{"A", "2.50", "GBP"})
	if second := r.place("c", Item{"A", 1}); first.Total != 10_000_000 || second.Total != 250 {
		t.Errorf("totals %d and %d", first.Total, second.Total)
	}
	if o := read[Order](t, r.call("GET", first.Link, "")); o.Lines[0].UnitPrice != "100000.00" {
		t.Errorf("the first order's price is now %s", o.Lines[0].UnitPrice)
	}
}

// TestTheShopsRatesAreInEveryFigure checks API-06 from the request to the fact.
func TestTheShopsRatesAreInEveryFigure(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Shop = Shop{TaxPercent: "10.75", DomesticFee: "6.44"} })
	r.sell([3]string{"A", "24.99", "USD"})
	x := r.place("c", Item{"A", 1})
	o := read[Order](t, r.call("GET", x.Link, ""))
	f := r.fact(x)
	if got, want := [...]int64{x.Total, o.Total, f.Total, o.Goods, o.Tax, f.Tax, o.ShippingFee, f.ShippingFee}, [...]int64{3412, 3412, 3412, 2499, 269, 269, 644, 644}; got != want {
		t.Errorf("figures %v, want %v", got, want)
	}
}

// FuzzReadJSON checks the strict reader against encoding/json: what it takes without a fault the other takes too, and it never panics.
// TestLongNamesCostNothing: what a body costs follows its length, whatever its shape.
func TestLongNamesCostNothing(t *testing.T) {
	t.Parallel()
	body := `{"` + strings.Repeat("n", 1<<20) + `":[` + strings.Repeat("1,", 1<<19) + `1]}`
	begun := time.Now()
	if _, _, err := readJSON([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second { // 500 GB are copied if each path holds the name
		t.Errorf("2 MB took %s", took)
	}
}

func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",null,true,{"b":{}}]}`, `{"a":1,"a":2}`, `"\ud83d"`, `[1e9,-0,1.5]`, `{"":""} `, "\xff", `{"a\u0000":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, faults, err := readJSON(data)
		var v any
		if plain := json.Unmarshal(data, &v); err == nil && len(faults) == 0 && plain != nil {
			t.Errorf("%q is taken, but not by encoding/json: %v", data, plain)
		}
	})
}
