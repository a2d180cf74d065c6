package codec

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"chorus/internal/event"
)

// toNative turns a fact into the form in which goavro takes values. Field names are those of the schemas.
func toNative(f event.Fact) (map[string]any, error) {
	w := writer{make(map[string]any, 10), nil}
	switch f := f.(type) {
	case event.OrderPlaced:
		w.placed(f)
	case event.OrderCancellationRequested:
		w.symbol("reason", string(f.Reason), cancelReasons)
	case event.OrderConfirmed, event.OrderShipped, event.OrderDelivered:
		// A body of no bytes is good Avro, but Confluent's Python client refuses a value that is its frame alone.
		w.text("reason", "")
	case event.OrderRejected:
		w.text("reason", f.Reason)
	case event.OrderFailed:
		w.text("reason", f.Reason)
	case event.OrderCancelled:
		w.symbol("reason", string(f.Reason), cancelReasons)
	case event.StockReserved:
		w.text("reservation", f.Reservation)
	case event.StockRejected:
		w.text("reason", f.Reason)
	case event.StockReleased:
		w.optional("reservation", f.Reservation)
	case event.OrderScreened:
		w.whole("score", f.Score)
		w.symbol("verdict", string(f.Verdict), verdicts)
		w.text("reason", f.Reason)
	case event.ShipmentScheduled:
		w.text("shipment", f.Shipment)
		w.text("carrier", f.Carrier)
	case event.ShipmentRejected:
		w.text("reason", f.Reason)
	case event.ShipmentCancelled:
		w.optional("shipment", f.Shipment)
	case event.PaymentTaken:
		w.optional("payment", f.Payment)
		w.optional("processor", f.Processor)
		w.m["amount"] = f.Amount
		w.text("currency", f.Currency)
	case event.PaymentDeclined:
		w.text("reason", f.Reason)
	case event.PaymentRefunded:
		w.optional("payment", f.Payment)
		w.m["amount"] = f.Amount
		w.text("currency", f.Currency)
		w.text("reason", f.Reason)
	case event.PaymentVoided:
		w.text("reason", f.Reason)
	case event.UndoStuck:
		w.symbol("step", string(f.Step), steps)
		w.text("reason", f.Reason)
	default:
		return nil, fmt.Errorf("%T has no mapping", f)
	}
	return w.m, w.err
}

func (w *writer) placed(f event.OrderPlaced) {
	w.text("customer", f.Customer)
	w.text("currency", f.Currency)
	lines := make([]any, len(f.Lines))
	for i, l := range f.Lines {
		line := writer{make(map[string]any, 3), nil}
		line.text("sku", l.SKU)
		line.m["quantity"] = l.Quantity
		line.text("unitPrice", l.UnitPrice)
		if line.err != nil {
			w.fail(fmt.Sprintf("lines[%d]", i), line.err.Error())
		}
		lines[i] = line.m
	}
	w.m["lines"] = lines
	w.m["discount"] = f.Discount
	w.m["tax"] = f.Tax
	w.m["shippingFee"] = f.ShippingFee
	w.m["total"] = f.Total
	w.symbol("shippingType", string(f.Shipping), shippingTypes)
	w.instant("deadline", f.Deadline)
}

// The symbols that facts may have. The schemas' symbol "unknown" is not among them: it is what a reader
// makes of a symbol that only a newer version knows, and no such fact is acted on.
var (
	cancelReasons = []string{string(event.ByCustomer), string(event.ByOperator), string(event.TimedOut)}
	verdicts      = []string{string(event.Clear), string(event.Review), string(event.Reject), string(event.Unavailable)}
	shippingTypes = []string{string(event.Domestic), string(event.International)}
	steps         = []string{string(event.StockStep), string(event.ScreeningStep), string(event.ShipmentStep), string(event.PaymentStep)}
)

// writer collects fields and keeps the first fault.
type writer struct {
	m   map[string]any
	err error
}

func (w *writer) fail(name, reason string) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", name, reason)
	}
}

func (w *writer) text(name, s string) {
	if !utf8.ValidString(s) {
		w.fail(name, "is not UTF-8")
	}
	w.m[name] = s
}

// optional writes what may be missing; the empty text is none.
func (w *writer) optional(name, s string) {
	if s == "" {
		w.m[name] = nil
		return
	}
	w.text(name, s)
	w.m[name] = map[string]any{"string": s}
}

func (w *writer) whole(name string, n int) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		w.fail(name, fmt.Sprintf("%d has more than 32 bits", n))
	}
	w.m[name] = int32(n)
}

func (w *writer) symbol(name, s string, known []string) {
	if !slices.Contains(known, s) {
		w.fail(name, fmt.Sprintf("%q is none of %v", s, known))
	}
	w.m[name] = s
}

func (w *writer) instant(name string, t time.Time) {
	if why := unfit(t); why != "" {
		w.fail(name, why)
	}
	w.m[name] = t
}

// unfit says why an instant cannot be stated exactly: it is missing (the zero time, which would
// come back as a date of the year 1), beyond what RFC 3339 can write, or finer than what is kept.
func unfit(t time.Time) string {
	switch {
	case t.IsZero():
		return "is the zero time"
	case t.UTC().Year() < 1 || t.UTC().Year() > 9999:
		return "is not between the years 1 and 9999"
	case t.Nanosecond()%1000 != 0:
		return "is finer than a microsecond"
	}
	return ""
}
