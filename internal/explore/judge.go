package explore

import (
	"fmt"
	"slices"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// view is what the judge knows of a local.
type view struct {
	facets
	stated mask
	wrong  string // the log contradicts itself
}

// sideView is what the judge knows of a side.
type sideView struct {
	exchange bool // a call has its next exchange before it
	answer   bool // a call's end has not been told
	stands   bool
	undone   bool // it stood and does not any more
	held     bool
	applied  bool
}

func viewSide(s side) sideView {
	v := sideView{
		stands: s.ledger.standing() > 0, held: s.held, applied: s.ledger.applied > 0,
		undone: s.ledger.standing() == 0 && s.ledger.takenBack > 0,
	}
	for _, l := range []leg{s.do, s.undo} {
		if l.planned && l.call.Phase != decision.Over {
			v.exchange = true
		} else if l.planned && !l.told {
			v.answer = true
		}
	}
	return v
}

// rules are the sets of facts that the properties speak of.
type rules struct {
	shipped, back, ended, cancel mask
	forward, answers, stuck      [actorCount]mask
	triggers                     [actorCount]mask // of the undo of the actor's step
}

func newRules(c catalogue) rules {
	r := rules{
		shipped: c.of("OrderShipped", "OrderDelivered"),
		back:    c.of("OrderCancellationRequested", "OrderRejected", "OrderFailed", "OrderCancelled"),
		ended:   c.of("OrderRejected", "OrderFailed", "OrderCancelled"),
		cancel:  c.of("OrderCancellationRequested"),
	}
	r.forward = [actorCount]mask{
		inventory: c.of("StockReserved"), shipping: c.of("ShipmentScheduled"), billing: c.of("PaymentTaken"),
	}
	r.answers = [actorCount]mask{
		inventory: c.of("StockRejected", "StockReleased"),
		shipping:  c.of("ShipmentRejected", "ShipmentCancelled"),
		billing:   c.of("PaymentDeclined", "PaymentRefunded", "PaymentVoided"),
	}
	for a, step := range map[int]event.Step{inventory: event.StockStep, shipping: event.ShipmentStep, billing: event.PaymentStep} {
		r.stuck[a] = c.of(choreography.StuckKey(step))
	}
	r.triggers = [actorCount]mask{
		inventory: r.answers[shipping],
		shipping:  r.answers[billing] | r.stuck[billing],
		billing:   r.cancel,
	}
	return r
}

// look judges one actor's local by itself.
func (m *model) look(a int, l local) view {
	v := view{facets: m.actors[a].look(l.state)}
	for i := 0; i < len(l.log); i++ {
		f := m.stated.all[l.log[i]]
		bit := m.facts.of(f.kind)
		for j := 0; j < i; j++ {
			if m.stated.all[l.log[j]].id == f.id {
				v.wrong = fmt.Sprintf("%s and %s have one id", m.stated.all[l.log[j]].kind, f.kind)
			}
		}
		switch {
		case v.wrong != "":
		case v.stated.has(bit &^ m.rules.stuck[a]):
			v.wrong = fmt.Sprintf("%s is stated twice", f.kind)
		case v.stated.has(m.rules.answers[a]):
			v.wrong = fmt.Sprintf("%s follows the step's closing fact: an undo is answered exactly once", f.kind)
		case m.rules.forward[a].has(bit) && v.stated.has(m.rules.stuck[a]):
			v.wrong = fmt.Sprintf("%s follows UndoStuck", f.kind)
		}
		v.stated |= bit
	}
	if v.wrong == "" && v.stated.has(m.rules.shipped) && v.stated.has(m.rules.back) {
		v.wrong = "the order is shipped and taken back"
	}
	return v
}

// owed is what choreography says about a set of facts.
type owed struct {
	owners  uint8 // one bit an actor, stuck steps apart
	persons uint8
}

func (m *model) owes(known mask) owed {
	if o, ok := m.owed[known]; ok {
		return o
	}
	facts := choreography.Known{}
	for i, kind := range m.facts.kinds {
		if known.has(1 << i) {
			facts[kind] = epoch
		}
	}
	var o owed
	for _, wait := range choreography.Waits(facts, choreography.DefaultDurations()) {
		bit := uint8(1) << slices.IndexFunc(m.actors[:], func(a actor) bool { return a.name == wait.Owner })
		if !wait.Until.After(wait.Since) || wait.Since != epoch {
			panic("explore: a wait without a deadline")
		}
		if wait.Person {
			o.persons |= bit
		} else {
			o.owners |= bit
		}
	}
	m.owed[known] = o
	return o
}

// judge checks what must hold in every world (always) and in those where nothing moves by itself (at rest). busy has one
// bit for each actor that has something before it: an unread fact, an exchange, an outcome.
func (m *model) judge(w world, busy uint8) string {
	var v [actorCount]view
	var s [actorCount]sideView
	var known mask
	for a := range v {
		v[a], s[a] = m.views[a][w.locals[a]], m.sideViews[w.sides[a]]
		known |= v[a].stated
	}
	if wrong := m.always(v, s); wrong != "" {
		return wrong
	}
	if v[orders].timed && v[orders].due.IsZero() {
		return "the order waits without a deadline"
	}
	if wrong := m.owner(v[orders].status, m.owes(known), busy); wrong != "" {
		return wrong
	}
	if busy == 0 {
		return m.atRest(v, s, known)
	}
	return ""
}

// always is safety: G8 of ended orders, G9.
func (m *model) always(v [actorCount]view, s [actorCount]sideView) string {
	switch v[orders].status {
	case order.Confirmed, order.Shipped, order.Delivered:
		switch {
		case !s[inventory].stands || !s[inventory].held:
			return "the order is " + string(v[orders].status) + " and its stock is not held"
		case !s[shipping].stands:
			return "the order is " + string(v[orders].status) + " and nothing is booked"
		case !s[billing].stands && !m.sc.Gift:
			return "the order is " + string(v[orders].status) + " and was not paid"
		}
	case order.Rejected, order.Failed, order.Cancelled:
		for a, side := range s {
			if side.stands || side.held {
				return fmt.Sprintf("the order has ended %s and %s still has its effect", v[orders].status, m.actors[a].name)
			}
		}
	}
	for a := range v {
		if v[a].phase == decision.Closed && (s[a].stands || s[a].held) {
			return fmt.Sprintf("%s has closed its step and the effect stands", m.actors[a].name)
		}
	}
	switch {
	case s[shipping].undone && s[billing].stands && !v[billing].stated.has(m.rules.stuck[billing]):
		return "the shipment is undone before the payment"
	case (s[inventory].undone || v[inventory].phase == decision.Closed) && s[shipping].stands:
		return "the stock is given back before the shipment is undone"
	}
	return ""
}

// owner is G10: while an order is under way somebody is named who owes the next fact; when one participant
// alone has anything to do, it is that one.
func (m *model) owner(status order.Status, o owed, busy uint8) string {
	if status.Ended() || status == order.Shipped {
		if o != (owed{}) {
			return "the order has ended and somebody is still named as owing a fact"
		}
		return ""
	}
	if status == order.Confirmed {
		if o != (owed{}) {
			return "the order is confirmed and somebody is still named as owing a fact"
		}
		return ""
	}
	if o == (owed{}) {
		return "the order is under way and nobody is named as owing a fact"
	}
	alone := busy != 0 && busy&(busy-1) == 0
	if alone && o.owners&busy == 0 && o.persons == 0 {
		return "one participant alone has something to do and another one is named as owing a fact"
	}
	return ""
}

// atRest is G8 where nothing moves by itself.
func (m *model) atRest(v [actorCount]view, s [actorCount]sideView, known mask) string {
	status, o := v[orders].status, m.owes(known)
	for a := inventory; a < actorCount; a++ {
		isStuck := v[a].phase == decision.StuckDoing || v[a].phase == decision.StuckUndoing
		if isStuck != slices.Contains(v[orders].stuck, m.actors[a].step) {
			return fmt.Sprintf("%s is stuck: %v; orders shows it: %v", m.actors[a].name, isStuck, !isStuck)
		}
		if isStuck != (o.persons&(1<<a) != 0) {
			return fmt.Sprintf("%s is stuck: %v; a person is named: %v", m.actors[a].name, isStuck, !isStuck)
		}
		if !isStuck && known.has(m.rules.triggers[a]) && !v[a].stated.has(m.rules.answers[a]) {
			return fmt.Sprintf("%s was to undo its step and has not answered", m.actors[a].name)
		}
	}
	if o.owners != 0 {
		return "nothing moves any more and somebody is named as owing a fact"
	}
	switch status {
	case order.Placed, order.Cancelling, order.Compensating:
		if len(v[orders].stuck) == 0 {
			return "the order is " + string(status) + " for good and nobody moves it"
		}
	}
	return ""
}
