package event

import "time"

// ShippingType decides the carrier.
type ShippingType string

const (
	Domestic      ShippingType = "domestic"
	International ShippingType = "international"
)

// Line is one line of an order. Two lines may name the same goods.
type Line struct {
	SKU       string
	Quantity  int64  // units, 1 or more
	UnitPrice string // decimal in major units, exact, as in the catalogue ("2.55"); may have more digits than the currency
}

// OrderPlaced starts everything.
type OrderPlaced struct {
	Customer    string
	Currency    string // ISO 4217
	Lines       []Line
	Discount    int64 // minor units, as are the next three
	Tax         int64
	ShippingFee int64
	Total       int64 // what is charged: lines - discount + tax + shipping fee; 0 is a gift
	Shipping    ShippingType
	Deadline    time.Time // no participant begins an attempt after it
}

// CancelReason says who wants the order undone.
type CancelReason string

const (
	ByCustomer CancelReason = "CUSTOMER"
	ByOperator CancelReason = "OPERATOR"
	TimedOut   CancelReason = "TIMED_OUT"
)

// OrderCancellationRequested asks for everything to be undone. Billing answers it first.
type OrderCancellationRequested struct{ Reason CancelReason }

// OrderConfirmed ends the forward way: reserved, booked and paid.
type OrderConfirmed struct{}

// OrderRejected ends an order for which there was no stock.
type OrderRejected struct{ Reason string }

// OrderFailed ends an order that failed for any other cause; nothing is held and nothing is charged.
type OrderFailed struct{ Reason string }

// OrderCancelled ends an order that a person cancelled.
type OrderCancelled struct{ Reason CancelReason }

// OrderShipped is the point of no return.
type OrderShipped struct{}

// OrderDelivered ends a shipped order.
type OrderDelivered struct{}

func (OrderPlaced) Type() Type                { return "OrderPlaced" }
func (OrderCancellationRequested) Type() Type { return "OrderCancellationRequested" }
func (OrderConfirmed) Type() Type             { return "OrderConfirmed" }
func (OrderRejected) Type() Type              { return "OrderRejected" }
func (OrderFailed) Type() Type                { return "OrderFailed" }
func (OrderCancelled) Type() Type             { return "OrderCancelled" }
func (OrderShipped) Type() Type               { return "OrderShipped" }
func (OrderDelivered) Type() Type             { return "OrderDelivered" }
func (UndoStuck) Type() Type                  { return "UndoStuck" }
