// Package choreography is the one table of who reacts to what, who owes what to whom, and how long it may
// take (D4). Services take their subscriptions from it, the tracker its waits, `chorus map` its picture.
// Coordination stays with the facts: nothing here tells a service what to do.
package choreography

import (
	"slices"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Notifications only listens: it has no outbox and no topic.
const Notifications event.Participant = "notifications"

// Reaction is one row of the table: what a participant does about a fact or a request.
type Reaction struct {
	Who    event.Participant
	On     event.Type   // the fact; empty for a request or timer
	Asked  string       // the request or timer; empty for a fact
	States []event.Type // what it may state, at once or when its call is answered
	Calls  []Call       // the calls it may make
	Note   string       // what it remembers or why, for people
}

// Call is a call to an outside provider.
type Call struct {
	Step event.Step
	Op   decision.Op
}

var (
	reserve  = Call{event.StockStep, decision.Do}
	release  = Call{event.StockStep, decision.Undo}
	screen   = Call{event.ScreeningStep, decision.Look}
	book     = Call{event.ShipmentStep, decision.Do}
	unbook   = Call{event.ShipmentStep, decision.Undo}
	charge   = Call{event.PaymentStep, decision.Do}
	refund   = Call{event.PaymentStep, decision.Undo}
	tell     = Call{event.NotificationStep, decision.Tell}
	stuck    = event.Type("UndoStuck")
	undone   = []event.Type{"OrderFailed", "OrderCancelled"}
	charging = []event.Type{"PaymentTaken", "PaymentDeclined", "PaymentRefunded", stuck}
)

// Table returns every reaction, by participant and then in the order of an order's life.
func Table() []Reaction { return slices.Clone(reactions) }

var reactions = []Reaction{
	{Who: event.Orders, Asked: "place", States: []event.Type{"OrderPlaced"}},
	{Who: event.Orders, Asked: "cancel", States: []event.Type{"OrderCancellationRequested"}},
	{Who: event.Orders, Asked: "deadline", States: []event.Type{"OrderCancellationRequested"}},
	{Who: event.Orders, Asked: "ship", States: []event.Type{"OrderShipped"}, Note: "the point of no return"},
	{Who: event.Orders, Asked: "deliver", States: []event.Type{"OrderDelivered"}},
	{Who: event.Orders, On: "PaymentTaken", States: []event.Type{"OrderConfirmed"}},
	{Who: event.Orders, On: "StockRejected", States: append([]event.Type{"OrderRejected"}, undone...), Note: "closes stock, shipment and payment"},
	{Who: event.Orders, On: "ShipmentRejected", States: undone, Note: "closes shipment and payment"},
	{Who: event.Orders, On: "PaymentDeclined", States: undone, Note: "closes payment"},
	{Who: event.Orders, On: "PaymentRefunded", States: undone, Note: "closes payment"},
	{Who: event.Orders, On: "PaymentVoided", States: undone, Note: "closes payment"},
	{Who: event.Orders, On: "ShipmentCancelled", States: undone, Note: "closes shipment"},
	{Who: event.Orders, On: "StockReleased", States: undone, Note: "closes stock"},
	{Who: event.Orders, On: stuck, Note: "needs attention"},

	{Who: event.Inventory, On: "OrderPlaced", States: []event.Type{"StockReserved", "StockRejected", stuck}, Calls: []Call{reserve}},
	{Who: event.Inventory, On: "ShipmentCancelled", States: []event.Type{"StockReleased", stuck}, Calls: []Call{release}},
	{Who: event.Inventory, On: "ShipmentRejected", States: []event.Type{"StockReleased", stuck}, Calls: []Call{release}},
	{Who: event.Inventory, Asked: "retry", States: []event.Type{"StockRejected", "StockReleased", stuck}, Calls: []Call{reserve, release}},
	{Who: event.Inventory, Asked: "resolve", States: []event.Type{"StockRejected", "StockReleased"}},

	{Who: event.Fraud, On: "OrderPlaced", States: []event.Type{"OrderScreened"}, Calls: []Call{screen}},

	{Who: event.Shipping, On: "OrderPlaced", Note: "remembers the order", States: []event.Type{"ShipmentScheduled", "ShipmentRejected", stuck}, Calls: []Call{book}},
	{Who: event.Shipping, On: "StockReserved", States: []event.Type{"ShipmentScheduled", "ShipmentRejected", stuck}, Calls: []Call{book}},
	{Who: event.Shipping, On: "StockRejected", Note: "nothing will be booked"},
	{Who: event.Shipping, On: "PaymentDeclined", States: []event.Type{"ShipmentCancelled", stuck}, Calls: []Call{unbook}},
	{Who: event.Shipping, On: "PaymentRefunded", States: []event.Type{"ShipmentCancelled", stuck}, Calls: []Call{unbook}},
	{Who: event.Shipping, On: "PaymentVoided", States: []event.Type{"ShipmentCancelled", stuck}, Calls: []Call{unbook}},
	{Who: event.Shipping, On: stuck, States: []event.Type{"ShipmentCancelled"}, Calls: []Call{unbook}, Note: "a stuck payment counts as undone"},
	{Who: event.Shipping, Asked: "retry", States: []event.Type{"ShipmentRejected", "ShipmentCancelled", stuck}, Calls: []Call{book, unbook}},
	{Who: event.Shipping, Asked: "resolve", States: []event.Type{"ShipmentRejected", "ShipmentCancelled"}},

	{Who: event.Billing, On: "OrderPlaced", Note: "remembers the total", States: charging, Calls: []Call{charge}},
	{Who: event.Billing, On: "ShipmentScheduled", States: charging, Calls: []Call{charge}},
	{Who: event.Billing, On: "OrderScreened", States: charging, Calls: []Call{charge}},
	{Who: event.Billing, On: "StockRejected", Note: "neither charge nor decline"},
	{Who: event.Billing, On: "ShipmentRejected", Note: "neither charge nor decline"},
	{Who: event.Billing, On: "OrderCancellationRequested", States: []event.Type{"PaymentVoided", "PaymentRefunded", stuck}, Calls: []Call{refund}},
	{Who: event.Billing, Asked: "retry", States: []event.Type{"PaymentDeclined", "PaymentRefunded", stuck}, Calls: []Call{charge, refund}},
	{Who: event.Billing, Asked: "resolve", States: []event.Type{"PaymentDeclined", "PaymentRefunded"}},

	{Who: Notifications, On: "OrderConfirmed"},
	{Who: Notifications, On: "OrderRejected", Calls: []Call{tell}},
	{Who: Notifications, On: "OrderFailed", Calls: []Call{tell}},
	{Who: Notifications, On: "OrderCancelled", Calls: []Call{tell}},
	{Who: Notifications, On: "OrderShipped", Calls: []Call{tell}},
	{Who: Notifications, On: "OrderDelivered", Calls: []Call{tell}},
}

// Participants lists everyone in the table in the order of first appearance.
func Participants() []event.Participant {
	var who []event.Participant
	for _, r := range reactions {
		if !slices.Contains(who, r.Who) {
			who = append(who, r.Who)
		}
	}
	return who
}

// Listens reports whether p declares a reaction to t. A delivery of any other type is passed over.
func Listens(p event.Participant, t event.Type) bool {
	return slices.ContainsFunc(reactions, func(r Reaction) bool { return r.Who == p && r.On == t })
}

// Hears reports whether listener declares a reaction to a fact of this type in this owner's topic. Of UndoStuck
// shipping hears billing's alone.
func Hears(listener, owner event.Participant, t event.Type) bool {
	return Listens(listener, t) && slices.Contains(StatedBy(t, listener), owner)
}

// Sources lists the owners whose topics p reads, sorted.
func Sources(p event.Participant) []event.Participant {
	var owners []event.Participant
	for _, r := range reactions {
		if r.Who != p || r.On == "" {
			continue
		}
		owners = append(owners, StatedBy(r.On, p)...)
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// StatedBy lists the owners of a fact that listener can meet in their topics. A type has one owner, but for
// UndoStuck: shipping wants billing's alone, and nobody reads its own.
func StatedBy(t event.Type, listener event.Participant) []event.Participant {
	var owners []event.Participant
	for _, r := range reactions {
		if !slices.Contains(r.States, t) || r.Who == listener || slices.Contains(owners, r.Who) {
			continue
		}
		if t == stuck && listener == event.Shipping && r.Who != event.Billing {
			continue
		}
		owners = append(owners, r.Who)
	}
	return owners
}
