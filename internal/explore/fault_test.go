package explore

import (
	"strings"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/billing/payment"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
	"chorus/services/shipping/shipment"
)

// Seeded faults are wrapped around the shipped functions; production code has no switches for them. A checker that
// misses one of them is broken.

type (
	orderRules    = func(event.OrderNo, order.State, decision.Input) decision.Decision[order.State]
	stockRules    = func(event.OrderNo, stock.State, decision.Input) decision.Decision[stock.State]
	shipmentRules = func(event.OrderNo, shipment.State, decision.Input) decision.Decision[shipment.State]
	paymentRules  = func(event.OrderNo, payment.State, decision.Input) decision.Decision[payment.State]
)

// heard returns the fact of an input, nil when it is something else.
func heard(in decision.Input) event.Fact {
	if d, ok := in.(decision.Delivered); ok {
		return d.Fact
	}
	return nil
}

// ended reports whether the input is the end of a call with this operation.
func ended(in decision.Input, op decision.Op, kind decision.OutcomeKind) bool {
	a, ok := in.(decision.Answered)
	return ok && a.Op == op && a.Outcome.Kind == kind
}

func say[S any](s S, facts ...event.Fact) decision.Decision[S] {
	d := decision.Decision[S]{State: s, Verdict: decision.Applied, Why: "seeded fault"}
	for _, f := range facts {
		d.Facts = append(d.Facts, decision.Emission{Fact: f})
	}
	return d
}

type fault struct {
	name  string
	seed  func(*System)
	sc    Scenario
	finds string // part of the violation
}

