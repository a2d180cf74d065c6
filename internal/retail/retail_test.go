package retail_test

import (
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/event"
	"chorus/internal/retail"
)

func read(t *testing.T, shop *retail.Shop, path string) []retail.Invoice {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []retail.Invoice
	for inv, err := range shop.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, inv)
	}
	return all
}

// Every oddity of the format, by hand.
func TestOddLinesAreRefusedOrKept(t *testing.T) {
	t.Parallel()
	var shop retail.Shop
	tea := func(n int64) retail.Line {
		return retail.Line{SKU: "A@2.5", Name: "TEA POT", Quantity: n, Price: "2.5"}
	}
	dear := retail.Line{SKU: "A@3", Name: "TEA POT", Quantity: 1, Price: "3"}
	at := func(minute int) time.Time { return time.Date(2011, 12, 9, 9, minute, 0, 0, time.UTC) }
	type counts = map[retail.Reason]int
	want := []retail.Invoice{
		// The same line twice is goods twice; another price is another product.
		{No: "1", At: time.Date(2011, 12, 9, 8, 39, 0, 0, time.UTC), Customer: "100", Shipping: event.Domestic, Refused: counts{},
			Lines: []retail.Line{tea(2), tea(2), dear}},
		// A gift of nobody, its name in Windows-1252.
		{No: "2", At: at(0), Customer: retail.Guest, Shipping: event.International, Refused: counts{},
			Lines: []retail.Line{{SKU: "GIFT@0", Name: "VOUCHER £20, WRAPPED", Quantity: 1, Price: "0"}}},
		{No: "3", At: at(1), Customer: retail.Guest, Shipping: event.Domestic, Refused: counts{retail.NegativePrice: 1}, Why: retail.Empty},
		{No: "4", At: at(2), Customer: retail.Guest, Shipping: event.Domestic, Refused: counts{retail.NegativeQuantity: 1}, Why: retail.Empty},
		// What is left of an order after its bad lines is the order; no digit of a price is lost.
		{No: "5", At: at(3), Customer: "7", Shipping: event.International,
			Refused: counts{retail.ZeroQuantity: 1, retail.NoCode: 1, retail.Malformed: 3},
			Lines:   []retail.Line{{SKU: "M@0.001", Name: "FINE PRICE", Quantity: 1000, Price: "0.001"}}},
		{No: "6", At: at(5), Customer: "100", Shipping: event.Domestic, Refused: counts{}, Lines: []retail.Line{tea(2), dear, tea(2)}},
		// A cancellation is matched after its own bad lines are gone, whatever the order of the lines: the latest order first.
		{No: "C7", At: at(6), Customer: "100", Shipping: event.Domestic, Refused: counts{retail.NegativeQuantity: 1},
			Lines: []retail.Line{dear, tea(2), tea(2)}, Cancels: "6"},
		// The same sum on other lines is not the same order.
		{No: "C8", At: at(7), Customer: "100", Shipping: event.Domestic, Refused: counts{}, Lines: []retail.Line{dear, tea(4)}, Why: retail.Unmatched},
		{No: "C9", At: at(8), Customer: "100", Shipping: event.Domestic, Refused: counts{}, Lines: []retail.Line{tea(2), tea(2), dear}, Cancels: "1"},
		// No order is cancelled twice.
		{No: "C10", At: at(9), Customer: "100", Shipping: event.Domestic, Refused: counts{}, Lines: []retail.Line{tea(2), tea(2), dear}, Why: retail.Unmatched},
		{No: "C11", At: at(10), Customer: "100", Shipping: event.Domestic, Refused: counts{retail.NegativeQuantity: 1}, Why: retail.Empty},
		{No: "12", At: at(12), Customer: "nobody", Shipping: event.International, Refused: counts{},
			Lines: []retail.Line{{SKU: "H@1", Name: `OPEN "QUOTE`, Quantity: 1, Price: "1"}}},
	}
	if diff := cmp.Diff(want, read(t, &shop, "testdata/odd.csv")); diff != "" {
		t.Errorf("invoices (-want +got):\n%s", diff)
	}
	refused := counts{
		retail.Malformed: 5, retail.NoCode: 1, retail.ZeroQuantity: 1, retail.NegativePrice: 1, retail.NegativeQuantity: 3,
		retail.Scattered: 1, retail.Empty: 3, retail.Unmatched: 2,
	}
	if diff := cmp.Diff(refused, shop.Refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// A cancellation finds the order of an earlier file.
func TestCancellationAcrossFiles(t *testing.T) {
	t.Parallel()
	const header = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
	var shop retail.Shop
	for range shop.Read(strings.NewReader(header + "1,A,X,1,2011-12-08 08:00:00,1,9,France\n")) {
	}
	for inv, err := range shop.Read(strings.NewReader(header + "C2,A,X,-1,2011-12-09 08:00:00,1.00,9.0,France\n")) {
		if err != nil || inv.Cancels != "1" {
			t.Errorf("got %+v, %v", inv, err)
		}
	}
}

func TestOtherFormatIsAnError(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "a,b,c\n1,2,3\n"} {
		var shop retail.Shop
		var last error
		for _, err := range shop.Read(strings.NewReader(file)) {
			last = err
		}
		if last == nil {
			t.Errorf("%q is read as Online Retail", file)
		}
	}
}

// day is what an independent count of the file gives.
type day struct {
	orders, guests, international, lines, products, gifts int
	units                                                 int64
	total                                                 string // of all orders, exact
	cancels                                               map[string]string
	refused                                               map[retail.Reason]int
}

var days = map[string]day{
	"2010-12-01": {136, 15, 7, 3081, 1890, 9, 27007, "58960.79", nil,
		map[retail.Reason]int{retail.NegativeQuantity: 1, retail.Empty: 1, retail.Unmatched: 6}},
	"2011-01-18": {41, 9, 4, 1428, 1094, 0, 82978, "95978.05", map[string]string{"C541433": "541431"},
		map[retail.Reason]int{retail.NegativeQuantity: 2, retail.Empty: 2, retail.Unmatched: 7}},
	"2011-08-12": {56, 10, 7, 1113, 863, 5, 12022, "32231.35", nil,
		map[retail.Reason]int{retail.NegativeQuantity: 1, retail.NegativePrice: 2, retail.Empty: 3, retail.Unmatched: 2}},
	"2011-10-31": {75, 12, 11, 3373, 2273, 3, 21797, "57369.15", nil,
		map[retail.Reason]int{retail.NegativeQuantity: 27, retail.Empty: 27, retail.Unmatched: 7}},
	"2011-12-05": {132, 16, 12, 5302, 2657, 5, 44664, "88741.96", map[string]string{"C580702": "580704"},
		map[retail.Reason]int{retail.NegativeQuantity: 3, retail.Empty: 3, retail.Unmatched: 15}},
	"2011-12-09": {44, 3, 8, 1625, 1390, 0, 93979, "200920.60", map[string]string{"C581484": "581483"},
		map[retail.Reason]int{retail.Unmatched: 4}},
}

func TestSampleDay(t *testing.T) {
	t.Parallel()
	checkDay(t, "../../examples/data", "2011-12-09")
}

// The other days are not part of the project; CHORUS_RETAIL_DIR says where they are.
func TestOtherDays(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CHORUS_RETAIL_DIR")
	if dir == "" {
		t.Skip("CHORUS_RETAIL_DIR is not set")
	}
	for name := range days {
		t.Run(name, func(t *testing.T) { checkDay(t, dir, name) })
	}
}

func checkDay(t *testing.T, dir, name string) {
	var shop retail.Shop
	var got day
	products := map[string]bool{}
	total := new(big.Rat)
	for _, inv := range read(t, &shop, filepath.Join(dir, name+".csv")) {
		if inv.Cancels != "" {
			if got.cancels == nil {
				got.cancels = map[string]string{}
			}
			got.cancels[inv.No] = inv.Cancels
		}
		if inv.Why != "" || inv.Cancels != "" {
			continue
		}
		got.orders++
		if inv.Customer == retail.Guest {
			got.guests++
		}
		if inv.Shipping == event.International {
			got.international++
		}
		for _, l := range inv.Lines {
			got.lines++
			got.units += l.Quantity
			products[l.SKU] = true
			price, ok := new(big.Rat).SetString(l.Price)
			if !ok {
				t.Fatalf("%s: price %q", inv.No, l.Price)
			}
			if price.Sign() == 0 {
				got.gifts++
			}
			total.Add(total, price.Mul(price, new(big.Rat).SetInt64(l.Quantity)))
		}
	}
	got.products, got.total, got.refused = len(products), total.FloatString(2), maps.Clone(shop.Refused)
	if diff := cmp.Diff(days[name], got, cmp.AllowUnexported(day{})); diff != "" {
		t.Errorf("%s (-counted +read):\n%s", name, diff)
	}
}

func FuzzRead(f *testing.F) {
	odd, err := os.ReadFile("testdata/odd.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(odd))
	f.Fuzz(func(t *testing.T, file string) {
		var shop retail.Shop
		for inv, err := range shop.Read(strings.NewReader(file)) {
			if err != nil {
				return
			}
			if (len(inv.Lines) == 0) != (inv.Why == retail.Empty) {
				t.Fatalf("%+v", inv)
			}
			for _, l := range inv.Lines {
				if l.Quantity < 1 || strings.HasPrefix(l.SKU, "@") || strings.HasPrefix(l.Price, "-") {
					t.Fatalf("accepted %+v", l)
				}
			}
		}
	})
}
