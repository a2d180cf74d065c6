package codec

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/event"
)

// sample is a fact with a name for the golden file.
type sample struct {
	name string
	fact event.Fact
}

var deadline = time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)

// samples returns facts of every type, usual ones and those at the edges.
func samples() []sample {
	odd := "Ω \"quoted\" \\ \n\t\x00 <b>&</b> 📦   é"
	placed := event.OrderPlaced{
		Customer: "C-17850", Currency: "GBP", Discount: 100, Tax: 0, ShippingFee: 495, Total: 2534,
		Lines:    []event.Line{line("85123A", 6, "2.55"), line("71053", 2, "3.39")},
		Shipping: event.Domestic, Deadline: deadline,
	}
	edge := event.OrderPlaced{
		Customer: odd, Currency: "", Discount: math.MinInt64, Tax: -9007199254740993, ShippingFee: 9007199254740993, Total: math.MaxInt64,
		Lines:    []event.Line{line("", math.MinInt64, "0.0000000000000000001"), line(odd, 0, "")},
		Shipping: event.International, Deadline: time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
	}
	gift := event.OrderPlaced{Customer: "guest", Currency: "JPY", Shipping: event.Domestic, Deadline: deadline}
	all := []sample{
		{"usual", placed}, {"edge", edge}, {"no lines", gift},
		{"shipped", event.OrderShipped{}}, {"delivered", event.OrderDelivered{}}, {"confirmed", event.OrderConfirmed{}},
		{"usual", event.OrderRejected{Reason: "out of stock: 85123A"}}, {"edge", event.OrderRejected{Reason: odd}},
		{"usual", event.OrderFailed{Reason: "DEADLINE"}}, {"edge", event.OrderFailed{}},
		{"usual", event.StockReserved{Reservation: "R-1"}}, {"edge", event.StockReserved{}},
		{"usual", event.StockRejected{Reason: "sold out"}},
		{"something", event.StockReleased{Reservation: "R-1"}}, {"nothing", event.StockReleased{}},
		{"usual", event.ShipmentScheduled{Shipment: "S-1", Carrier: "domestic-post"}},
		{"usual", event.ShipmentRejected{Reason: "no carrier"}},
		{"something", event.ShipmentCancelled{Shipment: odd}}, {"nothing", event.ShipmentCancelled{}},
		{"usual", event.PaymentTaken{Payment: "P-1", Processor: "standard", Amount: 2534, Currency: "GBP"}},
		{"first of two missing", event.PaymentTaken{Processor: "n", Currency: "GBP"}},
		{"gift", event.PaymentTaken{Currency: "GBP"}},
		{"largest", event.PaymentTaken{Payment: "P", Amount: math.MaxInt64}},
		{"usual", event.PaymentDeclined{Reason: "REJECT"}},
		{"usual", event.PaymentRefunded{Payment: "P-1", Amount: 9007199254740993, Currency: "EUR", Reason: "CUSTOMER"}},
		{"gift", event.PaymentRefunded{Currency: "EUR"}},
		{"usual", event.PaymentVoided{Reason: "TIMED_OUT"}},
		{"unavailable", event.OrderScreened{Verdict: event.Unavailable, Reason: "no answer"}},
		{"highest", event.OrderScreened{Score: math.MaxInt32, Verdict: event.Reject}},
		{"lowest", event.OrderScreened{Score: math.MinInt32, Verdict: event.Clear}},
		{"usual", event.OrderScreened{Score: 50, Verdict: event.Review, Reason: "new customer"}},
	}
	for _, r := range cancelReasons {
		all = append(all, sample{r, event.OrderCancellationRequested{Reason: event.CancelReason(r)}}, sample{r, event.OrderCancelled{Reason: event.CancelReason(r)}})
	}
	for _, s := range steps {
		all = append(all, sample{s, event.UndoStuck{Step: event.Step(s), Reason: "no answer for 3 h"}})
	}
	return all
}

func line(sku string, quantity int64, price string) event.Line {
	return event.Line{SKU: sku, Quantity: quantity, UnitPrice: price}
}

// cart returns an order of n lines.
func cart(n int) event.OrderPlaced {
	f := event.OrderPlaced{Customer: "C-1", Currency: "EUR", Shipping: event.Domestic, Deadline: deadline}
	for i := range n {
		f.Lines = append(f.Lines, event.Line{SKU: fmt.Sprintf("SKU-%d", i), Quantity: int64(i + 1), UnitPrice: "1.25"})
	}
	return f
}

