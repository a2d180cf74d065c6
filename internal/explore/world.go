package explore

import (
	"encoding/json"
	"fmt"

	"chorus/internal/choreography"
	"chorus/internal/event"
)

// world is everything about one order at one moment: for each participant the number of its local and of the
// side of its step (orders has none).
type world struct {
	locals [actorCount]uint16
	sides  [actorCount]uint16
}

// local is what one participant has committed: its state, its topic, and how far it has read the others'.
type local struct {
	state string
	log   string            // its topic: one byte a fact, the fact's number
	read  [actorCount]uint8 // of each topic, how many of the facts that it declares
	ghost ghost             // of orders: what the specification makes of the same inputs
}

// stated is a fact in a topic.
type stated struct {
	owner      int
	kind       event.Type // StuckKey for UndoStuck
	body       string     // JSON
	generation int
	id         event.ID
}

// mask is a set of facts.
type mask uint32

func (m mask) has(n mask) bool { return m&n != 0 }

// catalogue numbers the facts for masks: those of event.Catalogue, and UndoStuck once for each step.
type catalogue struct {
	kinds []event.Type
	bits  map[event.Type]mask
}

func newCatalogue() catalogue {
	c := catalogue{bits: map[event.Type]mask{}}
	add := func(t event.Type) {
		c.bits[t] = 1 << len(c.kinds)
		c.kinds = append(c.kinds, t)
	}
	for _, f := range event.Catalogue() {
		if f.Type() != stuckType {
			add(f.Type())
		}
	}
	for _, step := range effectSteps {
		add(choreography.StuckKey(step))
	}
	return c
}

// of returns the set of these facts; of a kind that is not in the catalogue it panics, since a rule would check nothing.
func (c catalogue) of(kinds ...event.Type) mask {
	var m mask
	for _, k := range kinds {
		bit, ok := c.bits[k]
		if !ok {
			panic("explore: no such fact: " + string(k))
		}
		m |= bit
	}
	return m
}

const stuckType = event.Type("UndoStuck")

// effectSteps are the steps with an effect.
var effectSteps = []event.Step{event.StockStep, event.ShipmentStep, event.PaymentStep}

func kindOf(f event.Fact) event.Type {
	if u, ok := f.(event.UndoStuck); ok {
		return choreography.StuckKey(u.Step)
	}
	return f.Type()
}

// fact numbers a fact that actor a states.
func (m *model) fact(a int, f event.Fact, generation int, id event.ID) byte {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("explore: %s: %v", f.Type(), err))
	}
	n := m.stated.id(stated{owner: a, kind: kindOf(f), body: string(raw), generation: generation, id: id})
	if n > 0xff {
		panic("explore: more than 256 different facts")
	}
	if int(n) == len(m.envelopes) {
		m.envelopes = append(m.envelopes, event.Envelope{
			ID: id, Order: orderNo, Owner: m.actors[a].name, OccurredAt: epoch, Fact: f,
		})
		for other := range m.hears {
			hears := other != a && choreography.Hears(m.actors[other].name, m.actors[a].name, f.Type())
			m.hears[other] = append(m.hears[other], hears)
		}
		clash := false
		for i, other := range m.stated.all[:n] {
			if other.id == id {
				clash, m.clash[i] = true, true
			}
		}
		m.clash = append(m.clash, clash)
	}
	return byte(n)
}

// local numbers a local and works out its view.
func (m *model) local(a int, l local) uint16 {
	v := m.look(a, l)
	if v.atRest {
		// It only ignores from here on (checkRest proves it), so what it has read makes no difference.
		l.read = [actorCount]uint8{}
	}
	id := m.locals[a].id(l)
	if int(id) == len(m.views[a]) {
		m.views[a] = append(m.views[a], v)
	}
	return id
}

// side numbers a side and works out its view.
func (m *model) side(s side) uint16 {
	id := m.sides.id(s)
	if int(id) == len(m.sideViews) {
		m.sideViews = append(m.sideViews, viewSide(s))
	}
	return id
}

// unread returns the first fact of topic t that actor a declares and has not read.
func (m *model) unread(w world, a, t int) (fact byte, ok bool) {
	skip := m.locals[a].all[w.locals[a]].read[t]
	log := m.locals[t].all[w.locals[t]].log
	for i := 0; i < len(log); i++ {
		if !m.hears[a][log[i]] {
			continue
		}
		if skip == 0 {
			return log[i], true
		}
		skip--
	}
	return 0, false
}

// applied lists the facts of topic t that actor a has read.
func (m *model) applied(w world, a, t int) []byte {
	n := int(m.locals[a].all[w.locals[a]].read[t])
	var facts []byte
	log := m.locals[t].all[w.locals[t]].log
	for i := 0; i < len(log) && len(facts) < n; i++ {
		if m.hears[a][log[i]] {
			facts = append(facts, log[i])
		}
	}
	return facts
}
