package stock_test

import (
	"testing"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/services/inventory/stock"
)

// TestNoRouteIsARejection: without a warehouse nothing is held, and the order is refused in the open (D7).
func TestNoRouteIsARejection(t *testing.T) {
	t.Parallel()
	r := stock.Rules{Route: func(outside.Known) (string, bool) { return "", false }}
	d := r.Decide(8842, stock.State{}, decision.Delivered{Envelope: event.Envelope{Owner: event.Orders, Fact: event.OrderPlaced{Lines: []event.Line{{SKU: "A", Quantity: 1}}}}})
	if d.Hold != "" || len(d.Intents) != 0 || len(d.Facts) != 1 || d.Facts[0].Fact != (event.StockRejected{Reason: outside.NoRoute}) {
		t.Errorf("%+v", d)
	}
}