func faults() []fault {
	stockBad, shipmentBad, paymentBad := everything("stock", event.StockStep), everything("shipment", event.ShipmentStep), everything("payment", event.PaymentStep)
	calm := everything("calm")
	return []fault{
		{"tombstone dropped", seedShipment(func(next shipmentRules, n event.OrderNo, s shipment.State, in decision.Input) decision.Decision[shipment.State] {
			d := next(n, s, in)
			if s.Effect.Phase == decision.Open && d.State.Effect.Phase == decision.Closed && heard(in) != nil {
				d.State.Effect.Phase = decision.Open // "none" is said and not remembered
			}
			return d
		}), calm, "follows the step's closing fact"},

		{"refund twice", seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			d := next(n, s, in)
			for i := range d.Intents {
				if d.Intents[i].Op == decision.Undo {
					d.Intents[i].Again = false // the retry is a refund of its own
				}
			}
			return d
		}), paymentBad, "the undo of the payment is planned twice"},

		{"new key on retry", func(sys *System) {
			sys.Key = func(c decision.Call) int { return min(c.Tries, 1) }
		}, stockBad, "two effects stand"},

		{"unknown taken for failed", func(sys *System) {
			next := sys.Record
			sys.Record = func(c decision.Call, p decision.Policy, r decision.Result) decision.Call {
				if c.Phase == decision.Attempting && r.Kind == decision.Lost {
					r.Kind = decision.Busy
				}
				return next(c, p, r)
			}
		}, stockBad, "the effect stands"},

		{"absent taken for never", func(sys *System) {
			next := sys.Record
			sys.Record = func(c decision.Call, p decision.Policy, r decision.Result) decision.Call {
				if c.Phase == decision.Asking && r.Kind == decision.Absent {
					r.Kind = decision.Refusal
				}
				return next(c, p, r)
			}
		}, stockBad, "the effect stands"},

		{"exhausted call not cancelled by key", func(sys *System) {
			next := sys.Record
			sys.Record = func(c decision.Call, p decision.Policy, r decision.Result) decision.Call {
				c = next(c, p, r)
				if c.Phase == decision.Ending {
					c.Phase, c.Outcome.Kind = decision.Over, decision.Failed
				}
				return c
			}
		}, stockBad, "the effect stands"},

		{"undo order reversed", seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			switch d := next(n, s, in); {
			case s.Effect.Phase == decision.Done && d.State.Effect.Phase == decision.Undoing:
				d.Facts = append(d.Facts, decision.Emission{Fact: event.PaymentRefunded{}}) // before it is
				return d
			case ended(in, decision.Undo, decision.Succeeded):
				d.Facts = nil
				return d
			default:
				return d
			}
		}), calm, "the shipment is undone before the payment"},

		{"cancel after ship accepted", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			if r, ok := in.(decision.Requested); ok && s.Status == order.Shipped {
				if _, ok := r.Request.(decision.Cancel); ok {
					s.Status = order.Confirmed
				}
			}
			return next(n, s, in)
		}), calm, "shipped"},

		{"late success not undone", seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			if ended(in, decision.Do, decision.Succeeded) {
				s.Effect.UndoAsked = false
			}
			return next(n, s, in)
		}), calm, "another one is named as owing a fact"},

		{"timer ignored", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			if _, ok := in.(decision.Elapsed); ok {
				return decision.Ignore(s, "seeded fault")
			}
			return next(n, s, in)
		}), calm, "a timer has come"},

		{"order ended before all is closed", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			if f, ok := heard(in).(event.PaymentDeclined); ok && s.Status == order.Placed {
				s.Status = order.Failed
				return say(s, event.OrderFailed(f))
			}
			return next(n, s, in)
		}), calm, "before all steps are closed"},

		{"undo left unanswered", seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			if _, ok := heard(in).(event.OrderCancellationRequested); ok && s.NoShipment {
				return decision.Ignore(s, "seeded fault")
			}
			return next(n, s, in)
		}), calm, "has not answered"},

		{"second trigger answered again", seedShipment(func(next shipmentRules, n event.OrderNo, s shipment.State, in decision.Input) decision.Decision[shipment.State] {
			switch heard(in).(type) {
			case event.PaymentDeclined, event.PaymentRefunded, event.PaymentVoided:
				if s.Effect.Phase == decision.Closed {
					return say(s, event.ShipmentCancelled{})
				}
			}
			return next(n, s, in)
		}), paymentBad, "reacts to"},

		{"two facts with one derived id", func(sys *System) {
			sys.ID = func(p event.Participant, e decision.Emission) event.ID {
				return event.Derive(epoch, p, orderNo, "fact", e.Generation)
			}
		}, calm, "have one id"},

		{"second UndoStuck without a generation", func(sys *System) {
			*sys = retryAsks()
			sys.ID = func(p event.Participant, e decision.Emission) event.ID {
				return event.Derive(epoch, p, orderNo, string(e.Fact.Type()), 0)
			}
		}, stockBad, "have one id"},

		{"stock released under a stuck shipment", seedShipment(func(next shipmentRules, n event.OrderNo, s shipment.State, in decision.Input) decision.Decision[shipment.State] {
			d := next(n, s, in)
			if d.State.Effect.Phase == decision.StuckUndoing && s.Effect.Phase != decision.StuckUndoing {
				d.Facts = append(d.Facts, decision.Emission{Fact: event.ShipmentCancelled{}})
			}
			return d
		}), without(shipmentBad, func(sc *Scenario) { sc.Person = false }), "the stock is given back before the shipment is undone"},

		{"forward fact after UndoStuck", func(sys *System) {
			*sys = retryAsks()
			seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
				if ended(in, decision.Do, decision.Succeeded) && s.Effect.Phase == decision.StuckDoing {
					s.Effect.Phase, s.Effect.UndoAsked = decision.Doing, false
				}
				return next(n, s, in)
			})(sys)
		}, paymentBad, "PaymentTaken follows UndoStuck"},

		{"late success told as a release", func(sys *System) {
			*sys = retryAsks()
			next := sys.Stock
			sys.Stock = func(n event.OrderNo, s stock.State, in decision.Input) decision.Decision[stock.State] {
				d := next(n, s, in)
				d.State.Effect.Late = false // nobody booked or charged, and nobody is told to close that
				return d
			}
		}, stockBad, "named as owing a fact"},

		{"hold not given back", seedStock(func(next stockRules, n event.OrderNo, s stock.State, in decision.Input) decision.Decision[stock.State] {
			d := next(n, s, in)
			d.Hold = map[bool]decision.HoldOp{true: decision.Take}[d.Hold == decision.Take]
			return d
		}), calm, "the effect stands"},

		{"stuck step not shown", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			d := next(n, s, in)
			d.State.Payment.Stuck = ""
			return d
		}), paymentBad, "orders shows it"},

		{"cancel takes over a failure", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			if r, ok := in.(decision.Requested); ok && s.Status == order.Compensating {
				if _, ok := r.Request.(decision.Cancel); ok {
					s.Cause, s.Status = order.Cancelled, order.Cancelling
					return say(s)
				}
			}
			return next(n, s, in)
		}), calm, "the cause is for"},

		{"refund sent to another processor", seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			d := next(n, s, in)
			for i := range d.Intents {
				if d.Intents[i].Op == decision.Undo {
					d.Intents[i].Provider = payment.HighValue
				}
			}
			return d
		}), calm, "the do went to"},

		{"resolution refused", seedShipment(func(next shipmentRules, n event.OrderNo, s shipment.State, in decision.Input) decision.Decision[shipment.State] {
			if r, ok := in.(decision.Requested); ok {
				if _, ok := r.Request.(decision.Resolve); ok && s.Effect.UndoAsked {
					return decision.Decision[shipment.State]{State: s, Verdict: decision.Refused, Why: "seeded fault"}
				}
			}
			return next(n, s, in)
		}), shipmentBad, "a person's request is refused"},

		{"order waits without a deadline", seedOrder(func(next orderRules, n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			d := next(n, s, in)
			d.State.BackBy = time.Time{}
			return d
		}), calm, "without a deadline"},
	}
}

