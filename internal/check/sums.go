package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"chorus/internal/event"
	"chorus/internal/money"
	"chorus/services/orders/order"
)

// Sums adds up the orders at rest: those that still move, or need a person, would make any sum wrong.
type Sums struct {
	Statuses  map[order.Status]int64
	Attention int64 // of them, those that need a person
	Settled   int64
	totals    map[string]int64 // of confirmed orders, by currency
	net       map[string]int64 // of charges for settled orders, by currency
}

// NewSums returns sums of nothing.
func NewSums() *Sums {
	return &Sums{Statuses: map[order.Status]int64{}, totals: map[string]int64{}, net: map[string]int64{}}
}

// Add takes one order.
func (s *Sums) Add(o Order) {
	if o.Orders == nil {
		return
	}
	s.Statuses[o.Orders.Status]++
	if o.Attention() {
		s.Attention++
	}
	if !o.Settled() {
		return
	}
	s.Settled++
	if total, currency, known := o.Total(); known && o.positive() {
		s.totals[currency] += total
	}
	for _, e := range o.Ledger {
		if stepOf(e.Provider) == event.PaymentStep {
			s.net[e.Currency] += e.Net
		}
	}
}

// Account is a processor's own books in one currency, from one snapshot.
type Account struct {
	Provider, Currency string
	Funded, Balance    int64 // of all its customers
	Net                int64 // of its charges
}

// Money compares what was taken with what the orders cost, and the processors' accounts with their charges.
func (s *Sums) Money(accounts []Account) ([]Figure, []Violation) {
	figures := []Figure{{Name: "orders at rest", Value: s.Settled}}
	var found []Violation
	currencies := map[string]bool{}
	for _, sums := range []map[string]int64{s.totals, s.net} {
		for currency := range sums {
			currencies[currency] = true
		}
	}
	for _, c := range slices.Sorted(maps.Keys(currencies)) {
		if c == "" {
			continue // cancelled before it was known what it was about: nothing was moved
		}
		figures = append(figures,
			Figure{Name: "totals of confirmed orders", Value: s.totals[c], Currency: c},
			Figure{Name: "money taken and kept", Value: s.net[c], Currency: c})
		if s.totals[c] != s.net[c] {
			found = append(found, Violation{Check: Money, What: fmt.Sprintf(
				"confirmed orders cost %s and %s is kept", money.Text(s.totals[c], c), money.Text(s.net[c], c))})
		}
	}
	for _, a := range accounts {
		if spent := a.Funded - a.Balance; spent != a.Net {
			found = append(found, Violation{Check: Money, What: fmt.Sprintf(
				"at %s customers have spent %s and the charges come to %s", a.Provider, money.Text(spent, a.Currency), money.Text(a.Net, a.Currency))})
		}
	}
	return figures, found
}

// Count is a product's row in inventory.
type Count struct{ OnHand, Held int64 }

// Shelf compares the counts with what the orders hold, product by product.
func Shelf(counts map[string]Count, holds map[string]int64) []Miscount {
	var found []Miscount
	skus := map[string]bool{}
	for sku := range counts {
		skus[sku] = true
	}
	for sku := range holds {
		skus[sku] = true
	}
	for _, sku := range slices.Sorted(maps.Keys(skus)) {
		c, held := counts[sku], holds[sku]
		switch {
		case c.OnHand < 0 || c.Held < 0 || c.Held > c.OnHand:
			found = append(found, miscount(sku, "%d are on hand and %d held", c.OnHand, c.Held))
		case c.Held != held:
			found = append(found, miscount(sku, "%d are held and its orders hold %d", c.Held, held))
		}
	}
	return found
}

// Miscount is a product whose count is wrong.
type Miscount struct {
	SKU string
	Violation
}

func miscount(sku, format string, args ...any) Miscount {
	return Miscount{sku, Violation{Check: Stock, What: sku + ": " + fmt.Sprintf(format, args...)}}
}

// Holds adds what an order holds to holds.
func (o Order) Holds(holds map[string]int64) {
	if o.Inventory == nil || !o.Inventory.Held {
		return
	}
	for _, l := range o.Inventory.Lines {
		holds[l.SKU] += l.Quantity
	}
}

// StatusFigures are the orders by status, the most frequent first.
func (s *Sums) StatusFigures() []Figure {
	var figures []Figure
	for status, n := range s.Statuses {
		figures = append(figures, Figure{Name: string(status), Value: n})
	}
	slices.SortFunc(figures, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	return figures
}
