package choreography

import (
	"time"

	"chorus/internal/event"
)

// Debt says who owes which fact once others are there: the answer to "who owns the missed step".
type Debt struct {
	Owner   event.Participant
	Step    event.Step   // empty when the debt is not of a step
	After   []event.Type // all of these are there
	Owes    []event.Type // and none of these: any of them pays the debt
	Unless  []event.Type // and none of these: they cancel it
	Allowed time.Duration
}

// Durations are the allowed waits. The zero value is not useful; see DefaultDurations.
type Durations struct {
	Call   time.Duration `default:"1m" help:"A step's forward call, retries included."`
	Undo   time.Duration `default:"5m" help:"A step's undo, retries included."`
	Fact   time.Duration `default:"30s" help:"A fact that follows from others without a call."`
	Person time.Duration `default:"4h" help:"A stuck step, until a person has resolved it."`
}

// DefaultDurations are used where no configuration says otherwise.
func DefaultDurations() Durations {
	return Durations{Call: time.Minute, Undo: 5 * time.Minute, Fact: 30 * time.Second, Person: 4 * time.Hour}
}

// closers are the facts that close a step (D4 "How an order ends").
func closers(step event.Step) []event.Type {
	switch step {
	case event.PaymentStep:
		return []event.Type{"StockRejected", "ShipmentRejected", "PaymentDeclined", "PaymentRefunded", "PaymentVoided"}
	case event.ShipmentStep:
		return []event.Type{"StockRejected", "ShipmentRejected", "ShipmentCancelled"}
	case event.StockStep:
		return []event.Type{"StockRejected", "StockReleased"}
	}
	return nil
}

// resolutions are the facts by which a stuck step is closed: its owner's own among the closers.
func resolutions(step event.Step) []event.Type {
	switch step {
	case event.PaymentStep:
		return []event.Type{"PaymentDeclined", "PaymentRefunded"}
	case event.ShipmentStep:
		return []event.Type{"ShipmentRejected", "ShipmentCancelled"}
	case event.StockStep:
		return []event.Type{"StockRejected", "StockReleased"}
	}
	return nil
}

// undoable are the steps with an effect, in the order in which they are undone.
func undoable() []event.Step {
	return []event.Step{event.PaymentStep, event.ShipmentStep, event.StockStep}
}

// Debts returns the table of debts, in the order in which people want to read them. A step has at most one
// open debt at a time: what cancels the forward debt opens the one of the way back.
func Debts(d Durations) []Debt {
	type types = []event.Type
	const placed, cancel = event.Type("OrderPlaced"), event.Type("OrderCancellationRequested")
	var (
		undone  = types{"OrderFailed", "OrderCancelled"}
		ended   = append(types{"OrderRejected"}, undone...)
		paid    = types{"PaymentDeclined", "PaymentRefunded", "PaymentVoided"}
		hurdles = types{cancel, "StockRejected", "ShipmentRejected"}
		bad     = append(append(types{}, hurdles...), paid...)
		held    = types{"StockReserved", "StockRejected", "StockReleased"}
		given   = types{"StockReleased", "StockRejected"}
		booked  = types{"ShipmentScheduled", "ShipmentRejected", "ShipmentCancelled"}
		dropped = types{"ShipmentCancelled", "ShipmentRejected"}
	)
	debts := []Debt{
		{event.Inventory, event.StockStep, types{placed}, held, types{"ShipmentCancelled"}, d.Call},
		{event.Fraud, event.ScreeningStep, types{placed}, types{"OrderScreened"}, append(bad, ended...), d.Call},
		{event.Shipping, event.ShipmentStep, types{"StockReserved"}, booked, append(types{StuckKey(event.PaymentStep)}, paid...), d.Call},
		{event.Billing, event.PaymentStep, types{"ShipmentScheduled", "OrderScreened"}, append(types{"PaymentTaken"}, paid...), types{cancel}, d.Call},
		{event.Orders, "", types{"PaymentTaken"}, append(types{"OrderConfirmed"}, ended...), bad, d.Fact},

		{event.Billing, event.PaymentStep, types{cancel}, paid, ended, d.Undo},
	}
	for _, cause := range append(paid, StuckKey(event.PaymentStep)) {
		debts = append(debts, Debt{event.Shipping, event.ShipmentStep, types{cause}, dropped, ended, d.Undo})
	}
	for _, cause := range dropped {
		debts = append(debts, Debt{event.Inventory, event.StockStep, types{cause}, given, ended, d.Undo})
	}
	return append(debts,
		Debt{event.Orders, "", types{"StockRejected"}, ended, nil, d.Fact},
		Debt{event.Orders, "", types{"StockReleased"}, undone, nil, d.Fact})
}
