// Package retail reads the public UCI "Online Retail" format as orders of a shop: an invoice is an order, and one whose
// number begins with C cancels an earlier order.
//
// It reads a stream and keeps of each order only what a later cancellation is matched by, so a file may be of any length. It
// does no other I/O. What a shop must refuse is returned and counted with its reason, never dropped in silence.
package retail

import (
	"time"

	"chorus/internal/event"
)

// Reason says why a line or an invoice is refused.
type Reason string

// The reasons. The first six are of lines.
const (
	Malformed        Reason = "malformed line"
	NoCode           Reason = "no stock code"
	NegativeQuantity Reason = "negative quantity"
	ZeroQuantity     Reason = "zero quantity"
	NegativePrice    Reason = "negative price"
	Scattered        Reason = "line of an invoice that was complete" // its order has been made already

	Empty     Reason = "invoice without an accepted line"
	Unmatched Reason = "cancellation without its order"
)

// Guest is the customer of an invoice that names none.
const Guest = "guest"

// Line is an accepted line. Each pair of stock code and price is a product of its own, because a catalogue has one price a product.
type Line struct {
	SKU      string // "<stock code>@<price>"
	Name     string // valid UTF-8, whatever the file's encoding
	Quantity int64  // units, 1 or more
	Price    string // exact decimal in pounds, without trailing zeros: "0.39", "5"
}

// Invoice is one invoice after its lines were judged.
type Invoice struct {
	No       string
	At       time.Time // of its first line; the file knows no zone, so UTC stands for the shop's
	Customer string
	Shipping event.ShippingType
	Lines    []Line         // accepted ones, in the file's order; of a cancellation with positive quantities
	Refused  map[Reason]int // its refused lines
	Cancels  string         // of a cancellation: the number of the order that it cancels
	Why      Reason         // set when the whole invoice is refused
}

// Currency is that of every price.
const Currency = "GBP"
