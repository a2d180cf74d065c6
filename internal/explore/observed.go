package explore

import (
	"chorus/internal/decision"
	"chorus/internal/event"
)

// Observed is what participants were seen to do. The table of choreography is held against it.
type Observed map[Cause]Effects

// Cause is what a participant was told: exactly one of the three is set.
type Cause struct {
	Who   event.Participant
	On    event.Type  // a fact
	Ended decision.Op // the end of a call
	Asked string      // a request or timer, by its name in the table
}

// Effects is what it was seen to do about it.
type Effects struct {
	States map[event.Type]bool
	Calls  map[decision.Op]bool
}

// Add takes over what another run saw.
func (o Observed) Add(other Observed) {
	for cause, seen := range other {
		mine := o.at(cause)
		for t := range seen.States {
			mine.States[t] = true
		}
		for op := range seen.Calls {
			mine.Calls[op] = true
		}
	}
}

func (o Observed) at(c Cause) Effects {
	e, ok := o[c]
	if !ok {
		e = Effects{States: map[event.Type]bool{}, Calls: map[decision.Op]bool{}}
		o[c] = e
	}
	return e
}

func (o Observed) note(m *model, a int, in input, done passing) {
	c := Cause{Who: m.actors[a].name}
	switch in.kind {
	case delivered:
		c.On = m.envelopes[in.fact].Fact.Type()
	case answered:
		c.Ended = in.op
	case late:
		c.Asked = elapsed.String()
	default:
		c.Asked = in.kind.String()
	}
	e := o.at(c)
	for _, f := range done.facts {
		e.States[f.Fact.Type()] = true
	}
	for _, i := range done.intents {
		e.Calls[i.Op] = true
	}
}
