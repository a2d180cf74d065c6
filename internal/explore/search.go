package explore

import (
	"fmt"
	"strings"
)

// Report is what a run found.
type Report struct {
	Scenario  string
	States    int
	Moves     int
	AtRest    int      // states in which nothing moves by itself
	Violation string   // empty when everything holds
	Script    []string // the shortest way to the violation, one step a line
	Seen      Observed
}

// Explore runs a system through everything that a scenario allows, breadth first, so that the first
// violation has the shortest script. It ends at the first violation.
func Explore(sys System, sc Scenario) Report {
	s := newSearch(sys, sc)
	s.run()
	return s.report
}

type search struct {
	m      *model
	worlds *store
	report Report
}

func newSearch(sys System, sc Scenario) *search {
	m := newModel(sys, sc)
	return &search{m: m, worlds: newStore(), report: Report{Scenario: sc.Name, Seen: m.seen}}
}

func (s *search) run() {
	first, wrong := s.m.start()
	s.worlds.add(first, 0)
	if s.report.Violation = wrong; wrong == "" {
		s.expand()
	}
	s.report.States = s.worlds.count
}

func (s *search) expand() {
	for i := 0; i < s.worlds.count; i++ {
		if limit := s.m.sc.Cap; limit > 0 && s.worlds.count > limit {
			s.report.Violation = fmt.Sprintf("the cap of %d states is hit: nothing is proven", limit)
			return
		}
		from := s.worlds.at(i).world
		var bad world
		badStep := ""
		k := walk{m: s.m, from: from}
		k.yield = func(next world, _, wrong string) {
			s.report.Moves++
			if wrong != "" && badStep == "" {
				bad, badStep = next, wrong
			}
			s.worlds.add(next, i)
		}
		k.all()
		if k.busy == 0 {
			s.report.AtRest++
		}
		if wrong := s.m.judge(from, k.busy); wrong != "" {
			s.report.Violation, s.report.Script = wrong, s.script(i)
			return
		}
		if badStep != "" {
			s.report.Violation = badStep
			s.report.Script = append(s.script(i), s.label(from, bad, badStep))
			return
		}
	}
	s.checkRest()
}

// script lists the steps from the start to a world. Labels are not kept: each step is taken again.
func (s *search) script(i int) []string {
	if i == 0 {
		return []string{"orders: place -> applied; states OrderPlaced"}
	}
	n := s.worlds.at(i)
	from := int(n.parent)
	return append(s.script(from), s.label(s.worlds.at(from).world, n.world, ""))
}

func (s *search) label(from, to world, wrong string) string {
	found := ""
	k := walk{m: s.m, from: from, talk: true}
	k.yield = func(next world, label, bad string) {
		if found == "" && next == to && bad == wrong {
			found = label
		}
	}
	k.all()
	return found
}

// String is the report for people: the script with its steps numbered.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d states, %d moves, %d at rest", r.Scenario, r.States, r.Moves, r.AtRest)
	if r.Violation == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\nviolated: %s", r.Violation)
	for i, line := range r.Script {
		fmt.Fprintf(&b, "\n%3d. %s", i+1, line)
	}
	return b.String()
}

// checkRest proves what the reduction of atRest rests on: an actor of which it is said that it only ignores does
// ignore every fact of every run.
func (s *search) checkRest() {
	for a := range s.m.actors {
		for state := range s.m.restingStates(a) {
			for f, hears := range s.m.hears[a] {
				if !hears {
					continue
				}
				p := s.m.door(a, state, input{kind: delivered, fact: byte(f)}, false)
				if p.state == state && len(p.facts)+len(p.intents) == 0 && p.hold == "" && p.wrong == "" {
					continue
				}
				s.report.Violation = fmt.Sprintf("%s has closed its step for good and reacts to %s", s.m.actors[a].name, s.m.stated.all[f].kind)
				s.restless(a, state, byte(f))
				return
			}
		}
	}
}

// restless finds the first world in which the fact lies before the actor that should be at rest.
func (s *search) restless(a int, state string, f byte) {
	for i := range s.worlds.count {
		w := s.worlds.at(i).world
		owner := s.m.stated.all[f].owner
		if s.m.locals[a].all[w.locals[a]].state == state && strings.IndexByte(s.m.locals[owner].all[w.locals[owner]].log, f) >= 0 {
			k := walk{m: s.m, from: w}
			s.report.Script = append(s.script(i), k.tellTale(a, input{kind: delivered, fact: f}, "", false))
			return
		}
	}
}

func (m *model) restingStates(a int) map[string]bool {
	states := map[string]bool{}
	for i, l := range m.locals[a].all {
		if m.views[a][i].atRest {
			states[l.state] = true
		}
	}
	return states
}
