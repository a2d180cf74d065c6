package experiment

import (
	"context"
	"time"

	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// crashes are about many orders, and about processes that die.
func crashes() []Experiment {
	return []Experiment{
		{Name: "load", Seed: "E14", Title: "two hundred orders at once", run: load,
			About: "Elsewhere a worker takes no new order until the slowest of its hundred has ended. Here every consumer goes at its own pace; all orders are confirmed, each charged once."},
		{Name: "crash-before", Seed: "E15", Title: "orders are killed as soon as they have said yes", run: crashBefore,
			About: "An order that was accepted is a row and a fact in one transaction. The publisher finds it in the log, whoever has died since."},
		{Name: "crash-during", Seed: "E16", Title: "billing is killed while it charges", run: crashDuring,
			About: "Elsewhere the orders are forgotten, or charged again with a new key. Here an exchange that began and has no end on record is unknown: the processor is asked by key."},
		{Name: "nobody-listens", Seed: "E17", Title: "nobody hears that a call is due", run: nobodyListens,
			About: "A wake-up that is lost costs a quarter of a second, not the order: due calls are found by looking, too. The service that had planned the retry is killed before it is due."},
		{Name: "claim-once", Seed: "E18", Title: "no call is claimed by two workers", run: claimOnce,
			About: "A hundred orders; no provider sees a request twice. It tells more on chorus up --scale billing=2 --scale inventory=2."},
	}
}

func load(t *trial) {
	const n = 200
	began := time.Now()
	t.charged(t.quietly(n, "load"))
	t.step("All have ended %s after the first click.", time.Since(began).Round(100*time.Millisecond))
}

// charged waits until all orders are confirmed, and expects that each of them was charged once.
func (t *trial) charged(orders []event.OrderNo) {
	confirmed, once := 0, 0
	for _, no := range orders {
		v := t.awaited(no, string(order.Confirmed), func(v view) bool { return v.Status == order.Confirmed })
		if v.Status == order.Confirmed {
			confirmed++
		}
	}
	t.expectCount("orders confirmed", len(orders), confirmed)
	t.try("read the providers' ledger", func() error {
		for _, no := range orders {
			entries, err := t.lab.Providers.Order(t.ctx, int64(no))
			if err != nil {
				return err
			}
			charges := int64(0)
			for _, e := range entries {
				if e.Currency != "" {
					charges += e.Active + e.Undone
				}
			}
			if charges == 1 {
				once++
			}
		}
		return nil
	})
	t.expectCount("orders charged once", len(orders), once)
}

func crashBefore(t *trial) {
	t.process(cluster.ActionStop, "cdc")
	t.step("The publisher is stopped, so that nobody hears of what follows.")
	orders := t.quietly(10, "early")
	t.kill("orders")
	t.process(cluster.ActionStart, "cdc")
	t.step("The publisher is started again.")
	t.back()
	t.charged(orders)
}

func crashDuring(t *trial) {
	t.step("Each charge takes a second.")
	t.set(simulated.Behaviour{Operation: do, LatencyMinMs: 1000, LatencyMaxMs: 1000}, processors...)
	orders := t.quietly(10, "during")
	t.until("a charge to be under way", func(ctx context.Context) (bool, error) {
		v, err := t.trace(ctx, orders[0])
		for _, c := range v.Calls {
			if c.Participant == event.Billing && len(c.Attempts) > 0 && c.Attempts[0].EndedAt == nil {
				return true, nil
			}
		}
		return false, ignore(err)
	})
	t.kill("billing")
	t.back()
	t.charged(orders)
}

func nobodyListens(t *trial) {
	t.step("The warehouse fails the next call and asks for three seconds.")
	t.set(simulated.Behaviour{Operation: do, FailRate: 1, RetryAfter: 3, Calls: 1}, simulated.Warehouse)
	no := t.place("ada")
	t.reaches(no, simulated.Warehouse, 1)
	t.kill("inventory")
	t.back()
	t.ends(no, order.Confirmed)
	t.expectCount("calls to the warehouse", 2, t.calls(no, simulated.Warehouse))
	t.expectWord("between them", t.apart(no, simulated.Warehouse) >= 3*time.Second, "at least 3s", t.apart(no, simulated.Warehouse).String())
}

func claimOnce(t *trial) {
	orders := t.quietly(100, "claim")
	t.charged(orders)
	twice := 0
	for _, no := range orders {
		seen := map[string]bool{}
		for _, r := range t.requests(no) {
			if at := r.Provider + r.Operation + r.Key; seen[at] {
				twice++
			} else {
				seen[at] = true
			}
		}
	}
	t.expectCount("requests that a provider saw twice", 0, twice)
}
