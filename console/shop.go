package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"chorus/internal/event"
	"chorus/internal/tracker"
)

// shopPage is how many products a page of the shop has.
const shopPage = 60

// shop is the page on which orders are placed.
type shop struct {
	page
	Key      string // of this form: what it orders is ordered once, however often it is sent
	Products []offer
	Next     string // cursor of the next page
	Customer string
	Shipping event.ShippingType
	Problem  string
	Recent   []tracker.Entry
}

// offer is a product with what the form has for it.
type offer struct {
	product
	Quantity string
}

func (s *server) getShop(w http.ResponseWriter, r *http.Request) {
	s.shop(w, r, http.StatusOK, shop{Customer: "guest", Shipping: event.Domestic}, nil)
}

// shop shows the form, with the visitor's entries if it was sent and refused.
func (s *server) shop(w http.ResponseWriter, r *http.Request, status int, p shop, entered url.Values) {
	p.page = page{Title: "Shop", Nav: "shop"}
	if p.Key = entered.Get("key"); p.Key == "" { // a form that comes back keeps its key: what it asked for may have been done
		p.Key = rand.Text()
	}
	list, next, err := s.products(r.Context(), r.URL.Query().Get("after"))
	if err != nil && p.Problem == "" {
		s.log.Warn("list products", "err", err)
		status, p.Problem = http.StatusServiceUnavailable, "The catalogue cannot be read now: the orders service does not answer. It may be restarting; reload in a moment."
	}
	p.Next = next
	for _, item := range list {
		p.Products = append(p.Products, offer{item, entered.Get(quantityField + item.SKU)})
	}
	if p.Recent, _, err = s.tracker.List(r.Context(), tracker.Filter{Limit: 8}); err != nil {
		s.log.Warn("list recent orders", "err", err) // the shop is open without them
	}
	s.show(w, status, "shop", p)
}

// The form has a quantity field for each product, and two kinds of buttons: "buy" with a product orders that one (one, unless its
// quantity says otherwise), and the other orders everything that has a quantity.
const quantityField = "q:"

func (s *server) postOrder(w http.ResponseWriter, r *http.Request) {
	if !s.form(w, r) {
		return
	}
	b, problem := basketOf(r.PostForm)
	again := shop{Customer: b.Customer, Shipping: b.Shipping, Problem: problem}
	if problem != "" {
		s.shop(w, r, http.StatusUnprocessableEntity, again, r.PostForm)
		return
	}
	placed, err := s.place(r.Context(), formKey(r.PostForm.Get("key"), b), b)
	if err != nil {
		s.log.Info("place", "err", err)
		status, why := refusal("orders", err)
		if status == http.StatusServiceUnavailable {
			why += " The same form gives the same order."
		}
		again.Problem = why
		s.shop(w, r, status, again, r.PostForm)
		return
	}
	http.Redirect(w, r, "/orders/"+placed.Number.String()+"?event="+url.QueryEscape(placed.EventID), http.StatusSeeOther)
}

// basketOf reads the form; problem says what is wrong with it, for people. What may be ordered is for the orders service to say.
func basketOf(form url.Values) (b basket, problem string) {
	b = basket{Customer: strings.TrimSpace(form.Get("customer")), Shipping: event.ShippingType(form.Get("shipping")), Items: []item{}}
	if b.Customer == "" {
		b.Customer = "guest"
	}
	if sku := form.Get("buy"); sku != "" {
		n, err := quantity(form.Get(quantityField + sku))
		if err != nil {
			return b, sku + ": " + err.Error()
		}
		b.Items = append(b.Items, item{sku, max(n, 1)})
		return b, ""
	}
	for _, field := range sortedKeys(form) {
		sku, ok := strings.CutPrefix(field, quantityField)
		if !ok {
			continue
		}
		n, err := quantity(form.Get(field))
		if err != nil {
			return b, sku + ": " + err.Error()
		}
		if n > 0 {
			b.Items = append(b.Items, item{sku, n})
		}
	}
	if len(b.Items) == 0 {
		return b, "Nothing is chosen: give at least one product a quantity, or buy one directly."
	}
	return b, ""
}

func quantity(text string) (int64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the quantity %q is not a whole number", text)
	}
	return n, nil
}

// formKey is the idempotency key of what a form orders: the same for the second click on the same button, another for another button.
func formKey(form string, b basket) string {
	raw, err := json.Marshal(b)
	if err != nil {
		panic("console: a basket has no JSON: " + err.Error()) // strings and numbers always have one
	}
	sum := sha256.Sum256(append([]byte(form+"\x00"), raw...))
	return "console-" + hex.EncodeToString(sum[:16])
}

// seen waits until the view has the event that the redirect names, so that who has just ordered sees their order (D10). It returns how far the view is
// behind when it does not get there in time.
func (s *server) seen(ctx context.Context, id string) (behind string) {
	fact, err := event.ParseID(id)
	if err != nil {
		return "" // somebody's own idea of an address
	}
	p, err := s.tracker.WaitFor(ctx, fact, askWithin)
	if err != nil || p.Folded {
		return ""
	}
	return short(p.Behind)
}