// TestFaultIsFound: every seeded fault is found, and the shortest script that shows it is printed.
func TestFaultIsFound(t *testing.T) {
	skipUnderRace(t)
	for _, f := range faults() {
		t.Run("Fault "+f.name, func(t *testing.T) {
			sys := shipped()
			f.seed(&sys)
			r := Explore(sys, f.sc)
			t.Log(r)
			if !strings.Contains(r.Violation, f.finds) {
				t.Errorf("found %q, want %q", r.Violation, f.finds)
			}
			if len(r.Script) < 2 {
				t.Error("there is no script")
			}
		})
	}
}

// TestFaultDuplicateNotAbsorbed: a charge without a natural key is safe behind the inbox and charges twice without it.
func TestFaultDuplicateNotAbsorbed(t *testing.T) {
	skipUnderRace(t)
	sys := shipped()
	seedPayment(func(next paymentRules, n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
		if _, ok := heard(in).(event.ShipmentScheduled); ok && s.Effect.Phase == decision.Done {
			s.Effect = decision.Effect{}
		}
		return next(n, s, in)
	})(&sys)
	calm := everything("calm")
	if r := Explore(sys, calm); r.Violation != "" {
		t.Errorf("the inbox does not absorb the duplicate: %s", r)
	}
	r := Explore(sys, without(calm, func(sc *Scenario) { sc.NoInbox = true }))
	t.Log(r)
	if !strings.Contains(r.Violation, "planned twice") {
		t.Errorf("found %q, want a second charge", r.Violation)
	}
}

func seedOrder(wrap func(orderRules, event.OrderNo, order.State, decision.Input) decision.Decision[order.State]) func(*System) {
	return func(sys *System) {
		next := sys.Order
		sys.Order = func(n event.OrderNo, s order.State, in decision.Input) decision.Decision[order.State] {
			return wrap(next, n, s, in)
		}
	}
}

func seedStock(wrap func(stockRules, event.OrderNo, stock.State, decision.Input) decision.Decision[stock.State]) func(*System) {
	return func(sys *System) {
		next := sys.Stock
		sys.Stock = func(n event.OrderNo, s stock.State, in decision.Input) decision.Decision[stock.State] {
			return wrap(next, n, s, in)
		}
	}
}

func seedShipment(wrap func(shipmentRules, event.OrderNo, shipment.State, decision.Input) decision.Decision[shipment.State]) func(*System) {
	return func(sys *System) {
		next := sys.Shipment
		sys.Shipment = func(n event.OrderNo, s shipment.State, in decision.Input) decision.Decision[shipment.State] {
			return wrap(next, n, s, in)
		}
	}
}

func seedPayment(wrap func(paymentRules, event.OrderNo, payment.State, decision.Input) decision.Decision[payment.State]) func(*System) {
	return func(sys *System) {
		next := sys.Payment
		sys.Payment = func(n event.OrderNo, s payment.State, in decision.Input) decision.Decision[payment.State] {
			return wrap(next, n, s, in)
		}
	}
}
