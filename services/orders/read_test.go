package orders

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
)

func (r *rig) list(query string) List {
	r.t.Helper()
	got := r.call("GET", "/v1/orders"+query, "")
	if got.status != 200 {
		r.t.Fatalf("list %s: %s", query, got)
	}
	return read[List](r.t, got)
}

func numbers(l List) (all []event.OrderNo) {
	for _, o := range l.Orders {
		all = append(all, o.Number)
	}
	return all
}

// TestAPI13Paging walks both ways over orders with one timestamp while another is placed.
func TestAPI13Paging(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	var want []event.OrderNo
	for range 15 {
		want = append(want, r.place("ada", Item{"A", 1}).Number)
	}
	slices.Reverse(want)
	r.ddl(`UPDATE orders SET placed_at = '2026-01-01 00:00:00.123456Z'`)

	first := r.list("?limit=10")
	if first.Prev != "" {
		t.Error("the newest page names a newer one")
	}
	late := r.place("ada", Item{"A", 1}).Number
	second := r.list("?limit=10&after=" + first.Next)
	if got := append(numbers(first), numbers(second)...); !slices.Equal(got, want) {
		t.Errorf("forward: %v, want %v", got, want)
	}
	if second.Next != "" {
		t.Error("the last page names a next one")
	}
	if got := first.Orders[0].PlacedAt.Format("15:04:05.000000"); got != "00:00:00.123456" {
		t.Errorf("the time came back as %s", got)
	}
	back := r.list("?limit=10&before=" + second.Prev)
	if !slices.Equal(numbers(back), numbers(first)) || back.Next != first.Next {
		t.Errorf("back: %v, want %v", numbers(back), numbers(first))
	}
	newest := r.list("?limit=10&before=" + back.Prev)
	if got := numbers(newest); !slices.Equal(got, []event.OrderNo{late}) || newest.Prev != "" {
		t.Errorf("the page before the first: %v", got)
	}
	if exact := r.list("?limit=16"); len(exact.Orders) != 16 || exact.Next != "" {
		t.Errorf("a page of exactly all: %d orders, next %q", len(exact.Orders), exact.Next)
	}
	for _, query := range []string{"after=x", "after=0", "after=-1", "after=1.5", "after=10000000000000000", "after=99999999999999999999", "after=%zz", "after=1;limit=5", "before=" + url.QueryEscape("1 OR 1=1"), "customer=%00", "customer=%ff"} {
		if got := r.call("GET", "/v1/orders?"+query, ""); got.status != 400 || len(got.problem(t).Errors) != 1 {
			t.Errorf("%s: %s", query, got)
		}
	}
	for _, query := range []string{"after=5&before=5", "limit=0", "limit=201", "limit=x", "status=paid", "needs_attention=2", "page=2", "customer=", "limit=", "limit=5&limit=6", "=5"} {
		if got := r.call("GET", "/v1/orders?"+query, ""); got.status != 422 || len(got.problem(t).Errors) != 1 {
			t.Errorf("%s: %s", query, got)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	odd := "ada & \"bob\" £ 100%"
	a := r.place(odd, Item{"A", 1}).Number
	b := r.place("ada", Item{"A", 1}).Number
	if _, _, got := r.move(b, "cancel", ""); got.status != 200 {
		t.Fatal(got)
	}
	for query, want := range map[string][]event.OrderNo{
		"?status=PLACED":                          {a},
		"?status=CANCELLING":                      {b},
		"?status=FAILED":                          nil,
		"?customer=ada":                           {b},
		"?customer=" + url.QueryEscape(odd):       {a},
		"?customer=ada&status=PLACED":             nil,
		"?customer=ada&status=CANCELLING":         {b},
		"?needs_attention=true":                   nil,
		"?needs_attention=false":                  {b, a},
		"":                                        {b, a},
		"?after=&before=":                         {b, a},
		fmt.Sprintf("?after=%d&status=PLACED", b): {a},
		fmt.Sprintf("?before=%d&customer=ada", a): {b},
	} {
		got := r.call("GET", "/v1/orders"+query, "")
		if !slices.Equal(numbers(read[List](t, got)), want) {
			t.Errorf("%s: %s, want %v", query, got, want)
		}
		if want == nil && !strings.Contains(string(got.body), `"orders":[]`) {
			t.Errorf("%s: no empty list in %s", query, got)
		}
	}
}

// explain returns how the database would do it.
func (r *rig) explain(sql string, args ...any) string {
	r.t.Helper()
	rows, err := r.db.Query(r.t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestListsUseIndexes checks that the cost of a page does not grow with the orders that are stored.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	r.ddl(`
		INSERT INTO orders (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, placed_at, updated_at)
		SELECT n, 'c' || n % 1000, 'GBP', '[]', 0, 0, 0, 0, 'domestic', gen_random_uuid(), CASE n % 100 WHEN 0 THEN 'PLACED' ELSE 'CONFIRMED' END, now(), now()
		FROM generate_series(1, 20000) AS n;
		INSERT INTO archived_orders SELECT o.*, now() FROM orders o;
		ANALYZE orders, archived_orders`)
	for query, index := range map[string]string{
		"": "orders_pkey", "status=PLACED": "orders_by_status", "customer=c7": "orders_by_customer", "needs_attention": "orders_in_trouble",
		"archived": "archived_orders_pkey", "archived&status=PLACED": "archived_by_status", "archived&customer=c7": "archived_by_customer",
	} {
		filter, archived := strings.CutPrefix(query, "archived")
		filter = strings.TrimPrefix(filter, "&")
		in := &listInput{Limit: 50, After: "15000", NeedsAttention: query == "needs_attention", Archived: archived}
		if name, value, ok := strings.Cut(filter, "="); ok {
			in.Status, in.Customer = map[string]string{"status": value}[name], map[string]string{"customer": value}[name]
		}
		sql, args, err := in.query()
		if err != nil {
			t.Fatal(err)
		}
		plan := r.explain(sql, args...)
		if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%q does not use %s:\n%s", query, index, plan)
		}
	}
}

func TestProducts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.sell([3]string{"c", "3", "GBP"}, [3]string{"a", "1.50", "GBP"}, [3]string{"b", "0.00000001", "JPY"})
	first := read[Catalogue](t, r.call("GET", "/v1/products?limit=2", ""))
	second := read[Catalogue](t, r.call("GET", "/v1/products?limit=2&after="+first.Next, ""))
	all := append(first.Products, second.Products...)
	if len(all) != 3 || second.Next != "" || all[0] != (Product{"a", "a", "1.50", "GBP"}) || all[1].Price != "0.00000001" || all[2].SKU != "c" {
		t.Errorf("the catalogue: %+v", all)
	}
	r.sell([3]string{"a", "1.5", "EUR"})
	if got := read[Catalogue](t, r.call("GET", "/v1/products?limit=1", "")).Products[0]; got.Currency != "EUR" || got.Price != "1.5" {
		t.Errorf("after the change: %+v", got)
	}
	many := make(Products, 10_000)
	for i := range many {
		many[i] = Product{fmt.Sprintf("many-%05d", i), "x", "1.00", "GBP"}
	}
	if got := r.call("PUT", "/v1/products", text(t, many)); got.status != 200 || read[Stored](t, got).Set != 10_000 {
		t.Errorf("10,000 products: %s", got)
	}
	for body, where := range map[string]string{
		text(t, append(many, Product{"one more", "x", "1.00", "GBP"})): "body",
		`[]`: "body",
		`{}`: "body",
		`[{"sku":"x","name":"","price":"1.00","currency":"XXY"}]`:                                                 "body[0].currency",
		`[{"sku":"x","name":"","price":"1.00","currency":"gbp"}]`:                                                 "body[0].currency",
		`[{"sku":"x","name":"","price":1.00,"currency":"GBP"}]`:                                                   "body[0].price",
		`[{"sku":"x","name":"","price":"-1","currency":"GBP"}]`:                                                   "body[0].price",
		`[{"sku":"x","name":"","price":"1e5","currency":"GBP"}]`:                                                  "body[0].price",
		`[{"sku":"x","name":"","price":"NaN","currency":"GBP"}]`:                                                  "body[0].price",
		`[{"sku":"x","name":"","price":"0.000000001","currency":"GBP"}]`:                                          "body[0].price",
		`[{"sku":"x","name":"","price":"12345678901234567","currency":"GBP"}]`:                                    "body[0].price",
		`[{"sku":"x","name":"\u0000","price":"1","currency":"GBP"}]`:                                              "body[0].name",
		`[{"sku":"","name":"","price":"1","currency":"GBP"}]`:                                                     "body[0].sku",
		`[{"sku":"` + strings.Repeat("x", 513) + `","name":"","price":"1","currency":"GBP"}]`:                     "body[0].sku",
		`[{"sku":"x","name":"","price":"1","currency":"GBP"},{"sku":"x","name":"","price":"2","currency":"GBP"}]`: "body[1].sku",
	} {
		if got := r.call("PUT", "/v1/products", body); got.status != 422 || !got.names(t, where) {
			t.Errorf("%s: %s; want a fault at %s", clip(body, 100), got, where)
		}
	}
	r.sell([3]string{strings.Repeat("\U0010ffff", 512), "1", "GBP"}) // the longest code fits its index
	if got := r.call("GET", "/v1/products?after=%00", ""); got.status != 400 {
		t.Errorf("a cursor with NUL: %s", got)
	}
}
