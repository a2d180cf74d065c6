package live

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"time"

	"chorus/internal/check"
	"chorus/services/inventory/stock"
)

// shelf is what one look at inventory gives: the counts, and who holds what.
type shelf struct {
	counts  map[string]check.Count
	holds   map[string]int64
	holders map[string]uint64 // by product, a sum over the orders that hold it: it tells whether they are the same ones
}

// Orders come and go between the pages of a look, so that a product may seem wrong. It is wrong when several
// looks agree: same count, same holders.
const stockLooks = 4

// stock compares inventory's counts with its orders.
func (v *verifier) stock(ctx context.Context) error {
	var before shelf
	var wrong []check.Violation
	suspects := map[string]int{} // looks in a row at which the product was wrong in the same way
	for n := range stockLooks {
		now, err := v.shelf(ctx)
		if err != nil {
			return err
		}
		wrong = wrong[:0]
		still := map[string]int{}
		for _, w := range check.Shelf(now.counts, now.holds) {
			same := before.counts[w.SKU] == now.counts[w.SKU] && before.holders[w.SKU] == now.holders[w.SKU]
			if still[w.SKU] = 1; same {
				still[w.SKU] += suspects[w.SKU]
			}
			if still[w.SKU] == stockLooks {
				wrong = append(wrong, w.Violation)
			}
		}
		before, suspects = now, still
		if n == 0 {
			v.stockFigures(now)
		}
		if len(still) == 0 {
			return nil
		}
		if n < stockLooks-1 {
			if err := wait(ctx, 250*time.Millisecond); err != nil {
				return err
			}
		}
	}
	v.report.Add(wrong...)
	if moving := len(suspects) - len(wrong); moving > 0 {
		v.report.Figures(check.Stock, check.Figure{Name: "products that changed whenever looked at", Value: int64(moving)})
	}
	return nil
}

func (v *verifier) stockFigures(s shelf) {
	var onHand, held int64
	for _, c := range s.counts {
		onHand += c.OnHand
		held += c.Held
	}
	v.report.Figures(check.Stock,
		check.Figure{Name: "products", Value: int64(len(s.counts))},
		check.Figure{Name: "units on hand", Value: onHand}, check.Figure{Name: "units held", Value: held})
}

// shelf reads inventory's orders and then its counts.
func (v *verifier) shelf(ctx context.Context) (shelf, error) {
	s := shelf{counts: map[string]check.Count{}, holds: map[string]int64{}, holders: map[string]uint64{}}
	inventory := v.participants()[1]
	for state, err := range states(ctx, inventory, v.cfg.Page) {
		if err != nil {
			return s, err
		}
		var held *stock.State
		if err := put(&held, state.State); err != nil {
			return s, fmt.Errorf("state of order %s at inventory: %w", state.Order, err)
		}
		o := check.Order{No: state.Order, Inventory: held}
		o.Holds(s.holds)
		if held.Held {
			for _, l := range held.Lines {
				s.holders[l.SKU] += maphash.Comparable(v.seed, int64(state.Order))
			}
		}
	}
	for after := ""; ; {
		var page struct {
			Stock []struct {
				SKU    string `json:"sku"`
				OnHand int64  `json:"on_hand"`
				Held   int64  `json:"held"`
			} `json:"stock"`
		}
		if err := v.src.Inventory.Do(ctx, http.MethodGet, "/v1/stock?after="+url.QueryEscape(after), nil, &page); err != nil {
			return s, fmt.Errorf("read stock: %w", err)
		}
		for _, p := range page.Stock {
			s.counts[p.SKU] = check.Count{OnHand: p.OnHand, Held: p.Held}
			after = p.SKU
		}
		if len(page.Stock) == 0 {
			return s, nil
		}
	}
}
