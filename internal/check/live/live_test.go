package live_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"chorus/internal/check"
	"chorus/internal/check/live"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
	"chorus/services/inventory/stock"
	"chorus/services/orders/order"
)

func verify(t *testing.T, src live.Sources) *check.Report {
	t.Helper()
	report, err := live.Verify(context.Background(), quiet, src, quick())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func figure(r *check.Report, n check.Name, name string) int64 {
	for _, c := range r.Checks {
		for _, f := range c.Figures {
			if c.Name == n && f.Name == name {
				return f.Value
			}
		}
	}
	return -1
}

// red fails unless the check found this, and no other check found anything.
func red(t *testing.T, r *check.Report, n check.Name, what string) {
	t.Helper()
	ok := false
	for _, c := range r.Checks {
		for _, v := range c.Violations {
			ok = ok || c.Name == n && strings.Contains(v.What, what)
			if c.Name != n && c.Name != check.Money {
				t.Errorf("%s is red too: %s", c.Name, v)
			}
		}
	}
	if !ok || r.OK {
		t.Errorf("want %s: %s; got\n\t%s", n, what, text(r))
	}
}

func TestSoundSystem(t *testing.T) {
	t.Parallel()
	r := verify(t, newWorld(50).serve(t))
	if !r.OK {
		t.Errorf("a sound system:\n\t%s", text(r))
	}
	for name, want := range map[string]int64{"orders": 50, "CONFIRMED": 50, "need a person": 0, "open dead letters": 6} {
		if got := figure(r, check.Ends, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := figure(r, check.Money, "money taken and kept"); got != 50*total {
		t.Errorf("money: %d", got)
	}
	if got := figure(r, check.Stock, "units held"); got != 50 {
		t.Errorf("held: %d", got)
	}
}

// What customers were told is read page by page beside the states. A second telling is a violation, and without an address nothing is judged.
func TestToldTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(50)
	w.told[7]["OrderConfirmed"] = 2
	w.told[8]["OrderShipped"] = 3
	src := w.serve(t)
	r := verify(t, src)
	red(t, r, check.Told, "its customer was told OrderConfirmed 2 times")
	red(t, r, check.Told, "its customer was told OrderShipped 3 times")
	src.Notifications = inspect.Client{}
	if r := verify(t, src); !r.OK {
		t.Errorf("without notifications:\n\t%s", text(r))
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(w *world)
		check check.Name
		what  string
	}{
		{"charged twice", func(w *world) { w.enter(20, simulated.Tally{Provider: "pay-highvalue", Currency: "GBP", Undone: 1}) }, check.Once, "the payment was done 2 times"},
		{"failed and held", func(w *world) {
			w.set(event.Orders, 20, order.State{Status: order.Failed})
			w.set(event.Inventory, 20, stock.State{Effect: decision.Effect{Phase: decision.Closed}, Lines: lines})
			w.stock["TEA@5"] = [2]int64{1_000_000, 49}
		}, check.Undone, "it is FAILED and warehouse still has 1 standing"},
		{"a stranger in the ledger", func(w *world) { w.enter(900, simulated.Tally{Provider: "warehouse", Undone: 1}) }, check.Strangers, "the providers' ledger knows it"},
		{"a stranger in inventory", func(w *world) { w.set(event.Inventory, 900, stock.State{}) }, check.Strangers, "inventory knows it"},
		{"a miscount", func(w *world) { w.stock["TEA@5"] = [2]int64{1_000_000, 51} }, check.Stock, "TEA@5: 51 are held and its orders hold 50"},
		{"the books", func(w *world) { w.spent = 1 }, check.Money, "customers have spent 250.01 GBP and the charges come to 250.00 GBP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(50)
			tt.spoil(w)
			red(t, verify(t, w.serve(t)), tt.check, tt.what)
		})
	}
}

// An order that was caught between two reads is a suspect, and found to be sound.
func TestSuspectTurnsOutSound(t *testing.T) {
	t.Parallel()
	w := newWorld(50)
	charge := w.ledger[20][2]
	w.ledger[20] = w.ledger[20][:2]
	w.stock["TEA@5"] = [2]int64{1_000_000, 49}
	w.asking = func(w *world) {
		switch w.asked {
		case 60: // after all pages; the second round of looks begins
			w.ledger[20] = append(w.ledger[20][:2:2], charge)
		case 70:
			w.stock["TEA@5"] = [2]int64{1_000_000, 50}
		}
	}
	if r := verify(t, w.serve(t)); !r.OK || w.asked < 70 {
		t.Errorf("after %d questions:\n\t%s", w.asked, text(r))
	}
}

// An order whose status never stands still is counted, not accused; so is a product.
func TestWhatNeverStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(50)
	w.ledger[20] = nil
	w.asking = func(w *world) {
		w.set(event.Orders, 20, order.State{Status: order.Confirmed, Reason: strconv.Itoa(w.asked)})
		w.stock["TEA@5"] = [2]int64{1_000_000, 51 + int64(w.asked%1000)}
	}
	r := verify(t, w.serve(t))
	if !r.OK || figure(r, check.Ends, "changed whenever looked at") != 1 || figure(r, check.Stock, "products that changed whenever looked at") != 1 {
		t.Errorf("got\n\t%s", text(r))
	}
}

func TestNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	w.set(event.Orders, 2, order.State{Status: order.Compensating, Cause: order.Failed, Reason: "stuck", Payment: order.Part{Stuck: "503"}})
	r := verify(t, w.serve(t))
	if !r.OK || len(r.Attention) != 1 || r.Attention[0].Order != 2 || r.Attention[0].Steps[0] != event.PaymentStep {
		t.Errorf("got\n\t%s", text(r))
	}
}

func TestSourceAway(t *testing.T) {
	t.Parallel()
	src := newWorld(3).serve(t)
	src.Billing.Base = "http://127.0.0.1:1"
	if _, err := live.Verify(context.Background(), quiet, src, quick()); err == nil || !strings.Contains(err.Error(), "read states of billing") {
		t.Errorf("got %v", err)
	}
}

// A fact that comes into its topic late makes a suspect; one that never comes is a violation (G2).
func TestTopics(t *testing.T) {
	t.Parallel()
	p := publish(t)
	for no := range event.OrderNo(3) {
		last := p.confirm(no + 1)
		last()
	}
	late := p.confirm(4)
	w := newWorld(4)
	src := w.serve(t)
	src.Kafka = []string{p.broker.Addr()}
	red(t, verify(t, src), check.Published, "it is CONFIRMED and OrderConfirmed is not in the topics")

	asked := w.asked
	w.asking = func(w *world) {
		if w.asked == asked+20 { // the orders have streamed by
			late()
		}
	}
	r := verify(t, src)
	if !r.OK || figure(r, check.Story, "records") != 24 || figure(r, check.Story, "duplicates") != 0 {
		t.Errorf("after %d questions:\n\t%s", w.asked-asked, text(r))
	}

	p.say(900, event.Fraud, event.OrderScreened{Verdict: event.Clear})
	red(t, verify(t, src), check.Strangers, "a topic knows it and orders does not")
}
