package choreography_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
)

var update = flag.Bool("update", false, "rewrite docs/map.md")

const mapFile = "../../docs/map.md"

func document() string {
	return "# Who reacts to what\n\n" +
		"Made from the table in `internal/choreography` by `go test ./internal/choreography -update`; `chorus map` prints the same.\n" +
		"Arrows are facts, dotted arrows are calls to the outside. Nobody tells anybody what to do.\n\n" +
		"```mermaid\n" + choreography.Mermaid() + "```\n\n```text\n" + choreography.Text() + "```\n"
}

func TestMapIsCurrent(t *testing.T) {
	if *update {
		if err := os.WriteFile(mapFile, []byte(document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(mapFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(), string(committed)); diff != "" {
		t.Errorf("docs/map.md is not what the table says; go test ./internal/choreography -update\n%s", diff)
	}
}

func TestMapFormats(t *testing.T) {
	for format, want := range map[string]string{"text": "orders reads", "": "orders reads", "mermaid": "flowchart LR"} {
		if m, err := choreography.Map(format); err != nil || !strings.HasPrefix(m, want) {
			t.Errorf("Map(%q) = %.20q, %v; want %q first", format, m, err, want)
		}
	}
	if _, err := choreography.Map("dot"); err == nil {
		t.Error("Map(dot): want an error")
	}
}

func TestLintOfTheTable(t *testing.T) {
	for _, fault := range choreography.Lint(choreography.Table(), choreography.Debts(choreography.DefaultDurations())) {
		t.Error(fault)
	}
}

// TestLintFindsFaults: a lint that finds none is broken.
func TestLintFindsFaults(t *testing.T) {
	drop := func(match func(choreography.Reaction) bool) []choreography.Reaction {
		return slices.DeleteFunc(choreography.Table(), match)
	}
	edit := func(change func(*choreography.Reaction)) []choreography.Reaction {
		table := choreography.Table()
		for i := range table {
			change(&table[i])
		}
		return table
	}
	debts := choreography.Debts(choreography.DefaultDurations())
	editDebt := func(change func(*choreography.Debt)) []choreography.Debt {
		d := slices.Clone(debts)
		change(&d[0])
		return d
	}
	for _, c := range []struct {
		name  string
		table []choreography.Reaction
		debts []choreography.Debt
		want  string
	}{
		{"orphan fact", drop(func(r choreography.Reaction) bool { return slices.Contains(r.States, "OrderScreened") }), debts, "OrderScreened is stated by nobody"},
		{"fact that nobody hears", drop(func(r choreography.Reaction) bool { return r.On == "OrderScreened" }), debts, "OrderScreened is heard by nobody"},
		{"unknown fact", edit(func(r *choreography.Reaction) {
			if r.On == "OrderScreened" {
				r.On = "OrderScreeened"
			}
		}), debts, "in no catalogue"},
		{"step without undo", edit(func(r *choreography.Reaction) {
			r.Calls = slices.DeleteFunc(slices.Clone(r.Calls), func(c choreography.Call) bool {
				return c == choreography.Call{Step: event.ShipmentStep, Op: decision.Undo}
			})
		}), debts, "the shipment has no undo"},
		{"step without a button", drop(func(r choreography.Reaction) bool { return r.Asked == "resolve" && r.Who == event.Billing }), debts, "the payment has no button"},
		{"call of another's step", edit(func(r *choreography.Reaction) {
			if r.Who == event.Fraud {
				r.Who = event.Shipping
			}
		}), debts, "which is fraud's"},
		{"wait without a deadline", choreography.Table(), choreography.Debts(choreography.Durations{Call: 1, Undo: 1}), "has no deadline"},
		{"wait without an owner", choreography.Table(), editDebt(func(d *choreography.Debt) { d.Owner = "" }), "no owner"},
		{"wait that never begins", choreography.Table(), editDebt(func(d *choreography.Debt) { d.After = nil }), "no beginning"},
		{"step that nobody owes", choreography.Table(), slices.DeleteFunc(slices.Clone(debts), func(d choreography.Debt) bool { return d.Step == event.ScreeningStep }), "nobody owes the screening"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := choreography.Lint(c.table, c.debts)
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func TestSources(t *testing.T) {
	for who, want := range map[event.Participant][]event.Participant{
		event.Orders:               {event.Billing, event.Inventory, event.Shipping},
		event.Inventory:            {event.Orders, event.Shipping},
		event.Fraud:                {event.Orders},
		event.Shipping:             {event.Billing, event.Inventory, event.Orders},
		event.Billing:              {event.Fraud, event.Inventory, event.Orders, event.Shipping},
		choreography.Notifications: {event.Orders},
	} {
		if diff := cmp.Diff(want, choreography.Sources(who)); diff != "" {
			t.Errorf("%s reads (-want +got):\n%s", who, diff)
		}
	}
}

func TestStatedByAndHears(t *testing.T) {
	if got := choreography.StatedBy("UndoStuck", event.Orders); !cmp.Equal(got, []event.Participant{event.Inventory, event.Shipping, event.Billing}) {
		t.Errorf("orders meets UndoStuck of %v", got)
	}
	if got := choreography.StatedBy("UndoStuck", event.Shipping); !cmp.Equal(got, []event.Participant{event.Billing}) {
		t.Errorf("shipping meets UndoStuck of %v", got)
	}
	for _, c := range []struct {
		who, owner event.Participant
		fact       event.Type
		want       bool
	}{
		{event.Inventory, event.Orders, "OrderPlaced", true},
		{event.Inventory, event.Orders, "OrderCancellationRequested", false},
		{event.Billing, event.Orders, "OrderCancellationRequested", true},
		{event.Shipping, event.Billing, "UndoStuck", true},
		{event.Shipping, event.Inventory, "UndoStuck", false},
		{event.Fraud, event.Inventory, "StockReserved", false},
		{choreography.Notifications, event.Orders, "OrderShipped", true},
	} {
		if got := choreography.Hears(c.who, c.owner, c.fact); got != c.want {
			t.Errorf("Hears(%s, %s, %s) = %v", c.who, c.owner, c.fact, got)
		}
		if c.want && !choreography.Listens(c.who, c.fact) {
			t.Errorf("%s hears %s and does not listen to it", c.who, c.fact)
		}
	}
}

// TestWaits: who is waited for, for what, since when, until when (G10).
func TestWaits(t *testing.T) {
	d := choreography.DefaultDurations()
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type owner struct {
		Owner  event.Participant
		Step   event.Step
		Person bool
	}
	for _, c := range []struct {
		name  string
		facts []event.Fact // a second apart
		want  []owner
		since int // of the first wait: which fact
		until time.Duration
	}{
		{"nothing known", nil, nil, 0, 0},
		{"placed", []event.Fact{event.OrderPlaced{}}, []owner{{event.Inventory, event.StockStep, false}, {event.Fraud, event.ScreeningStep, false}}, 0, d.Call},
		{
			"reserved, not screened",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}},
			[]owner{{event.Fraud, event.ScreeningStep, false}, {event.Shipping, event.ShipmentStep, false}}, 0, d.Call,
		},
		{
			"booked and screened: the later fact counts",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.ShipmentScheduled{}},
			[]owner{{event.Billing, event.PaymentStep, false}}, 3, d.Call,
		},
		{
			"paid",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.ShipmentScheduled{}, event.PaymentTaken{}},
			[]owner{{event.Orders, "", false}}, 4, d.Fact,
		},
		{
			"confirmed rests",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.ShipmentScheduled{}, event.PaymentTaken{}, event.OrderConfirmed{}},
			nil, 0, 0,
		},
		{
			"cancelled while booking: billing answers first, shipping still owes its booking",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.OrderCancellationRequested{}},
			[]owner{{event.Shipping, event.ShipmentStep, false}, {event.Billing, event.PaymentStep, false}}, 1, d.Call,
		},
		{
			"declined",
			[]event.Fact{event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.ShipmentScheduled{}, event.PaymentDeclined{}},
			[]owner{{event.Shipping, event.ShipmentStep, false}}, 4, d.Undo,
		},
		{
			"stuck payment: a person, and shipping goes on",
			[]event.Fact{
				event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.ShipmentScheduled{},
				event.UndoStuck{Step: event.PaymentStep},
			},
			[]owner{{event.Billing, event.PaymentStep, true}, {event.Shipping, event.ShipmentStep, false}}, 4, d.Person,
		},
		{
			"stuck shipment resolved: inventory",
			[]event.Fact{
				event.OrderPlaced{}, event.StockReserved{}, event.OrderScreened{}, event.UndoStuck{Step: event.ShipmentStep},
				event.ShipmentRejected{},
			},
			[]owner{{event.Inventory, event.StockStep, false}}, 4, d.Undo,
		},
		{"no stock", []event.Fact{event.OrderPlaced{}, event.StockRejected{}}, []owner{{event.Orders, "", false}}, 1, d.Fact},
		{"ended", []event.Fact{event.OrderPlaced{}, event.OrderCancellationRequested{}, event.StockRejected{}, event.OrderCancelled{}}, nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := choreography.Known{}
			for i, f := range c.facts {
				known.Note(f, t0.Add(time.Duration(i)*time.Second))
			}
			waits := choreography.Waits(known, d)
			var got []owner
			for _, w := range waits {
				got = append(got, owner{w.Owner, w.Step, w.Person})
				if len(w.Expects) == 0 || !w.Until.After(w.Since) || w.String() == "" {
					t.Errorf("%v expects nothing or has no deadline", w)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatalf("waits (-want +got):\n%s", diff)
			}
			if len(waits) > 0 {
				since := t0.Add(time.Duration(c.since) * time.Second)
				if !waits[0].Since.Equal(since) || !waits[0].Until.Equal(since.Add(c.until)) {
					t.Errorf("since %s until %s", waits[0].Since, waits[0].Until)
				}
			}
		})
	}
}

// TestNoteKeepsTheFirst: a second UndoStuck of a step does not begin its wait anew.
func TestNoteKeepsTheFirst(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	known := choreography.Known{}
	known.Note(event.UndoStuck{Step: event.StockStep}, t0)
	known.Note(event.UndoStuck{Step: event.StockStep}, t0.Add(time.Hour))
	known.Note(event.UndoStuck{Step: event.PaymentStep}, t0.Add(time.Minute))
	want := choreography.Known{
		choreography.StuckKey(event.StockStep): t0, choreography.StuckKey(event.PaymentStep): t0.Add(time.Minute),
	}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Error(diff)
	}
}
