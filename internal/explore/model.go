package explore

import (
	"fmt"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// model holds the functions, the scenario and everything that was worked out so far. A world has few distinct parts
// and very many combinations of them, so each turn of a part is computed once.
type model struct {
	sys    System
	sc     Scenario
	actors [actorCount]actor
	facts  catalogue

	stated    *pool[stated]
	envelopes []event.Envelope   // by fact
	hears     [actorCount][]bool // whether the actor declares the fact
	clash     []bool             // another fact has the same id

	inputs  *pool[input]
	effects *pool[effects]
	sides   *pool[side]
	locals  [actorCount]*pool[local]

	views     [actorCount][]view
	sideViews []sideView
	exchanges [actorCount]map[uint16][]move
	turns     map[turnKey]outcome
	owed      map[mask]owed
	rules     rules
	seen      Observed
}

// inputKind is what an actor is told.
type inputKind uint8

const (
	delivered inputKind = iota
	answered
	place
	cancel
	ship
	deliver
	elapsed
	late // the order's deadline, told once more: two replicas may tell it
	resolve
	retry
)

// input is one of decision.Input as a value that can be compared.
type input struct {
	kind       inputKind
	fact       byte
	op         decision.Op
	outcome    decision.Outcome
	moneyMoved bool
}

func (k inputKind) String() string {
	return [...]string{"delivered", "answered", "place", "cancel", "ship", "deliver", "deadline", "deadline (told again)", "resolve", "retry"}[k]
}

// outcome is what a turn makes of a local, and of its step's side.
type outcome struct {
	local   uint16
	effects uint16
}

// effects is what a turn asks for outside the actor's own state.
type effects struct {
	plans [2]plan
	took  bool // the shelf was asked, and had everything or not
	short bool
	gave  bool // the hold was given back
	wrong string
	noop  bool
}

// plan is a decision.Intent without its body.
type plan struct {
	op        decision.Op
	again     bool
	provider  string
	reference string
}

func newModel(sys System, sc Scenario) *model {
	m := &model{
		sys: sys, sc: sc, actors: actors(sys), facts: newCatalogue(),
		stated: newPool[stated]("facts"), inputs: newPool[input]("inputs"),
		effects: newPool[effects]("effects"), sides: newPool[side]("sides"),
		turns: map[turnKey]outcome{}, owed: map[mask]owed{}, seen: Observed{},
	}
	m.rules = newRules(m.facts)
	for a := range m.locals {
		m.locals[a] = newPool[local]("locals of " + string(m.actors[a].name))
		m.exchanges[a] = map[uint16][]move{}
	}
	return m
}

// start is the world in which the order has been placed and nobody has heard of it.
func (m *model) start() (world, string) {
	var w world
	for a := range m.locals {
		w.locals[a] = m.local(a, local{state: m.actors[a].zero})
		w.sides[a] = m.side(side{})
	}
	o := m.turn(orders, w.locals[orders], m.inputs.id(input{kind: place}), -1, false)
	w.locals[orders] = o.local
	return w, m.effects.all[o.effects].wrong
}

// tell makes the decision.Input of an input for an actor in a state.
func (m *model) tell(a int, state string, in input) decision.Input {
	request := func(r decision.Request) decision.Input { return decision.Requested{At: epoch, Request: r} }
	step := m.actors[a].step
	switch in.kind {
	case delivered:
		return decision.Delivered{Envelope: m.envelopes[in.fact]}
	case answered:
		return decision.Answered{Step: step, Op: in.op, Outcome: in.outcome}
	case place:
		return request(order.Place{OrderPlaced: placed(m.sc.Gift)})
	case cancel:
		return request(decision.Cancel{By: event.ByCustomer})
	case ship:
		return request(decision.Ship{})
	case deliver:
		return request(decision.Deliver{})
	case elapsed:
		return decision.Elapsed{At: m.actors[a].look(state).due}
	case late:
		return decision.Elapsed{At: placed(m.sc.Gift).Deadline}
	case resolve:
		return request(decision.Resolve{Step: step, Evidence: "reason", MoneyMoved: in.moneyMoved})
	case retry:
		return request(decision.Retry{Step: step})
	}
	panic(fmt.Sprintf("explore: input %d", in.kind))
}

type turnKey struct {
	actor uint8
	topic int8 // that is read, -1 for none
	short bool
	local uint16
	input uint16
}

// turn brings an input through an actor's door. topic is the one that it was read from, -1 when it was not or was
// delivered again; short says what the shelf answers if it is asked.
func (m *model) turn(a int, from, in uint16, topic int, short bool) outcome {
	key := turnKey{uint8(a), int8(topic), short, from, in}
	if o, ok := m.turns[key]; ok {
		return o
	}
	l, t, fx := m.locals[a].all[from], m.inputs.all[in], effects{}
	was := l
	done := m.door(a, l.state, t, short)
	fx.took, fx.short, fx.gave, fx.wrong = done.took, done.took && short, done.gave, done.wrong
	l.state = done.state
	for _, e := range done.facts {
		l.log += string([]byte{m.fact(a, e.Fact, e.Generation, m.sys.ID(m.actors[a].name, e))})
	}
	for i, intent := range done.intents {
		if i == len(fx.plans) {
			fx.wrong = "it plans more than two calls at once"
			break
		}
		fx.plans[i] = plan{intent.Op, intent.Again, intent.Provider, intent.Reference}
	}
	if a == orders {
		l.ghost = l.ghost.follow(m, t, done)
		if fx.wrong == "" {
			fx.wrong = l.ghost.wrong(m.actors[a].look(was.state).status, m.actors[a].look(l.state).status, done.facts)
		}
	}
	fx.noop = l == was && fx == effects{}
	if topic >= 0 {
		l.read[topic]++
	}
	m.seen.note(m, a, t, done)
	o := outcome{m.local(a, l), 0}
	if v := m.views[a][o.local]; fx.wrong == "" {
		fx.wrong = v.wrong
	}
	o.effects = m.effects.id(fx)
	m.turns[key] = o
	return o
}

// passing is one passage through the door: a decision, and a second one when the shelf was asked.
type passing struct {
	turn
	took, gave bool
}

func (m *model) door(a int, state string, in input, short bool) passing {
	p := passing{turn: m.actors[a].decide(state, m.tell(a, state, in))}
	p.gave = p.hold == decision.GiveBack
	if p.hold != decision.Take {
		return p
	}
	p.took = true
	weighed := decision.Weighed{Held: !short}
	if short {
		weighed.Short = "A"
	}
	then := m.actors[a].decide(p.state, weighed)
	p.state, p.why = then.state, p.why+"; "+then.why
	p.facts, p.intents = append(p.facts, then.facts...), append(p.intents, then.intents...)
	p.gave = then.hold == decision.GiveBack
	if p.wrong == "" {
		p.wrong = then.wrong
	}
	return p
}
