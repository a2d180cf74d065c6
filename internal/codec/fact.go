package codec

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"chorus/internal/event"
)

// toFact turns a value in goavro's form and of the present shape into the fact.
func toFact(t event.Type, m map[string]any) (event.Fact, error) {
	r := reader{m: m}
	f := r.fact(t)
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

func (r *reader) fact(t event.Type) event.Fact {
	switch t {
	case event.OrderPlaced{}.Type():
		return r.placed()
	case event.OrderCancellationRequested{}.Type():
		return event.OrderCancellationRequested{Reason: event.CancelReason(r.symbol("reason", cancelReasons))}
	case event.OrderConfirmed{}.Type():
		return event.OrderConfirmed{}
	case event.OrderRejected{}.Type():
		return event.OrderRejected{Reason: r.text("reason")}
	case event.OrderFailed{}.Type():
		return event.OrderFailed{Reason: r.text("reason")}
	case event.OrderCancelled{}.Type():
		return event.OrderCancelled{Reason: event.CancelReason(r.symbol("reason", cancelReasons))}
	case event.OrderShipped{}.Type():
		return event.OrderShipped{}
	case event.OrderDelivered{}.Type():
		return event.OrderDelivered{}
	case event.StockReserved{}.Type():
		return event.StockReserved{Reservation: r.text("reservation")}
	case event.StockRejected{}.Type():
		return event.StockRejected{Reason: r.text("reason")}
	case event.StockReleased{}.Type():
		return event.StockReleased{Reservation: r.optional("reservation")}
	case event.OrderScreened{}.Type():
		return event.OrderScreened{
			Score: r.whole("score"), Verdict: event.ScreeningVerdict(r.symbol("verdict", verdicts)), Reason: r.text("reason"),
		}
	case event.ShipmentScheduled{}.Type():
		return event.ShipmentScheduled{Shipment: r.text("shipment"), Carrier: r.text("carrier")}
	case event.ShipmentRejected{}.Type():
		return event.ShipmentRejected{Reason: r.text("reason")}
	case event.ShipmentCancelled{}.Type():
		return event.ShipmentCancelled{Shipment: r.optional("shipment")}
	case event.PaymentTaken{}.Type():
		return event.PaymentTaken{
			Payment: r.optional("payment"), Processor: r.optional("processor"), Amount: r.long("amount"), Currency: r.text("currency"),
		}
	case event.PaymentDeclined{}.Type():
		return event.PaymentDeclined{Reason: r.text("reason")}
	case event.PaymentRefunded{}.Type():
		return event.PaymentRefunded{
			Payment: r.optional("payment"), Amount: r.long("amount"), Currency: r.text("currency"), Reason: r.text("reason"),
		}
	case event.PaymentVoided{}.Type():
		return event.PaymentVoided{Reason: r.text("reason")}
	case event.UndoStuck{}.Type():
		return event.UndoStuck{Step: event.Step(r.symbol("step", steps)), Reason: r.text("reason")}
	}
	r.fail("", fmt.Sprintf("%s has no mapping", t))
	return nil
}

func (r *reader) placed() event.Fact {
	f := event.OrderPlaced{
		Customer: r.text("customer"), Currency: r.text("currency"),
		Discount: r.long("discount"), Tax: r.long("tax"), ShippingFee: r.long("shippingFee"), Total: r.long("total"),
		Shipping: event.ShippingType(r.symbol("shippingType", shippingTypes)), Deadline: r.instant("deadline"),
	}
	lines := r.array("lines")
	if len(lines) > 0 {
		f.Lines = make([]event.Line, len(lines))
	}
	for i, v := range lines {
		m, _ := v.(map[string]any)
		line := reader{m: m}
		f.Lines[i] = event.Line{SKU: line.text("sku"), Quantity: line.long("quantity"), UnitPrice: line.text("unitPrice")}
		if line.err != nil {
			r.fail(fmt.Sprintf("lines[%d].%s", i, line.at), line.err.Reason)
		}
	}
	return f
}

// reader takes fields out and keeps the first fault. The shape has been seen to already, by goavro or by parseJSON;
// what is left to find is text that is not UTF-8, symbols that no fact may have, and impossible dates.
type reader struct {
	m   map[string]any
	at  string // the field of the first fault
	err *Error
}

func (r *reader) fail(name, reason string) {
	if r.err == nil {
		r.at, r.err = name, undecodable(name, reason)
	}
}

func (r *reader) text(name string) string {
	s, ok := r.m[name].(string)
	if !ok {
		r.wrong(name)
	} else if !utf8.ValidString(s) {
		r.fail(name, "is not UTF-8")
	}
	return s
}

func (r *reader) optional(name string) string {
	v, ok := r.m[name]
	if ok && v == nil {
		return ""
	}
	m, _ := v.(map[string]any)
	s, ok := m["string"].(string)
	if !ok {
		r.wrong(name)
	} else if !utf8.ValidString(s) {
		r.fail(name, "is not UTF-8")
	}
	return s
}

func (r *reader) long(name string) int64 {
	n, ok := r.m[name].(int64)
	if !ok {
		r.wrong(name)
	}
	return n
}

func (r *reader) whole(name string) int {
	n, ok := r.m[name].(int32)
	if !ok {
		r.wrong(name)
	}
	return int(n)
}

func (r *reader) array(name string) []any {
	a, ok := r.m[name].([]any)
	if !ok {
		r.wrong(name)
	}
	return a
}

func (r *reader) symbol(name string, known []string) string {
	s, _ := r.m[name].(string)
	if !slices.Contains(known, s) {
		r.fail(name, fmt.Sprintf("%q is none of %v: perhaps a newer version wrote it", s, known))
	}
	return s
}

func (r *reader) instant(name string) time.Time {
	t, ok := r.m[name].(time.Time)
	if !ok {
		r.wrong(name)
	} else if why := unfit(t); why != "" {
		r.fail(name, why)
	}
	return t
}

func (r *reader) wrong(name string) { r.fail(name, fmt.Sprintf("has the wrong type %T", r.m[name])) }
