package intent_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pgtest"
	"chorus/internal/provider"
	"chorus/internal/provider/simulated"
)

// outside runs the simulated providers and returns their control and what a service needs to call them.
func outside(t *testing.T, steps ...event.Step) (*simulated.Client, *provider.Set) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	dsn := pgtest.Database(t)
	go func() {
		done <- simulated.Serve(ctx, slog.New(slog.NewTextHandler(io.Discard, nil)), simulated.Config{Postgres: dsn, Seed: 1}, ln)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("providers: %v", err)
		}
	})
	base := "http://" + ln.Addr().String()
	file, err := provider.Load("")
	if err != nil {
		t.Fatal(err)
	}
	set, err := file.Set(base, 300*time.Millisecond, steps...)
	if err != nil {
		t.Fatal(err)
	}
	return simulated.NewClient(base), set
}

type line struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

type goods struct {
	Order event.OrderNo `json:"order"`
	Lines []line        `json:"lines"`
}

type parcel struct {
	Order    event.OrderNo `json:"order"`
	Customer string        `json:"customer"`
	Units    int64         `json:"units"`
}

type money struct {
	Order    event.OrderNo `json:"order"`
	Customer string        `json:"customer"`
	Amount   int64         `json:"amount"`
	Currency string        `json:"currency"`
}

// TestSimulatedProviders makes, finds, ends and undoes effects at all six, and compares with their ledger.
func TestSimulatedProviders(t *testing.T) {
	b := newBench(t)
	control, set := outside(t, event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep)
	bodies := map[string]any{
		simulated.Warehouse:            goods{1, []line{{"mug", 2}}},
		simulated.CarrierDomestic:      parcel{1, "c", 2},
		simulated.CarrierInternational: parcel{2, "c", 2},
		simulated.PayStandard:          money{1, "c", 700, "EUR"},
		simulated.PayHighValue:         money{2, "c", 700, "EUR"},
	}
	steps := map[string]event.Step{simulated.Warehouse: event.StockStep, simulated.CarrierDomestic: event.ShipmentStep,
		simulated.CarrierInternational: event.ShipmentStep, simulated.PayStandard: event.PaymentStep, simulated.PayHighValue: event.PaymentStep}
	order := map[string]event.OrderNo{simulated.CarrierInternational: 2, simulated.PayHighValue: 2}
	plan := func(name string, op decision.Op, reference string) intent.Planned {
		return intent.Planned{Order: max(1, order[name]), Intent: decision.Intent{
			Step: steps[name], Op: op, Provider: name, Reference: reference, Reason: "CUSTOMER", Body: bodies[name]}}
	}
	for name := range bodies {
		// The answer to each first attempt is lost after it had its effect.
		if _, err := control.SetBehaviour(t.Context(), name, simulated.Behaviour{Operation: "do", TimeoutAfterSuccess: 1, Calls: 1}); err != nil {
			t.Fatal(err)
		}
		b.plan(plan(name, decision.Do, ""))
	}
	b.plan(intent.Planned{Order: 1, Intent: decision.Intent{Step: event.ScreeningStep, Op: decision.Look, Provider: simulated.Bureau,
		Body: money{1, "review me", 700, "EUR"}}})
	w := b.start(quick(), set)
	b.answers(6)
	if n := value[int](b, "SELECT count(*) FROM answered WHERE kind = 'SUCCEEDED' AND reference <> ''"); n != 6 {
		t.Errorf("%d of 6 calls succeeded: %v", n, b.answers(6))
	}
	if score := value[int](b, "SELECT score FROM answered WHERE op = 'look'"); score != 70 {
		t.Errorf("score %d, want 70", score)
	}
	if diff := cmp.Diff(map[string]int{"active": 6}, ledger(t, control)); diff != "" {
		t.Errorf("the ledger after the dos (-want +got):\n%s", diff)
	}
	for name := range bodies {
		reference := value[string](b, "SELECT state->'outcome'->>'Reference' FROM calls WHERE provider = $1", name)
		if _, err := control.SetBehaviour(t.Context(), name, simulated.Behaviour{Operation: "undo", TimeoutAfterSuccess: 1, Calls: 1}); err != nil {
			t.Fatal(err)
		}
		b.plan(plan(name, decision.Undo, reference))
	}
	w.Wake()
	b.answers(11)
	if n := value[int](b, "SELECT count(*) FROM answered WHERE op = 'undo' AND kind = 'SUCCEEDED'"); n != 5 {
		t.Errorf("%d of 5 undos succeeded: %v", n, b.answers(11))
	}
	if diff := cmp.Diff(map[string]int{"active": 1, "undone": 5}, ledger(t, control)); diff != "" {
		t.Errorf("the ledger after the undos (-want +got):\n%s", diff)
	}
}

// TestNothingIsChargedWhenNobodyEverAnswers: the charge is made, its answer never comes and the look-up is down, so the call is
// stuck; tried again by a person, it is ended by key.
func TestNothingIsChargedWhenNobodyEverAnswers(t *testing.T) {
	b := newBench(t)
	control, set := outside(t, event.PaymentStep)
	behave := func(rule simulated.Behaviour) {
		t.Helper()
		if _, err := control.SetBehaviour(t.Context(), simulated.PayStandard, rule); err != nil {
			t.Fatal(err)
		}
	}
	behave(simulated.Behaviour{Operation: "do", TimeoutAfterSuccess: 1})
	behave(simulated.Behaviour{Operation: "lookup", Down: simulated.Unreachable})
	cfg := quick()
	cfg.Asks = 3
	w := b.start(cfg, set)
	charge := intent.Planned{Order: 1, Intent: decision.Intent{Step: event.PaymentStep, Op: decision.Do, Provider: simulated.PayStandard,
		Body: money{1, "c", 700, "EUR"}}}
	b.plan(charge)
	w.Wake()
	if got := b.answers(1)[0]; got != "1 payment do STUCK look-up: the connection broke before the answer" {
		t.Errorf("answer %q", got)
	}
	if diff := cmp.Diff(map[string]int{"active": 1}, ledger(t, control)); diff != "" {
		t.Errorf("the ledger of the stuck charge (-want +got):\n%s", diff)
	}
	charge.Intent.Again = true
	b.plan(charge)
	w.Wake()
	b.answers(2)
	if diff := cmp.Diff(map[string]int{"undone": 1}, ledger(t, control)); diff != "" {
		t.Errorf("the ledger at the end (-want +got):\n%s", diff)
	}
}

// ledger counts effects by state.
func ledger(t *testing.T, control *simulated.Client) map[string]int {
	t.Helper()
	found := map[string]int{}
	for e, err := range control.Ledger(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for state, n := range map[string]int64{"active": e.Active, "undone": e.Undone, "refused": e.Refused, "cancelled": e.Cancelled} {
			if n > 0 {
				found[state] += int(n)
			}
		}
	}
	return found
}
