// Package outside says what the shop asks of the outside world: the requests of each step, and how a step's provider is
// chosen. The choice itself is configuration (D7), which internal/provider compiles to a [Route]; the rules of the services
// hold one and stay pure.
package outside

import "chorus/internal/event"

// Route names the provider that gets a step's call. ok is false when no route matches, which is an error that somebody
// sees, never a skip: the step is refused with the reason [NoRoute]. A route is pure: the same Known gives the same provider.
type Route func(Known) (provider string, ok bool)

// NoRoute is the reason of a step for which the configuration has no provider.
const NoRoute = "NO_ROUTE: no configured route matches"

// Known is what a route may look at. Request is the step's own; Facts are those that the participant has heard and keeps.
type Known struct {
	Request any
	Facts   map[event.Type]any
}

// Reservation asks the warehouse to confirm a hold.
type Reservation struct {
	Order event.OrderNo `json:"order"`
	Lines []Item        `json:"lines"`
}

// Item is one line of a Reservation.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// Question asks the bureau for a score.
type Question struct {
	Order    event.OrderNo      `json:"order"`
	Customer string             `json:"customer"`
	Amount   int64              `json:"amount"` // minor units
	Currency string             `json:"currency"`
	Shipping event.ShippingType `json:"shipping"`
}

// Booking asks a carrier for a shipment.
type Booking struct {
	Order    event.OrderNo `json:"order"`
	Customer string        `json:"customer"`
	Units    int64         `json:"units"`
}

// Charge asks a processor for money. The lines sum to the amount.
type Charge struct {
	Order    event.OrderNo `json:"order"`
	Customer string        `json:"customer"`
	Amount   int64         `json:"amount"` // minor units
	Currency string        `json:"currency"`
	Lines    []Priced      `json:"lines"`
}

// Notice tells the outside what an order has become, for its customer.
type Notice struct {
	Order  event.OrderNo `json:"order"`
	Status string        `json:"status"` // the new one, as in SHIPPED
	Text   string        `json:"text"`   // what the customer reads
}

// Placed is what routes may know of OrderPlaced.
type Placed struct {
	Customer string             `json:"customer"`
	Currency string             `json:"currency"`
	Total    int64              `json:"total"` // minor units
	Shipping event.ShippingType `json:"shipping"`
}

// Screened is what routes may know of OrderScreened.
type Screened struct {
	Score   int                    `json:"score"`
	Verdict event.ScreeningVerdict `json:"verdict"`
}

// Scheduled is what routes may know of ShipmentScheduled.
type Scheduled struct {
	Carrier string `json:"carrier"`
}

// Shape is what is there for the routes and templates of a step.
type Shape struct {
	Step    event.Step
	Owner   event.Participant
	Reads   bool // nothing takes its call back: it has no effect, or one that need not be
	Spare   bool // an order gets by without it: there may be no routes at all, and then nobody is called
	Request any  // with every field
	Facts   map[event.Type]any
	Answers map[event.Step]event.Type // the fact that carries the answer of an earlier step
}

// Shapes lists the steps, in the order in which an order meets them.
func Shapes() []Shape {
	placed := Placed{"ada", "GBP", 2450, event.Domestic}
	return []Shape{
		{
			Step: event.StockStep, Owner: event.Inventory,
			Request: Reservation{8842, []Item{{"TEAPOT", 1}}},
		},
		{
			Step: event.ScreeningStep, Owner: event.Fraud, Reads: true,
			Request: Question{8842, "ada", 2450, "GBP", event.Domestic},
			Facts:   map[event.Type]any{"OrderPlaced": placed},
		},
		{
			Step: event.ShipmentStep, Owner: event.Shipping,
			Request: Booking{8842, "ada", 1},
			Facts:   map[event.Type]any{"OrderPlaced": placed},
		},
		{
			Step: event.PaymentStep, Owner: event.Billing,
			Request: Charge{8842, "ada", 2450, "GBP", []Priced{{"TEAPOT", 1, 2450}}},
			Facts: map[event.Type]any{
				"OrderPlaced": placed, "OrderScreened": Screened{10, event.Clear}, "ShipmentScheduled": Scheduled{"carrier-domestic"},
			},
			Answers: map[event.Step]event.Type{event.ScreeningStep: "OrderScreened", event.ShipmentStep: "ShipmentScheduled"},
		},
		{
			Step: event.NotificationStep, Owner: "notifications", Reads: true, Spare: true,
			Request: Notice{8842, "SHIPPED", "Your order is on its way."},
		},
	}
}
