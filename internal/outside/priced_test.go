package outside_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chorus/internal/event"
	"chorus/internal/outside"
)

// TestPRV11LinesSumToTheTotal: the case's cart, 14.975 % tax rounded once on the order.
func TestPRV11LinesSumToTheTotal(t *testing.T) {
	got := outside.Price(event.OrderPlaced{
		Currency: "CAD", Lines: []event.Line{{SKU: "A", Quantity: 1, UnitPrice: "2.98"}, {SKU: "B", Quantity: 1, UnitPrice: "4.79"}},
		Tax: 116, Total: 893,
	})
	want := []outside.Priced{{"A", 1, 298}, {"B", 1, 479}, {"tax", 1, 116}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPRV11OddCent: of three thirds of 1.00 the first has the odd cent; one free line stays free (PRV-12).
func TestPRV11OddCent(t *testing.T) {
	line := func(sku, price string) event.Line { return event.Line{SKU: sku, Quantity: 1, UnitPrice: price} }
	got := outside.Price(event.OrderPlaced{
		Lines: []event.Line{line("A", "0.3333"), line("B", "0.3333"), line("GIFT", "0"), line("C", "0.3333")},
		Total: 100 - 7 + 20, Discount: 7, ShippingFee: 20,
	})
	want := []outside.Priced{{"A", 1, 34}, {"B", 1, 33}, {"GIFT", 1, 0}, {"C", 1, 33}, {"discount", 1, -7}, {"shipping", 1, 20}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPRV11AlwaysSums draws carts whose total was rounded in any way.
func TestPRV11AlwaysSums(t *testing.T) {
	prices := []string{"0", "0.035", "1", "2.55", "19.99", "0.00000001", "123456.789"}
	rapid.Check(t, func(t *rapid.T) {
		var f event.OrderPlaced
		priced := false
		for range rapid.IntRange(1, 40).Draw(t, "lines") {
			price := rapid.SampledFrom(prices).Draw(t, "price")
			priced = priced || price != "0"
			f.Lines = append(f.Lines, event.Line{SKU: "S", Quantity: rapid.Int64Range(1, 1000).Draw(t, "quantity"), UnitPrice: price})
		}
		goods := int64(0)
		if priced {
			goods = rapid.Int64Range(0, 1<<52).Draw(t, "goods")
		}
		f.Discount = rapid.Int64Range(0, goods).Draw(t, "discount")
		f.Tax = rapid.Int64Range(0, 1000).Draw(t, "tax")
		f.Total = goods - f.Discount + f.Tax
		sum := int64(0)
		for _, l := range outside.Price(f) {
			sum += l.Amount
		}
		if sum != f.Total {
			t.Fatalf("lines sum to %d, total %d", sum, f.Total)
		}
	})
}
