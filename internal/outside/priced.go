package outside

import (
	"math/big"
	"slices"
	"strings"

	"chorus/internal/event"
)

// Priced is one line of a Charge.
type Priced struct {
	Name     string `json:"name"` // the SKU, or discount, tax or shipping
	Quantity int64  `json:"quantity"`
	Amount   int64  `json:"amount"` // minor units of the whole line; below 0 for a discount
}

// Price lists what an order's total is made of. The lines sum to the total, whatever was rounded: the goods' share of it is dealt
// out by quantity times unit price, every line gets the whole minor units of its exact share, and those left over go to
// the lines that lost the most, the earlier one first among equals. So no line is a whole minor unit off.
func Price(f event.OrderPlaced) []Priced {
	lines := make([]Priced, 0, len(f.Lines)+3)
	weights := make([]*big.Int, len(f.Lines))
	sum := new(big.Int)
	for i, l := range f.Lines {
		weights[i] = new(big.Int).Mul(scaled(l.UnitPrice), big.NewInt(l.Quantity))
		sum.Add(sum, weights[i])
		lines = append(lines, Priced{Name: l.SKU, Quantity: l.Quantity})
	}
	deal(lines, f.Total+f.Discount-f.Tax-f.ShippingFee, weights, sum)
	for _, more := range []Priced{{"discount", 1, -f.Discount}, {"tax", 1, f.Tax}, {"shipping", 1, f.ShippingFee}} {
		if more.Amount != 0 {
			lines = append(lines, more)
		}
	}
	return lines
}

func deal(lines []Priced, goods int64, weights []*big.Int, sum *big.Int) {
	if sum.Sign() == 0 || len(lines) == 0 {
		return
	}
	left := goods
	lost := make([]*big.Int, len(lines))
	order := make([]int, len(lines))
	for i, w := range weights {
		share, rest := new(big.Int).QuoRem(new(big.Int).Mul(w, big.NewInt(goods)), sum, new(big.Int))
		lines[i].Amount, lost[i], order[i] = share.Int64(), rest, i
		left -= share.Int64()
	}
	slices.SortStableFunc(order, func(a, b int) int { return lost[b].Cmp(lost[a]) })
	for _, i := range order[:left] {
		lines[i].Amount++
	}
}

// scaled reads a price as a whole number of 10^-8 of the major unit; what is not a price is 0.
func scaled(price string) *big.Int {
	const digits = 8
	whole, behind, _ := strings.Cut(price, ".")
	if len(behind) > digits {
		behind = behind[:digits]
	}
	n, ok := new(big.Int).SetString(whole+behind+strings.Repeat("0", digits-len(behind)), 10)
	if !ok || n.Sign() < 0 {
		return new(big.Int)
	}
	return n
}
