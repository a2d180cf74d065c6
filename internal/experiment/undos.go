package experiment

import (
	"fmt"

	"chorus/internal/event"
	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// undos are about the way back.
func undos() []Experiment {
	return []Experiment{
		{Name: "billing-down", Seed: "E4", Title: "the payment cannot be taken, and everything before it is undone", run: billingDown,
			About: "Elsewhere half of the orders take the other processor and go through, and the order stays PENDING. Here it ends FAILED and says why; carrier and warehouse are undone in this order."},
		{Name: "cancel", Seed: "E8", Title: "a customer cancels a paid order", run: cancelPaid,
			About: "Refund, shipment, stock: from the last step to the first, each once."},
		{Name: "cancel-twice", Seed: "E9", Title: "and clicks ten times more", run: cancelTwice,
			About: "Elsewhere the second click is a database error or a second event. Here it returns how the order stands, and nothing is undone twice."},
		{Name: "undo-recovers", Seed: "E10", Title: "an undo fails twice, and then works", run: undoRecovers,
			About: "What is undone already is not undone again; the undo that failed is repeated under its own key."},
		{Name: "undo-stuck", Seed: "E11", Title: "an undo is refused for good: a person is called", run: undoStuck,
			About: "Elsewhere a row in a table says FAILED, and nobody sees it. Here the order says NEEDS_ATTENTION with the step and the reason, and a button ends it."},
		{Name: "refund-stuck", Seed: "E12", Title: "the refund is refused: the shipment is cancelled all the same", run: refundStuck,
			About: "Elsewhere everything stops at the refund: shipment and stock stay. Here the payment waits for a person and the rest is undone meanwhile."},
	}
}

func billingDown(t *trial) {
	t.step("Both processors refuse every call.")
	t.set(simulated.Behaviour{Operation: all, Down: simulated.Down}, processors...)
	no := t.place("ada")
	t.ends(no, order.Failed)
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, nil, 0)
}

// back is the way back of an order that had been paid.
var back = []string{simulated.PayStandard, simulated.CarrierDomestic, simulated.Warehouse}

func cancelPaid(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.cancel(no)
	t.ends(no, order.Cancelled)
	t.undone(no, back...)
	t.holds(no, nil, 0)
}

func cancelTwice(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.step("Ten cancels at once.")
	changed := make([]bool, 10)
	t.try("cancel", func() error {
		return atOnce(len(changed), func(i int) error {
			var said struct{ Changed bool }
			code, err := t.ask("POST", "/v1/orders/"+no.String()+"/cancel", map[string]any{"by": event.ByCustomer}, &said)
			if err == nil && code != 200 {
				err = fmt.Errorf("refused with %d", code)
			}
			changed[i] = said.Changed
			return err
		})
	})
	won := 0
	for _, c := range changed {
		if c {
			won++
		}
	}
	t.expectCount("of ten clicks the ones that did it", 1, won)
	t.ends(no, order.Cancelled)
	code, again := t.move(no, "cancel", map[string]any{"by": event.ByCustomer})
	t.step("One more, when all is over.")
	t.expect("it is answered", "200 changed=false", fmt.Sprintf("%d changed=%t", code, again))
	t.undone(no, back...)
	t.holds(no, nil, 0)
}

func undoRecovers(t *trial) {
	t.step("Both processors are down, and the carrier fails its next two cancels.")
	t.set(simulated.Behaviour{Operation: all, Down: simulated.Down}, processors...)
	t.set(simulated.Behaviour{Operation: undo, FailRate: 1, Calls: 2}, simulated.CarrierDomestic)
	no := t.place("ada")
	t.ends(no, order.Failed)
	t.expectCount("attempts to cancel the shipment", 3, t.calls(no, simulated.CarrierDomestic, undo))
	t.expectCount("attempts to release the stock", 1, t.calls(no, simulated.Warehouse, undo))
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, nil, 0)
}

func undoStuck(t *trial) {
	t.step("Both processors are down, and the warehouse refuses to release anything.")
	t.set(simulated.Behaviour{Operation: all, Down: simulated.Down}, processors...)
	t.set(simulated.Behaviour{Operation: undo, DeclineRate: 1}, simulated.Warehouse)
	no := t.place("ada")
	t.needs(no, event.StockStep)
	t.holds(no, []string{simulated.Warehouse}, 0)
	t.clear()
	t.retry(no, event.StockStep)
	t.ends(no, order.Failed)
	t.holds(no, nil, 0)
}

func refundStuck(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.step("The processor refuses to pay anything back.")
	t.set(simulated.Behaviour{Operation: undo, DeclineRate: 1}, processors...)
	t.cancel(no)
	t.needs(no, event.PaymentStep)
	t.reaches(no, simulated.Warehouse, 2)
	t.undone(no, simulated.CarrierDomestic, simulated.Warehouse)
	t.holds(no, []string{simulated.PayStandard}, 7350)
	t.clear()
	t.retry(no, event.PaymentStep)
	t.ends(no, order.Cancelled)
	t.holds(no, nil, 0)
}
