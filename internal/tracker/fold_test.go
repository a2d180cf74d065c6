package tracker

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

func TestFold(t *testing.T) {
	t.Parallel()
	cancel := event.OrderCancellationRequested{Reason: event.ByCustomer}
	tests := map[string]struct {
		story  *story
		status order.Status
		text   string // contained in the text
		waits  string // owner/step of each wait, "!" for a person
		ended  bool
	}{
		"placed": {placed(1), order.Placed, "nothing is held", "inventory/stock fraud/screening", false},
		"only a consequence is known": {(&story{no: 1}).say(event.Inventory, event.StockReserved{Reservation: "R"}),
			order.Placed, "stock is held", "shipping/shipment", false},
		"paid":      {paid(1), order.Placed, "about to be confirmed", "orders", false},
		"confirmed": {confirmed(1), order.Confirmed, "payment was taken", "", true},
		"shipped":   {confirmed(1).say(event.Orders, event.OrderShipped{}), order.Shipped, "no longer be cancelled", "", true},
		"delivered": {confirmed(1).say(event.Orders, event.OrderShipped{}).say(event.Orders, event.OrderDelivered{}), order.Delivered, "delivered", "", true},
		"out of stock": {placed(1).say(event.Inventory, event.StockRejected{Reason: "85123A"}).say(event.Orders, event.OrderRejected{Reason: "85123A"}),
			order.Rejected, "no money was taken (85123A)", "", true},
		"declined": {declined(1), order.Compensating, "payment refused (insufficient funds); the shipment is being undone", "shipping/shipment", false},
		"declined and undone": {declined(1).say(event.Shipping, event.ShipmentCancelled{Shipment: "S-1"}).
			say(event.Inventory, event.StockReleased{Reservation: "R-1"}).say(event.Orders, event.OrderFailed{Reason: "x"}),
			order.Failed, "payment refused (insufficient funds), no money was taken", "", true},
		"cancelling after confirmation": {confirmed(1).say(event.Orders, cancel), order.Cancelling, "by the customer; the payment is being undone", "billing/payment", false},
		"cancelled after confirmation": {confirmed(1).say(event.Orders, cancel).say(event.Billing, event.PaymentRefunded{Payment: "P-1", Amount: 1250, Currency: "EUR"}).
			say(event.Shipping, event.ShipmentCancelled{}).say(event.Inventory, event.StockReleased{}).say(event.Orders, event.OrderCancelled{Reason: event.ByCustomer}),
			order.Cancelled, "the money was paid back in full", "", true},
		"declined while cancelling": {placed(1).say(event.Orders, cancel).say(event.Billing, event.PaymentDeclined{Reason: "no"}),
			order.Cancelling, "the shipment is being undone", "inventory/stock shipping/shipment", false},
		"timed out": {placed(1).say(event.Orders, event.OrderCancellationRequested{Reason: event.TimedOut}), order.Compensating, "took too long", "inventory/stock billing/payment", false},
		"refund stuck": {confirmed(1).say(event.Orders, cancel).say(event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "processor down"}),
			order.Cancelling, "the payment is stuck and needs a person; the shipment is being undone", "!billing/payment shipping/shipment", false},
		"charge stuck": {placed(1).say(event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "no answer"}),
			order.Compensating, "the payment got stuck", "!billing/payment", false},
		"stuck and resolved": {placed(1).say(event.Inventory, event.UndoStuck{Step: event.StockStep, Reason: "no answer"}).
			say(event.Inventory, event.StockRejected{Reason: "resolved by a person"}),
			order.Compensating, "everything is undone", "orders", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Fold(1, read(test.story.facts), choreography.DefaultDurations(), start)
			var waits []string
			for _, w := range got.Waits {
				text := string(w.Owner)
				if w.Step != "" {
					text += "/" + string(w.Step)
				}
				if w.Person {
					text = "!" + text
				}
				waits = append(waits, text)
			}
			if got.Status != test.status || !strings.Contains(got.StatusText, test.text) || got.EndedAt.IsZero() == test.ended {
				t.Errorf("status %s %q, ended %v; want %s %q, ended: %v", got.Status, got.StatusText, got.EndedAt, test.status, test.text, test.ended)
			}
			for _, want := range strings.Fields(test.waits) {
				if !slices.Contains(waits, want) {
					t.Errorf("waits for %v, want %s among them", waits, want)
				}
			}
			if test.waits == "" && waits != nil {
				t.Errorf("waits for %v, want nothing", waits)
			}
			if person := strings.Contains(test.waits, "!"); got.NeedsAttention != person || (got.Stuck != nil) != person {
				t.Errorf("needs attention %v, stuck %v; want %v", got.NeedsAttention, got.Stuck, person)
			}
		})
	}
}

