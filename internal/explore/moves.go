package explore

import (
	"fmt"
	"strings"

	"chorus/internal/decision"
)

// move is an exchange of a side, numbered.
type move struct {
	to    uint16
	label string
	wrong string
}

// walk lists what may happen next in one world.
type walk struct {
	m     *model
	from  world
	busy  uint8                       // actors with something before them
	yield func(world, string, string) // the next world, its label when talk is set, and what is wrong with the step
	talk  bool
}

// all calls yield for everything that may happen.
func (k *walk) all() {
	for a := 0; a < actorCount; a++ {
		k.deliveries(a)
		if a != orders {
			k.outside(a)
			k.people(a)
		}
	}
	k.customer()
}

func (k *walk) deliveries(a int) {
	m, v := k.m, k.m.views[a][k.from.locals[a]]
	if v.atRest {
		return
	}
	for t := 0; t < actorCount; t++ {
		if m.sc.NoInbox {
			for _, f := range m.applied(k.from, a, t) {
				k.take(a, input{kind: delivered, fact: f}, -1, "again: ")
			}
		}
		f, ok := m.unread(k.from, a, t)
		if !ok {
			continue
		}
		k.busy |= 1 << a
		if m.clash[f] && k.absorbed(a, f) {
			next, l := k.from, m.locals[a].all[k.from.locals[a]]
			l.read[t]++
			next.locals[a] = m.local(a, l)
			k.yield(next, fmt.Sprintf("%s absorbs %s: its id is in the inbox", m.actors[a].name, m.stated.all[f].kind), "")
			continue
		}
		k.take(a, input{kind: delivered, fact: f}, t, "")
	}
}

// absorbed reports whether a fact with the same id has been applied. Redelivery of one and the same fact
// is absorbed by this rule too, so that with the inbox on it leads from a world to itself.
func (k *walk) absorbed(a int, f byte) bool {
	if k.m.sc.NoInbox {
		return false
	}
	for t := 0; t < actorCount; t++ {
		for _, other := range k.m.applied(k.from, a, t) {
			if k.m.stated.all[other].id == k.m.stated.all[f].id {
				return true
			}
		}
	}
	return false
}

// outside lists the exchanges of an actor's calls, and their ends going through its door.
func (k *walk) outside(a int) {
	m, id := k.m, k.from.sides[a]
	moves, ok := m.exchanges[a][id]
	if !ok {
		moves = m.exchange(a, id)
		m.exchanges[a][id] = moves
	}
	v := m.sideViews[id]
	if v.exchange || v.answer {
		k.busy |= 1 << a
	}
	for _, mv := range moves {
		next := k.from
		next.sides[a] = mv.to
		k.yield(next, mv.label, mv.wrong)
	}
	if !v.answer {
		return
	}
	s := m.sides.all[id]
	if l := s.do; l.planned && !l.told && l.call.Phase == decision.Over {
		s.do.tell()
		k.answer(a, s, l.call)
	}
	s = m.sides.all[id]
	if l := s.undo; l.planned && !l.told && l.call.Phase == decision.Over {
		s.undo.tell()
		k.answer(a, s, l.call)
	}
}

func (m *model) exchange(a int, id uint16) []move {
	x := exchanger{sys: m.sys, sc: m.sc, step: m.actors[a].step, faulty: m.sc.faulty(m.actors[a].step)}
	var moves []move
	for _, mv := range x.list(m.sides.all[id]) {
		moves = append(moves, move{to: m.side(mv.to), label: mv.label, wrong: mv.wrong})
	}
	return moves
}

func (k *walk) answer(a int, told side, c decision.Call) {
	from := k.from
	k.from.sides[a] = k.m.side(told)
	k.take(a, input{kind: answered, op: c.Op, outcome: c.Outcome}, -1, "")
	k.from = from
}

