package orders

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"chorus/internal/event"
)

// buy makes lines of "quantity x price".
func buy(items ...string) (lines []event.Line) {
	for _, item := range items {
		var l event.Line
		if _, err := fmt.Sscanf(item, "%d x %s", &l.Quantity, &l.UnitPrice); err != nil {
			panic(err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		shop     Shop
		currency string
		lines    []event.Line
		want     figures
	}{
		{"API-06 tax with sub-cent digits", Shop{TaxPercent: "10.75", DomesticFee: "6.44"}, "USD", buy("1 x 24.99"), figures{2499, 0, 269, 644, 3412}},
		{"API-07 tax on the order, not on lines", Shop{TaxPercent: "14.975"}, "CAD", buy("1 x 2.98", "1 x 4.79"), figures{777, 0, 116, 0, 893}},
		{"API-10 the largest real order", Shop{}, "GBP", buy("80995 x 2.08"), figures{16_846_960, 0, 0, 0, 16_846_960}},
		{"half goes up", Shop{}, "GBP", buy("1 x 0.005"), figures{Goods: 1, Total: 1}},
		{"less than half goes down", Shop{}, "GBP", buy("1 x 0.00499999"), figures{}},
		{"rounded once, not by line", Shop{}, "GBP", buy("1 x 0.004", "1 x 0.004", "1 x 0.004"), figures{Goods: 1, Total: 1}},
		{"thirds", Shop{}, "GBP", buy("3 x 0.33333333"), figures{Goods: 100, Total: 100}},
		{"PRV-10 a currency without digits", Shop{TaxPercent: "10"}, "JPY", buy("3 x 0.5"), figures{Goods: 2, Total: 2}},
		{"PRV-10 a currency with three", Shop{}, "KWD", buy("1 x 1.2345"), figures{Goods: 1235, Total: 1235}},
		{"a currency with four", Shop{}, "CLF", buy("1 x 1.23455"), figures{Goods: 12346, Total: 12346}},
		{"discount before tax", Shop{DiscountPercent: "10", TaxPercent: "20"}, "EUR", buy("1 x 99.99"), figures{9999, 1000, 1800, 0, 10799}},
		{"PRV-12 all off", Shop{DiscountPercent: "100", TaxPercent: "20"}, "EUR", buy("1 x 99.99"), figures{9999, 9999, 0, 0, 0}},
		{"a gift", Shop{TaxPercent: "20"}, "GBP", buy("1000000 x 0"), figures{}},
		{"floats would say 0.30000000000000004", Shop{}, "USD", buy("1 x 0.1", "1 x 0.2"), figures{Goods: 30, Total: 30}},
		{"floats would say 1.00", Shop{}, "USD", buy("1 x 1.005"), figures{Goods: 101, Total: 101}},
		{"the most", Shop{}, "GBP", buy("1 x 90071992547409.91"), figures{Goods: maxMinor, Total: maxMinor}},
	} {
		if err := test.shop.check(); err != nil {
			t.Fatal(err)
		}
		got, err := test.shop.figure(test.currency, test.lines, event.Domestic)
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.name, got, err, test.want)
		}
	}
	if f, err := (Shop{DomesticFee: "1", InternationalFee: "2.5"}).figure("GBP", buy("1 x 0"), event.International); err != nil || f.ShippingFee != 250 || f.Total != 250 {
		t.Errorf("international: %+v, %v", f, err)
	}
}

// TestTooMuch checks the bound on both sides (API-10).
func TestTooMuch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shop  Shop
		lines []event.Line
	}{
		{Shop{}, buy("1 x 90071992547409.915")},
		{Shop{}, buy("1 x 46116860184273879.04", "1 x 46116860184273879.04")}, // 2^62 each
		{Shop{}, buy("999999999 x 9999999.99")},
		{Shop{TaxPercent: "1"}, buy("1 x 90071992547409.91")},
		{Shop{DomesticFee: "0.01"}, buy("1 x 90071992547409.91")},
		{Shop{DiscountPercent: "100"}, buy("1000000 x 9999999999999999.99")},
	} {
		if f, err := test.shop.figure("GBP", test.lines, event.Domestic); err == nil {
			t.Errorf("%v came to %+v", test.lines, f)
		}
	}
}

// TestEveryReceiptAddsUp compares 1,000 random carts with rational arithmetic (API-07).
func TestEveryReceiptAddsUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	half := big.NewRat(1, 2)
	round := func(x *big.Rat) int64 { // half up, of a positive number
		x = new(big.Rat).Add(x, half)
		return new(big.Int).Quo(x.Num(), x.Denom()).Int64()
	}
	rat := func(s string) *big.Rat { x, _ := new(big.Rat).SetString(s); return x }
	for range 1000 {
		shop := Shop{TaxPercent: []string{"7.7", "14.975", "20"}[random.IntN(3)], DiscountPercent: []string{"0", "3.5"}[random.IntN(2)]}
		sum := new(big.Rat)
		var lines []event.Line
		for range 1 + random.IntN(30) {
			l := event.Line{SKU: "x", Quantity: 1 + random.Int64N(99), UnitPrice: fmt.Sprintf("%d.%0*d", random.IntN(1000), 1+random.IntN(8), random.IntN(10))}
			lines = append(lines, l)
			sum.Add(sum, new(big.Rat).Mul(rat(l.UnitPrice), new(big.Rat).SetInt64(l.Quantity)))
		}
		f, err := shop.figure("EUR", lines, event.Domestic)
		if err != nil {
			t.Fatal(err)
		}
		percent := func(of int64, p string) int64 {
			return round(new(big.Rat).Quo(new(big.Rat).Mul(new(big.Rat).SetInt64(of), rat(p)), big.NewRat(100, 1)))
		}
		goods := round(new(big.Rat).Mul(sum, big.NewRat(100, 1)))
		discount := percent(goods, shop.DiscountPercent)
		want := figures{Goods: goods, Discount: discount, Tax: percent(goods-discount, shop.TaxPercent)}
		want.Total = want.Goods - want.Discount + want.Tax
		if f != want {
			t.Fatalf("%+v %v: %+v, want %+v", shop, lines, f, want)
		}
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Shop: Shop{TaxPercent: "-1"}}, {Shop: Shop{TaxPercent: "1e2"}}, {Shop: Shop{DomesticFee: "1,50"}}, {Shop: Shop{InternationalFee: "free"}},
		{Shop: Shop{DiscountPercent: "100.1"}}, {Deadline: -1}, {RateLimit: -1}, {KeyLifetime: -1},
	} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if c, err := (Config{}).withDefaults(); err != nil || c.Deadline.String() != "15m0s" || c.Rules.BackWithin == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
