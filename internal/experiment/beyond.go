package experiment

import (
	"context"

	"chorus/internal/check"
	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// beyond are what the other system could not show.
func beyond() []Experiment {
	return []Experiment{
		{Name: "lost-answer", Seed: "X1", Title: "charged, and the answer is lost", run: lostAnswer,
			About: "Elsewhere a timeout counts as a failure: charged again, up to four times, and never paid back. Here it is unknown: the processor is asked by key and says that it has charged."},
		{Name: "frozen-service", Seed: "X2", Title: "shipping is frozen in the middle of it", run: frozenService,
			About: "The others go on; the order says whom it waits for. A frozen process that wakes up finds that it has lost what it held, or finishes it: nothing is done twice."},
		{Name: "publisher-killed", Seed: "X3", Title: "the publisher is killed again and again", run: publisherKilled,
			About: "It may die after it published and before it confirmed, so facts are published again; every consumer recognises them. Nothing is lost, and nothing has effect twice."},
	}
}

func lostAnswer(t *trial) {
	t.step("The processor carries out the next charge and does not answer.")
	t.set(simulated.Behaviour{Operation: do, TimeoutAfterSuccess: 1, Calls: 1}, simulated.PayStandard)
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	t.expectCount("attempts to charge", 1, t.calls(no, simulated.PayStandard, do))
	t.expectCount("look-ups by key", 1, t.calls(no, simulated.PayStandard, lookup))
	t.holds(no, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayStandard}, 7350)
}

func frozenService(t *trial) {
	t.process(cluster.ActionFreeze, "shipping")
	t.step("Shipping is frozen: it is there and does nothing.")
	no := t.place("ada")
	t.until("it to wait for shipping, and to be screened meanwhile", func(ctx context.Context) (bool, error) {
		v, err := t.trace(ctx, no)
		screened, waits := false, false
		for _, f := range v.Facts {
			screened = screened || f.Type == "OrderScreened"
		}
		for _, w := range v.Waits {
			waits = waits || w.Owner == event.Shipping && w.Step == event.ShipmentStep
		}
		return screened && waits, ignore(err)
	})
	t.step("Asked where it is: it waits for shipping, for the shipment. The screening is done.")
	t.process(cluster.ActionThaw, "shipping")
	t.step("Shipping is thawed.")
	t.ends(no, order.Confirmed)
	t.holds(no, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayStandard}, 7350)
}

func publisherKilled(t *trial) {
	before := t.absorbed()
	var orders []event.OrderNo
	for range 3 {
		orders = append(orders, t.quietly(20, "publish")...)
		t.kill("cdc")
		t.back()
	}
	t.charged(orders)
	t.step("%d redeliveries were recognised meanwhile, and absorbed.", t.absorbed()-before)
}

// absorbed is how many redeliveries the consumers have recognised so far.
func (t *trial) absorbed() (n int64) {
	t.try("count the redeliveries", func() error {
		report, err := t.lab.Verify(t.ctx)
		if err != nil {
			return err
		}
		for _, c := range report.Checks {
			for _, f := range c.Figures {
				if c.Name == check.Once {
					n += f.Value
				}
			}
		}
		return nil
	})
	return n
}
