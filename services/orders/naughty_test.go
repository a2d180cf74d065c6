package orders

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"chorus/internal/event"
)

// The Big List of Naughty Strings (github.com/minimaxir/big-list-of-naughty-strings, MIT, Copyright (c) 2015 Max Woolf), as in npm's blns 2.0.4.
//
//go:embed testdata/blns.json
var naughty []byte

// TestAPI11NaughtyStrings takes each as a customer, a product's code and name, and a reason that another service gives: it comes back byte for byte, and
// costs nobody else anything.
func TestAPI11NaughtyStrings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var list []string
	if err := json.Unmarshal(naughty, &list); err != nil || len(list) < 485 {
		t.Fatal(len(list), err)
	}
	var products Products
	known := map[string]bool{}
	for _, s := range list {
		if s != "" && !known[s] && len([]rune(s)) <= 512 {
			products = append(products, Product{SKU: s, Name: s, Price: "1", Currency: "GBP"})
		}
		known[s] = true
	}
	if got := r.call("PUT", "/v1/products", text(t, products)); got.status != 200 {
		t.Fatalf("%s", got)
	}
	after, back := "", map[string]string{}
	for more := true; more; more = after != "" {
		page := read[Catalogue](t, r.call("GET", "/v1/products?limit=50&after="+url.QueryEscape(after), ""))
		for _, p := range page.Products {
			back[p.SKU] = p.Name
		}
		after = page.Next
	}
	for _, p := range products {
		if back[p.SKU] != p.Name {
			t.Errorf("product %q came back as %q", p.SKU, back[p.SKU])
		}
		cart := text(t, Cart{Customer: p.SKU, Items: []Item{{p.SKU, 1}}})
		got := r.call("POST", "/v1/orders", cart, "Idempotency-Key", "K")
		if got.status != 202 {
			t.Errorf("%q: %s", p.SKU, got)
			continue
		}
		x := read[Accepted](t, got)
		if again := r.call("POST", "/v1/orders", cart, "Idempotency-Key", "K"); again.header.Get("Location") != x.Link {
			t.Errorf("%q again: %s", p.SKU, again)
		}
		r.hear(x.Number, event.UndoStuck{Step: event.PaymentStep, Reason: p.SKU})
		o := r.order(x.Number)
		if f := r.fact(x); o.Customer != p.SKU || o.Lines[0].SKU != p.SKU || f.Customer != p.SKU || f.Lines[0].SKU != p.SKU {
			t.Errorf("%q came back as %q and %q", p.SKU, o.Customer, f.Customer)
		}
		if o.Reason == "" || len(o.Stuck) != 1 {
			t.Errorf("%q as a reason: %+v", p.SKU, o)
		}
		if mine := r.list("?customer=" + url.QueryEscape(p.SKU)); len(mine.Orders) != 1 || mine.Orders[0].Number != x.Number {
			t.Errorf("%q has orders %v", p.SKU, numbers(mine))
		}
	}
	if want := len(products); r.placements() != [3]int{want, want, want} {
		t.Error(fmt.Sprint(r.placements()), "orders, states and facts, want", want)
	}
}