// people act on a stuck step: they put the provider right and say so, or have the call tried again.
func (k *walk) people(a int) {
	m := k.m
	v := m.views[a][k.from.locals[a]]
	if !m.sc.Person || (v.phase != decision.StuckDoing && v.phase != decision.StuckUndoing) {
		return
	}
	k.must(a, input{kind: retry}, noButton)
	from, id := k.from, k.from.sides[a]
	s := m.sides.all[id]
	moved := s.ledger.applied > 0
	s.ledger.byHand()
	s.ledger.tidy()
	k.from.sides[a] = m.side(s)
	k.must(a, input{kind: resolve, moneyMoved: moved}, noButton)
	k.from = from
}

const noButton = "a step is stuck and a person's request is refused"

// must takes an input that may not be ignored.
func (k *walk) must(a int, in input, wrong string) {
	o := k.m.turn(a, k.from.locals[a], k.m.inputs.id(in), -1, false)
	if !k.m.effects.all[o.effects].noop {
		k.take(a, in, -1, "")
		return
	}
	label := ""
	if k.talk {
		label = k.tellTale(a, in, "", false)
	}
	k.yield(k.from, label, wrong)
}

// customer lists what may be asked of orders, and its timers.
func (k *walk) customer() {
	sc := k.m.sc
	if sc.Cancel {
		k.take(orders, input{kind: cancel}, -1, "")
	}
	if sc.Ship {
		k.take(orders, input{kind: ship}, -1, "")
		k.take(orders, input{kind: deliver}, -1, "")
	}
	if !sc.Timers {
		return
	}
	k.take(orders, input{kind: late}, -1, "")
	if due := k.m.views[orders][k.from.locals[orders]].due; !due.IsZero() {
		k.must(orders, input{kind: elapsed}, "a timer has come and nothing comes of it")
	}
}

// take brings an input through the door of an actor, with each answer that the shelf may give.
func (k *walk) take(a int, in input, topic int, how string) {
	id := k.m.inputs.id(in)
	o := k.m.turn(a, k.from.locals[a], id, topic, false)
	k.settle(a, in, o, how, false)
	if k.m.effects.all[o.effects].took && k.m.sc.Short {
		k.settle(a, in, k.m.turn(a, k.from.locals[a], id, topic, true), how, true)
	}
}

// settle carries out what a turn asks for, as the door does in the same transaction.
func (k *walk) settle(a int, in input, o outcome, how string, short bool) {
	m, next, fx := k.m, k.from, k.m.effects.all[o.effects]
	wrong := fx.wrong
	next.locals[a] = o.local
	if fx.took || fx.gave || fx.plans[0].op != "" {
		s := m.sides.all[next.sides[a]]
		s.held = (s.held || fx.took && !fx.short) && !fx.gave
		for _, p := range fx.plans {
			if p.op == "" || wrong != "" {
				continue
			}
			s, wrong = s.plan(m.sys, decision.Intent{
				Step: m.actors[a].step, Op: p.op, Again: p.again, Provider: p.provider, Reference: p.reference,
			})
		}
		next.sides[a] = m.side(s)
	}
	label := ""
	if k.talk {
		label = k.tellTale(a, in, how, short)
	}
	k.yield(next, label, wrong)
}

// tellTale is one line of a script: who took what, what became of it and why.
func (k *walk) tellTale(a int, in input, how string, short bool) string {
	m := k.m
	done := m.door(a, m.locals[a].all[k.from.locals[a]].state, in, short)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", m.actors[a].name, how)
	switch in.kind {
	case delivered:
		f := m.stated.all[in.fact]
		fmt.Fprintf(&b, "reads %s of %s", f.kind, m.actors[f.owner].name)
	case answered:
		fmt.Fprintf(&b, "its %s ended %s", in.op, in.outcome.Kind)
	default:
		fmt.Fprintf(&b, "%s", in.kind)
	}
	fmt.Fprintf(&b, " -> %s (%s)", done.verdict, done.why)
	for _, e := range done.facts {
		fmt.Fprintf(&b, "; states %s", kindOf(e.Fact))
	}
	for _, i := range done.intents {
		fmt.Fprintf(&b, "; plans %s %s", i.Op, i.Step)
	}
	return b.String()
}
