// Package event is the vocabulary of the choreography: every fact that a
// service states, one file an owner, and the envelope in which it travels (D4).
//
// A fact is in the past tense and is never taken back; what undoes it is another
// fact. The package does no I/O: internal/codec gives facts their bytes, outbox
// stores them and cdc sends them.
package event

import (
	"fmt"
	"strconv"
	"time"
)

// Participant is a service that takes part in the choreography. It owns the
// topic "<participant>.events".
type Participant string

// The participants that own facts.
const (
	Orders    Participant = "orders"
	Inventory Participant = "inventory"
	Fraud     Participant = "fraud"
	Shipping  Participant = "shipping"
	Billing   Participant = "billing"
)

// Owners lists the participants that own a topic.
func Owners() []Participant { return []Participant{Orders, Inventory, Fraud, Shipping, Billing} }

// Topic returns the Kafka topic of the facts that p owns.
func (p Participant) Topic() string { return string(p) + ".events" }

// OrderNo is an order's number. It is an identity number: what people say and type is what is in
// URLs, in JSON and, as decimal text, in the Kafka key.
type OrderNo int64

func (n OrderNo) String() string { return strconv.FormatInt(int64(n), 10) }

// ParseOrderNo reads an order number: decimal digits, 1 or more, no sign, no leading zero,
// so that one order has one key.
func ParseOrderNo(s string) (OrderNo, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("order number %q: want a whole number from 1 without sign or leading zeros", s)
	}
	return OrderNo(n), nil
}

// Type is the name of a fact as it stands in the eventType header.
type Type string

// Fact is what a service states about an order. The types of this package are all there are.
type Fact interface {
	Type() Type
}

// Envelope is a fact with what travels beside it as record headers (D4).
type Envelope struct {
	ID          ID
	Order       OrderNo     // the record key and the correlation id
	Owner       Participant // whose topic it is in
	OccurredAt  time.Time   // when it was decided, UTC
	CausationID ID          // the fact or request that caused it
	Hop         int         // facts between the customer's request and this one; guards against loops
	TraceParent string      // W3C trace context, may be empty
	TraceState  string
	Fact        Fact
}

// Step is one of the three effects that an order has in the outside world, which
// can be undone, or the screening, which only reads, or the notification, which no order waits for.
type Step string

// The steps in the order in which they are done; they are undone from the last to the first.
const (
	StockStep     Step = "stock"
	ScreeningStep Step = "screening"
	ShipmentStep  Step = "shipment"
	PaymentStep   Step = "payment"

	NotificationStep Step = "notification"
)

// Owner returns the participant that does and undoes the step.
func (s Step) Owner() Participant {
	switch s {
	case StockStep:
		return Inventory
	case ScreeningStep:
		return Fraud
	case ShipmentStep:
		return Shipping
	case PaymentStep:
		return Billing
	case NotificationStep:
		return "notifications"
	}
	return ""
}

// UndoStuck says that a step needs a person: a call's outcome could not be learned, or its undo used up
// all attempts. Its owner is the step's owner. It closes nothing; a person's
// resolution makes the same participant state the step's closing fact.
type UndoStuck struct {
	Step   Step
	Reason string
}
