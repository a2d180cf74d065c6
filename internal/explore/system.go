package explore

import (
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/services/billing/payment"
	"chorus/services/fraud/screening"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// System is the set of functions that are explored. Shipped returns those that the services run;
// a test of the explorer itself wraps one of them to seed a fault.
type System struct {
	Order     func(event.OrderNo, order.State, decision.Input) decision.Decision[order.State]
	Stock     func(event.OrderNo, stock.State, decision.Input) decision.Decision[stock.State]
	Screening func(event.OrderNo, screening.State, decision.Input) decision.Decision[screening.State]
	Shipment  func(event.OrderNo, shipment.State, decision.Input) decision.Decision[shipment.State]
	Payment   func(event.OrderNo, payment.State, decision.Input) decision.Decision[payment.State]

	NewCall func(decision.Op) decision.Call
	Expire  func(decision.Call) decision.Call
	Record  func(decision.Call, decision.Policy, decision.Result) decision.Call
	Again   func(decision.Call) decision.Call
	Key     func(decision.Call) int // the generation of the idempotency key that an attempt carries

	ID func(event.Participant, decision.Emission) event.ID
}

// Routes are the routes of a configuration.
type Routes func(event.Step) outside.Route

// Shipped returns the functions that the services run, with the routes that they are configured with.
func Shipped(routes Routes) System {
	screened := screening.Defaults()
	screened.Route = routes(event.ScreeningStep)
	return System{
		Order:     order.Defaults().Decide,
		Stock:     stock.Rules{Route: routes(event.StockStep)}.Decide,
		Screening: screened.Decide,
		Shipment:  shipment.Rules{Route: routes(event.ShipmentStep)}.Decide,
		Payment:   payment.Rules{Route: routes(event.PaymentStep)}.Decide,

		NewCall: decision.NewCall,
		Expire:  decision.Call.Expire,
		Record:  decision.Call.Record,
		Again:   decision.Call.Again,
		Key:     func(decision.Call) int { return 0 },

		ID: func(p event.Participant, e decision.Emission) event.ID {
			return event.Derive(epoch, p, orderNo, string(e.Fact.Type()), e.Generation)
		},
	}
}

// The order under exploration. Time stands still: no rule compares two instants but a timer with the one it was set to,
// and timers fire at any moment.
const orderNo event.OrderNo = 8842

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func placed(gift bool) event.OrderPlaced {
	total := int64(500)
	if gift {
		total = 0
	}
	return event.OrderPlaced{
		Customer: "c", Currency: "EUR", Lines: []event.Line{{SKU: "A", Quantity: 2, UnitPrice: "2.50"}},
		Total: total, Shipping: event.Domestic, Deadline: epoch.Add(15 * time.Minute),
	}
}
