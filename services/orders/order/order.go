package order

import (
	"cmp"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Rules bound the way back.
type Rules struct {
	BackWithin time.Duration `default:"10m" help:"How long an order may take to be undone before it needs attention."`
}

// Defaults are the rules of D4.
func Defaults() Rules { return Rules{BackWithin: 10 * time.Minute} }

// Place is the request that begins an order. Its number was drawn before.
type Place struct{ event.OrderPlaced }

type result = decision.Decision[State]

// Decide is the orders service's whole behaviour.
func (r Rules) Decide(_ event.OrderNo, s State, in decision.Input) result {
	switch in := in.(type) {
	case decision.Requested:
		return r.request(s, in)
	case decision.Delivered:
		if s.Status == Unplaced {
			// PostgreSQL shows a commit in its log before it shows it to other transactions, so a fact can come back that follows from
			// an OrderPlaced which nobody here can see yet. To save a state instead of ignoring the fact is to meet the placing
			// transaction at the order's row, wait for it, and decide anew on what it left.
			return decision.Note(s, "the order is not to be seen yet")
		}
		if s.Status.Ended() {
			return decision.Ignore(s, "the order has ended")
		}
		return r.deliver(s, in)
	case decision.Elapsed:
		return r.elapse(s, in)
	}
	return decision.Ignore(s, "orders makes no calls")
}

func (r Rules) request(s State, in decision.Requested) result {
	if place, ok := in.Request.(Place); ok {
		if s.Status != Unplaced {
			return refuse(s, "the order exists")
		}
		s.Status, s.Deadline = Placed, place.Deadline
		return say(s, "placed", place.OrderPlaced)
	}
	if s.Status == Unplaced {
		return refuse(s, "there is no such order")
	}
	switch req := in.Request.(type) {
	case decision.Cancel:
		return r.cancel(s, req, in.At)
	case decision.Ship:
		return step(s, Confirmed, Shipped, event.OrderShipped{})
	case decision.Deliver:
		return step(s, Shipped, Delivered, event.OrderDelivered{})
	}
	return refuse(s, "the orders service takes no such request")
}

// cancel is allowed until the order is shipped. Once an undo has begun a second one changes nothing.
func (r Rules) cancel(s State, req decision.Cancel, at time.Time) result {
	switch s.Status {
	case Placed, Confirmed:
		s.Status, s.Cause, s.By, s.Reason = Cancelling, Cancelled, req.By, "cancelled by "+string(req.By)
		if req.Why != "" {
			s.Reason += ": " + req.Why
		}
		s.BackBy = at.Add(r.BackWithin)
		return say(s, s.Reason, event.OrderCancellationRequested{Reason: req.By})
	case Cancelling, Cancelled:
		return decision.Ignore(s, "already "+string(s.Status))
	case Compensating:
		return refuse(s, "the order is already being undone: "+s.Reason)
	}
	return refuse(s, "too late: the order is "+string(s.Status))
}

// step moves a status on by request; asking twice changes nothing.
func step(s State, from, to Status, fact event.Fact) result {
	switch s.Status {
	case from:
		s.Status = to
		return say(s, "order "+string(to), fact)
	case to:
		return decision.Ignore(s, "already "+string(to))
	}
	return refuse(s, "the order is "+string(s.Status)+", not "+string(from))
}

func (r Rules) deliver(s State, in decision.Delivered) result {
	switch f := in.Fact.(type) {
	case event.PaymentTaken:
		if s.Status != Placed {
			return decision.Ignore(s, "paid, but the order is "+string(s.Status))
		}
		s.Status = Confirmed
		return say(s, "reserved, booked and paid", event.OrderConfirmed{})
	case event.StockRejected:
		s.close(event.StockStep, event.ShipmentStep, event.PaymentStep)
		return r.back(s, in.OccurredAt, Rejected, f.Reason)
	case event.ShipmentRejected:
		s.close(event.ShipmentStep, event.PaymentStep)
		return r.back(s, in.OccurredAt, Failed, "no carrier: "+f.Reason)
	case event.PaymentDeclined:
		s.close(event.PaymentStep)
		return r.back(s, in.OccurredAt, Failed, "payment refused, no money was taken: "+f.Reason)
	case event.PaymentRefunded:
		s.close(event.PaymentStep)
		return r.back(s, in.OccurredAt, Failed, "payment refunded: "+f.Reason)
	case event.PaymentVoided:
		s.close(event.PaymentStep)
		return r.back(s, in.OccurredAt, Failed, "payment voided: "+f.Reason)
	case event.ShipmentCancelled:
		s.close(event.ShipmentStep)
		return r.consequence(s, in.OccurredAt)
	case event.StockReleased:
		s.close(event.StockStep)
		return r.consequence(s, in.OccurredAt)
	case event.UndoStuck:
		part := s.part(f.Step)
		if part == nil || part.Closed {
			return decision.Ignore(s, "the step is closed")
		}
		part.Stuck = cmp.Or(f.Reason, decision.NoReason)
		return r.back(s, in.OccurredAt, Failed, "needs attention: "+string(f.Step)+": "+f.Reason)
	}
	return decision.Ignore(s, "orders does not react to "+string(in.Fact.Type()))
}

// back notes a negative cause or a closing. The first cause fixes the ending; the order ends when all is closed.
func (r Rules) back(s State, at time.Time, cause Status, reason string) result {
	if s.Cause == Unplaced {
		s.Cause, s.Reason = cause, reason
		s.Status, s.BackBy = Compensating, at.Add(r.BackWithin)
	}
	if !s.allClosed() {
		return decision.Note(s, "waits for the "+string(s.OpenStep())+" to be closed")
	}
	s.Status, s.Overdue = s.Cause, false
	switch s.Status {
	case Rejected:
		return say(s, "no stock, nothing is held", event.OrderRejected{Reason: s.Reason})
	case Cancelled:
		return say(s, "all undone", event.OrderCancelled{Reason: s.By})
	}
	return say(s, "all undone", event.OrderFailed{Reason: s.Reason})
}

// consequence is a closing that has a cause in another topic. The cause may come later; it names the reason.
func (r Rules) consequence(s State, at time.Time) result {
	if s.Cause == Unplaced {
		return decision.Note(s, "closed; its cause is still to come")
	}
	return r.back(s, at, s.Cause, s.Reason)
}

// elapse takes the instant that Due named; any other is of a state that is no more.
func (r Rules) elapse(s State, in decision.Elapsed) result {
	if s.Due().IsZero() || in.At.Before(s.Due()) {
		return decision.Ignore(s, "no such deadline any more")
	}
	if s.Status == Placed {
		s.Status, s.Cause, s.Reason = Compensating, Failed, "timed out"
		s.BackBy = in.At.Add(r.BackWithin)
		return say(s, "timed out", event.OrderCancellationRequested{Reason: event.TimedOut})
	}
	s.Overdue = true
	d := decision.Note(s, "overdue: the "+string(s.OpenStep())+" is "+string(s.OpenStep().Owner())+"'s to close")
	d.Verdict = decision.Applied
	return d
}

func say(s State, why string, f event.Fact) result {
	return result{State: s, Verdict: decision.Applied, Why: why, Facts: []decision.Emission{{Fact: f}}}
}

func refuse(s State, why string) result {
	return result{State: s, Verdict: decision.Refused, Why: why}
}
