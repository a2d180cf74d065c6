package orders

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/bojanz/currency"

	"chorus/internal/event"
)

// Money is counted exactly, in units of 10^-scale of the major unit, and rounded half up to the currency's own digits
// once for each figure that people see: goods, discount, tax. The total is the sum of the figures as shown, so
// every receipt adds up. docs/decisions/0010-money.md says why.
const scale = 8

// maxMinor bounds each figure: the largest integer that every JSON reader keeps exactly (RFC 8259, section 6).
const maxMinor = 1<<53 - 1

// pricePattern is what a price looks like: at most 16 digits before the point and 8 behind it.
const pricePattern = `^(0|[1-9][0-9]{0,15})(\.[0-9]{1,8})?$`

var (
	priceForm  = regexp.MustCompile(pricePattern)
	errTooMuch = fmt.Errorf("comes to more than %d minor units", int64(maxMinor))
)

// Shop is what the shop adds to and takes off the goods. The zero value adds nothing.
type Shop struct {
	TaxPercent       string `help:"Tax on the goods less discount, in percent." default:"0" env:"CHORUS_TAX_PERCENT"`
	DiscountPercent  string `help:"Discount on the goods, in percent." default:"0" env:"CHORUS_DISCOUNT_PERCENT"`
	DomesticFee      string `help:"Shipping fee of a domestic order, in major units of its currency." default:"0" env:"CHORUS_DOMESTIC_FEE"`
	InternationalFee string `help:"Shipping fee of an international order, in major units of its currency." default:"0" env:"CHORUS_INTERNATIONAL_FEE"`
}

func (s Shop) check() error {
	var faults []error
	for _, x := range []struct{ name, value string }{
		{"tax percent", s.TaxPercent}, {"discount percent", s.DiscountPercent},
		{"domestic fee", s.DomesticFee}, {"international fee", s.InternationalFee},
	} {
		if x.value != "" && !priceForm.MatchString(x.value) {
			faults = append(faults, fmt.Errorf("%s %q: want a decimal number from 0 with at most %d digits behind the point", x.name, x.value, scale))
		}
	}
	if len(faults) == 0 && decimal(s.DiscountPercent).Cmp(decimal("100")) > 0 {
		faults = append(faults, fmt.Errorf("discount percent %q: more than the goods cost", s.DiscountPercent))
	}
	return errors.Join(faults...)
}

// figures are an order's amounts in minor units.
type figures struct{ Goods, Discount, Tax, ShippingFee, Total int64 }

// figure adds up an order. Prices have been through pricePattern and the currency is known. The error is errTooMuch.
func (s Shop) figure(code string, lines []event.Line, shipping event.ShippingType) (f figures, err error) {
	sum, product := new(big.Int), new(big.Int)
	for _, l := range lines {
		sum.Add(sum, product.Mul(decimal(l.UnitPrice), big.NewInt(l.Quantity)))
	}
	fee := s.DomesticFee
	if shipping == event.International {
		fee = s.InternationalFee
	}
	unit := minorUnit(code)
	percent := new(big.Int).Mul(decimal("100"), big.NewInt(1))

	goods := roundHalfUp(sum, unit)
	discount := roundHalfUp(new(big.Int).Mul(goods, decimal(s.DiscountPercent)), percent)
	taxed := new(big.Int).Sub(goods, discount)
	tax := roundHalfUp(new(big.Int).Mul(taxed, decimal(s.TaxPercent)), percent)
	charge := roundHalfUp(decimal(fee), unit)
	total := new(big.Int).Add(taxed, tax)
	total.Add(total, charge)

	for _, x := range []*big.Int{goods, total} { // the others are no larger than one of these
		if x.Cmp(big.NewInt(maxMinor)) > 0 {
			return f, errTooMuch
		}
	}
	return figures{goods.Int64(), discount.Int64(), tax.Int64(), charge.Int64(), total.Int64()}, nil
}

// decimal reads a number of the form of pricePattern; empty is 0.
func decimal(s string) *big.Int {
	whole, behind, _ := strings.Cut(s, ".")
	n, _ := new(big.Int).SetString("0"+whole+behind+strings.Repeat("0", scale-len(behind)), 10)
	return n
}

// minorUnit is the currency's smallest unit in units of 10^-scale.
func minorUnit(code string) *big.Int {
	digits, _ := currency.GetDigits(code)
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(scale-int64(digits)), nil)
}

// roundHalfUp returns a/b, neither negative, rounded to a whole number; a half goes up.
func roundHalfUp(a, b *big.Int) *big.Int {
	twice := new(big.Int).Lsh(a, 1)
	return twice.Quo(twice.Add(twice, b), new(big.Int).Lsh(b, 1))
}