func newCodec(t testing.TB, format Format) *Codec {
	t.Helper()
	c, err := New(nil, format)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryFactRoundTrips(t *testing.T) {
	t.Parallel()
	reader := Embedded()
	for _, format := range []Format{Avro, JSON} {
		c := newCodec(t, format)
		seen := map[event.Type]bool{}
		for _, s := range samples() {
			value, err := c.Encode(s.fact)
			if err != nil {
				t.Errorf("%s: %s, %s: %v", format, s.fact.Type(), s.name, err)
				continue
			}
			back, err := reader.Decode(s.fact.Type(), value)
			if err != nil {
				t.Errorf("%s: %s, %s: %v\n%q", format, s.fact.Type(), s.name, err, value)
				continue
			}
			if diff := cmp.Diff(s.fact, back); diff != "" {
				t.Errorf("%s: %s, %s: came back changed (-was +is)\n%s", format, s.fact.Type(), s.name, diff)
			}
			seen[s.fact.Type()] = true
		}
		for _, f := range event.Catalogue() {
			if !seen[f.Type()] {
				t.Errorf("%s: no sample of %s", format, f.Type())
			}
		}
	}
}

func TestLargeCartRoundTrips(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{Avro, JSON} {
		c := newCodec(t, format)
		for _, n := range []int{1, 1_100, 10_000} {
			want := cart(n)
			value, err := c.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Decode(want.Type(), value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(event.Fact(want), got); diff != "" {
				t.Errorf("%s: %d lines came back changed:\n%s", format, n, diff)
			}
		}
	}
}

func TestEncodeRefusesWhatCannotComeBack(t *testing.T) {
	t.Parallel()
	placed := func(change func(*event.OrderPlaced)) event.Fact {
		f := cart(2)
		change(&f)
		return f
	}
	cases := []struct {
		what, want string
		fact       event.Fact
	}{
		{"text", "reason: is not UTF-8", event.OrderFailed{Reason: "\xff"}},
		{"optional text", "shipment: is not UTF-8", event.ShipmentCancelled{Shipment: "a\xc3"}},
		{"text in a line", "lines[1]: sku: is not UTF-8", placed(func(f *event.OrderPlaced) { f.Lines[1].SKU = "\xff" })},
		{"symbol", `reason: "" is none of`, event.OrderCancelled{}},
		{"symbol kept for readers", `step: "unknown" is none of`, event.UndoStuck{Step: "unknown"}},
		{"SCH-09 zero time", "deadline: is the zero time", placed(func(f *event.OrderPlaced) { f.Deadline = time.Time{} })},
		{"SCH-09 nanoseconds", "deadline: is finer than a microsecond", placed(func(f *event.OrderPlaced) { f.Deadline = deadline.Add(1) })},
		{"SCH-09 year 10000", "deadline: is not between", placed(func(f *event.OrderPlaced) { f.Deadline = deadline.AddDate(8000, 0, 0) })},
		{"SCH-09 before Christ", "deadline: is not between", placed(func(f *event.OrderPlaced) { f.Deadline = deadline.AddDate(-3000, 0, 0) })},
		{"33 bits", "score: 2147483648 has more", event.OrderScreened{Score: math.MaxInt32 + 1, Verdict: event.Clear}},
		{"foreign fact", "encode Foreign: unknown event type", foreign{}},
		{"no fact", "there is none", nil},
	}
	for _, c := range cases {
		for _, format := range []Format{Avro, JSON} {
			_, err := newCodec(t, format).Encode(c.fact)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: got %v, want %q", format, c.what, err, c.want)
			}
		}
	}
}

type foreign struct{}

func (foreign) Type() event.Type { return "Foreign" }

func TestSCH09TimestampsAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(2006, 1, 2, 15, 4, 5, 565000000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 999000000, time.UTC),
		time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
		time.Date(2026, 7, 1, 12, 0, 0, 1000, time.FixedZone("CEST", 2*60*60)),
	} {
		for _, format := range []Format{Avro, JSON} {
			c := newCodec(t, format)
			f := cart(1)
			f.Deadline = at
			value, err := c.Encode(f)
			if err != nil {
				t.Errorf("%s: %s: %v", format, at, err)
				continue
			}
			back, err := c.Decode(f.Type(), value)
			if err != nil {
				t.Errorf("%s: %s: %v", format, at, err)
				continue
			}
			if got := back.(event.OrderPlaced).Deadline; !got.Equal(at) || got.Location() != time.UTC {
				t.Errorf("%s: %s came back as %s", format, at, got)
			}
		}
	}
}
