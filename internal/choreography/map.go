package choreography

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Map draws the choreography from the table: as text or as a mermaid flowchart.
func Map(format string) (string, error) {
	switch format {
	case "text", "":
		return Text(), nil
	case "mermaid":
		return Mermaid(), nil
	}
	return "", fmt.Errorf("map format %q: want text or mermaid", format)
}

// Text lists who reacts to what, and who owes what to whom.
func Text() string {
	var b strings.Builder
	for _, who := range Participants() {
		fmt.Fprintf(&b, "%s%s\n", who, reads(who))
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, r := range reactions {
			if r.Who != who {
				continue
			}
			on := string(r.On)
			if on == "" {
				on = "(" + r.Asked + ")"
			}
			fmt.Fprintf(w, "  %s\t%s\n", on, strings.Join(r.does(), "; "))
		}
		w.Flush()
		b.WriteByte('\n')
	}
	b.WriteString("who owes what, and for how long it may take\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, d := range Debts(DefaultDurations()) {
		fmt.Fprintf(w, "  %s\tafter %s\towes %s\t%s\n", d.Owner, names(d.After, " and "), names(d.Owes, " or "), d.Allowed)
	}
	w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// reads names the topics of a participant, for people.
func reads(who event.Participant) string {
	var topics []string
	for _, owner := range Sources(who) {
		topics = append(topics, owner.Topic())
	}
	if len(topics) == 0 {
		return ""
	}
	return " reads " + strings.Join(topics, ", ")
}

func (r Reaction) does() []string {
	var does []string
	for _, c := range r.Calls {
		does = append(does, fmt.Sprintf("calls %s %s", c.Op, c.Step))
	}
	if len(r.States) > 0 {
		does = append(does, "states "+names(r.States, ", "))
	}
	if r.Note != "" {
		does = append(does, r.Note)
	}
	if len(does) == 0 {
		does = append(does, "tells the customer")
	}
	return does
}

func names(types []event.Type, sep string) string {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = string(t)
	}
	return strings.Join(words, sep)
}

// outside names the providers of a step, for the picture.
func outside(step event.Step) string {
	return map[event.Step]string{
		event.StockStep: "warehouse", event.ScreeningStep: "risk bureau",
		event.ShipmentStep: "carriers", event.PaymentStep: "payment processors", event.NotificationStep: "messengers",
	}[step]
}

// Mermaid draws one arrow for each pair of participants, with the facts that pass, and dotted ones to the providers.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n    customer([customer]) -->|place, cancel| orders\n")
	for _, from := range Participants() {
		for _, to := range Participants() {
			var facts []string
			for _, f := range event.Catalogue() {
				if from != to && Hears(to, from, f.Type()) {
					facts = append(facts, string(f.Type()))
				}
			}
			if len(facts) > 0 {
				fmt.Fprintf(&b, "    %s -->|%s| %s\n", from, strings.Join(facts, "<br/>"), to)
			}
		}
	}
	for _, who := range Participants() {
		for _, step := range []event.Step{event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep, event.NotificationStep} {
			if ops := opsOf(who, step); len(ops) > 0 {
				fmt.Fprintf(&b, "    %s -.->|%s| %s[(%s)]\n", who, strings.Join(ops, ", "), step, outside(step))
			}
		}
	}
	return b.String()
}

func opsOf(who event.Participant, step event.Step) []string {
	var ops []string
	for _, op := range []decision.Op{decision.Do, decision.Undo, decision.Look, decision.Tell} {
		if slices.ContainsFunc(reactions, func(r Reaction) bool {
			return r.Who == who && slices.Contains(r.Calls, Call{step, op})
		}) {
			ops = append(ops, string(op))
		}
	}
	return ops
}
