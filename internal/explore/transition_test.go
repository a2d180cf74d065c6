package explore

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/event"
)

var update = flag.Bool("update", false, "rewrite the transition tables in testdata")

// TestTransitionTables compares what every participant does in each of its reachable states about each input with the
// committed tables, so that a change of the rules is seen in review as what it does.
func TestTransitionTables(t *testing.T) {
	skipUnderRace(t)
	models := []*model{}
	for _, sc := range []Scenario{
		without(everything("review"), func(sc *Scenario) { sc.Scores = []int{10, 60, 95} }),
		everything("stock", event.StockStep),
		everything("shipment", event.ShipmentStep),
		everything("payment", event.PaymentStep),
	} {
		s := newSearch(shipped(), sc)
		s.run()
		if s.report.Violation != "" {
			t.Fatal(s.report)
		}
		models = append(models, s.m)
	}
	for a := range models[0].actors {
		name := "testdata/" + string(models[0].actors[a].name) + ".md"
		table := transitions(models, a)
		if *update {
			if err := os.WriteFile(name, []byte(table), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(committed), table); diff != "" {
			t.Errorf("%s is not what the rules do; go test ./internal/explore -run Transition -update\n%s", name, diff)
		}
	}
}

// transitions writes the table of one participant: a section for each state, a row for each input that does something.
func transitions(models []*model, a int) string {
	sections := map[string]*section{}
	for _, m := range models {
		for _, l := range m.locals[a].all {
			label := stateLabel(l.state)
			if sections[label] == nil {
				sections[label] = &section{rows: map[string]string{}, ignored: map[string]string{}}
			}
			for _, in := range m.inputs.all {
				if m.concerns(a, in) {
					sections[label].add(m, a, l.state, in)
				}
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWhat it does in each state about each input. Made by `go test ./internal/explore -run Transition -update`.\n"+
		"States in which it does the same share a table. In the column \"then\" stand the new phase and what else came or went.\n", models[0].actors[a].name)
	same := map[string][]string{} // body -> the states that share it
	for label, sec := range sections {
		body := sec.body()
		same[body] = append(same[body], label)
	}
	bodies := map[string]string{}
	for body, labels := range same {
		slices.Sort(labels)
		bodies["\n## "+strings.Join(labels, "\n## ")+"\n\n"] = body
	}
	for _, heads := range sortedKeys(bodies) {
		b.WriteString(heads + bodies[heads])
	}
	return b.String()
}

// concerns reports whether an actor can be told an input.
func (m *model) concerns(a int, in input) bool {
	switch in.kind {
	case delivered:
		return m.hears[a][in.fact]
	case answered:
		return a != orders && (in.op == decision.Look) == (a == fraud)
	case place, cancel, ship, deliver, elapsed:
		return a == orders
	case resolve, retry:
		return a != orders && a != fraud
	}
	return false
}

type section struct {
	rows    map[string]string
	ignored map[string]string // input -> why
}

func (s *section) add(m *model, a int, state string, in input) {
	for _, short := range []bool{false, true} {
		p := m.door(a, state, in, short)
		if short && !p.took {
			return
		}
		label := inputLabel(m, in)
		if p.took {
			label += map[bool]string{false: ", all on the shelf", true: ", not on the shelf"}[short]
		}
		if p.verdict == decision.Ignored || p.verdict == decision.Refused {
			if in.kind == answered {
				label = string(in.op) + " ended" // however it did
			}
			s.ignored[label] = string(p.verdict) + ", " + p.why
			continue
		}
		var does []string
		for _, f := range p.facts {
			does = append(does, "states "+string(f.Fact.Type()))
		}
		for _, i := range p.intents {
			does = append(does, strings.TrimSpace(fmt.Sprintf("calls %s %s %s", i.Op, i.Provider, map[bool]string{true: "again"}[i.Again])))
		}
		if p.gave {
			does = append(does, "gives the hold back")
		}
		s.rows[label] = fmt.Sprintf("| %s | %s | %s | %s | %s |", label, p.verdict,
			change(stateLabel(state), stateLabel(p.state)), strings.Join(does, ", "), p.why)
	}
}

func (s *section) body() string {
	var b strings.Builder
	if len(s.rows) > 0 {
		b.WriteString("| input | verdict | then | does | why |\n|---|---|---|---|---|\n")
		for _, in := range sortedKeys(s.rows) {
			b.WriteString(s.rows[in] + "\n")
		}
		b.WriteByte('\n')
	}
	whys := map[string][]string{}
	for in, why := range s.ignored {
		whys[why] = append(whys[why], in)
	}
	for _, why := range sortedKeys(whys) {
		slices.Sort(whys[why])
		fmt.Fprintf(&b, "- %s: %s\n", why, strings.Join(whys[why], ", "))
	}
	return b.String()
}

// change says how a state became another: its new phase, and what else came or went.
func change(before, after string) string {
	was, is := strings.Split(before, ", "), strings.Split(after, ", ")
	var words []string
	if was[0] != is[0] {
		words = append(words, is[0])
	}
	for _, w := range is[1:] {
		if !slices.Contains(was[1:], w) {
			words = append(words, "+ "+w)
		}
	}
	for _, w := range was[1:] {
		if !slices.Contains(is[1:], w) {
			words = append(words, "- "+w)
		}
	}
	return strings.Join(words, ", ")
}

func inputLabel(m *model, in input) string {
	switch in.kind {
	case delivered:
		f := m.stated.all[in.fact]
		if screened, ok := m.envelopes[in.fact].Fact.(event.OrderScreened); ok {
			return fmt.Sprintf("%s %s", f.kind, screened.Verdict)
		}
		if asked, ok := m.envelopes[in.fact].Fact.(event.OrderCancellationRequested); ok {
			return fmt.Sprintf("%s %s", f.kind, asked.Reason)
		}
		return string(f.kind)
	case answered:
		label := fmt.Sprintf("%s ended %s", in.op, in.outcome.Kind)
		if in.op == decision.Look && in.outcome.Kind == decision.Succeeded {
			label += fmt.Sprintf(", score %d", in.outcome.Score)
		}
		return label
	case resolve:
		return fmt.Sprintf("resolve%s", map[bool]string{true: ", money moved"}[in.moneyMoved])
	}
	return in.kind.String()
}

// stateLabel is a state without what no rule looks at.
func stateLabel(state string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(state), &fields); err != nil {
		panic(err)
	}
	flat := map[string]string{}
	flatten(flat, "", fields)
	first := "new"
	for _, head := range []string{"status", "effect phase", "phase"} {
		if v, ok := flat[head]; ok {
			first = v
			delete(flat, head)
		}
	}
	words := []string{first}
	for _, k := range sortedKeys(flat) {
		if flat[k] == "true" {
			words = append(words, k)
		} else {
			words = append(words, k+" "+flat[k])
		}
	}
	return strings.Join(words, ", ")
}

func flatten(flat map[string]string, under string, fields map[string]any) {
	for k, v := range fields {
		name := strings.TrimSpace(under + " " + strings.ReplaceAll(k, "_", " "))
		switch v := v.(type) {
		case map[string]any:
			flatten(flat, name, v)
		default:
			switch k {
			case "lines", "deadline", "back_by", "customer", "units", "shipping", "currency", "total", "reference", "reason", "by", "score":
			default:
				flat[name] = fmt.Sprint(v)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