// Facts come from five topics in any order, and some of them twice; the story is the same (D4, G5).
func TestFoldDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	tale := confirmed(1).
		say(event.Orders, event.OrderCancellationRequested{Reason: event.ByOperator}).
		say(event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "first"}).
		say(event.Shipping, event.ShipmentCancelled{Shipment: "S-1"}).
		say(event.Billing, event.UndoStuck{Step: event.PaymentStep, Reason: "again"})
	facts := read(tale.facts)
	d := choreography.DefaultDurations()
	want := Fold(1, facts, d, start)
	if want.Facts[0].Type != "OrderPlaced" || want.Facts[len(want.Facts)-1].ID != facts[len(facts)-1].ID {
		t.Errorf("facts are not in causal order: %v", want.Facts)
	}
	for range 200 {
		shuffled := slices.Clone(facts)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, Fold(1, shuffled, d, start)); diff != "" {
			t.Fatalf("another story for the same facts (-want +got):\n%s", diff)
		}
		var s Summary
		for _, f := range append(shuffled, shuffled[:3]...) {
			s = s.Add(f.Said, f.OccurredAt)
		}
		var straight Summary
		for _, f := range facts {
			straight = straight.Add(f.Said, f.OccurredAt)
		}
		if diff := cmp.Diff(straight, s); diff != "" {
			t.Fatalf("another summary for the same facts (-want +got):\n%s", diff)
		}
	}
}

// The clocks of two machines differ; a fact still never stands before its cause.
func TestCauseBeforeEffectWhateverTheClocks(t *testing.T) {
	t.Parallel()
	facts := read(confirmed(1).facts)
	for i := range facts {
		facts[i].OccurredAt = start.Add(-time.Duration(i) * time.Minute)
	}
	slices.Reverse(facts)
	for i, f := range Fold(1, facts, choreography.DefaultDurations(), start).Facts {
		if f.Hop != i {
			t.Errorf("place %d has hop %d (%s)", i, f.Hop, f.Type)
		}
	}
}

func TestWaitIsOverdue(t *testing.T) {
	t.Parallel()
	d := choreography.DefaultDurations()
	tests := map[string]struct {
		story     *story
		after     time.Duration // since the last fact
		overdue   bool
		attention bool
	}{
		"in time":             {placed(1), d.Call - time.Second, false, false},
		"forward call late":   {placed(1), d.Call + time.Second, true, false},
		"undo late":           {declined(1), d.Undo + time.Second, true, true},
		"nothing is expected": {confirmed(1), 1000 * time.Hour, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := test.story.facts[len(test.story.facts)-1].OccurredAt
			got := Fold(1, read(test.story.facts), d, last.Add(test.after))
			overdue := slices.ContainsFunc(got.Waits, func(w Wait) bool { return w.Overdue })
			if overdue != test.overdue || got.NeedsAttention != test.attention {
				t.Errorf("overdue %v, needs attention %v; want %v, %v", overdue, got.NeedsAttention, test.overdue, test.attention)
			}
		})
	}
}
