package orders

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// delivered places orders and brings them to their end.
func (r *rig) delivered(n int) (all []event.OrderNo) {
	r.t.Helper()
	for range n {
		number := r.place("ada", Item{"A", 1}).Number
		r.hear(number, event.PaymentTaken{Amount: 100, Currency: "GBP"})
		for _, move := range []string{"ship", "deliver"} {
			if _, _, got := r.move(number, move, ""); got.status != 200 {
				r.t.Fatalf("%s: %s", move, got)
			}
		}
		all = append(all, number)
	}
	return all
}

// age makes orders look as if nothing had happened to them for long.
func (r *rig) age(all ...event.OrderNo) {
	r.t.Helper()
	r.ddl(fmt.Sprintf(`UPDATE orders SET updated_at = now() - interval '91 days' WHERE order_no IN (%s)`, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(all)), ","), "[]")))
}

// archive does what the service does every minute, as its role.
func (r *rig) archive(limit int) int {
	r.t.Helper()
	n, err := archiveSome(r.t.Context(), r.db, r.cfg.ArchiveAfter, limit)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestArchive moves old ended orders, and those alone, in bounded batches; they read the same by number as before.
func TestArchive(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	old := r.delivered(5)
	fresh := r.delivered(1)
	moving := r.place("ada", Item{"A", 1}).Number
	attention := r.delivered(1)
	r.age(slices.Concat(old, []event.OrderNo{moving}, attention)...)
	r.ddl(fmt.Sprintf(`UPDATE orders SET needs_attention = true WHERE order_no = %d`, attention[0]))
	before := map[event.OrderNo]Order{}
	for _, number := range old {
		before[number] = r.order(number)
	}

	if got := []int{r.archive(3), r.archive(3), r.archive(3)}; !slices.Equal(got, []int{3, 2, 0}) {
		t.Fatalf("batches of 3 moved %v, want 3, 2 and nothing", got)
	}
	if got, want := numbers(r.list("")), []event.OrderNo{attention[0], moving, fresh[0]}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	for _, number := range old {
		want := before[number]
		want.Archived = true
		if diff := cmp.Diff(want, r.order(number)); diff != "" {
			t.Errorf("order %s: %s", number, diff)
		}
	}
	slices.Reverse(old)
	first := r.list("?archived=true&limit=2&customer=ada&status=DELIVERED")
	rest := r.list("?archived=true&customer=ada&after=" + first.Next)
	if got := append(numbers(first), numbers(rest)...); !slices.Equal(got, old) || rest.Next != "" {
		t.Errorf("the archive lists %v, want %v", got, old)
	}

	// What comes late meets the order's state as ever.
	if got := r.call("POST", fmt.Sprintf("/v1/orders/%s/deliver", old[0]), ""); got.status != 200 || read[Moved](t, got).Changed {
		t.Errorf("deliver again: %s", got)
	}
	if got := r.call("POST", fmt.Sprintf("/v1/orders/%s/cancel", old[0]), ""); got.status != 409 {
		t.Errorf("cancel: %s", got)
	}
	r.hear(old[0], event.PaymentRefunded{Amount: 100, Currency: "GBP"}, event.UndoStuck{Step: event.StockStep, Reason: "late"})
	if got := r.order(old[0]); got.Status != order.Delivered || !got.Archived {
		t.Errorf("a late fact made it %+v", got)
	}
}

// TestArchiveByReplicas has several replicas archive at once, while people read: every order is in one table at every moment.
func TestArchiveByReplicas(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	const n = 2000
	r.ddl(fmt.Sprintf(`
		INSERT INTO orders (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, placed_at, updated_at)
		SELECT n, 'c', 'GBP', '[]', 0, 0, 0, 0, 'domestic', gen_random_uuid(), 'FAILED', now(), now() - interval '91 days' FROM generate_series(1, %d) AS n`, n))
	var replicas sync.WaitGroup
	var mu sync.Mutex // guards moved
	moved := 0
	done := make(chan struct{})
	for range 3 {
		replicas.Go(func() {
			got, err := inBatches(t.Context(), 100, func(limit int) (int, error) {
				return archiveSome(t.Context(), r.db, r.cfg.ArchiveAfter, limit)
			})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			moved += got
		})
	}
	go func() { replicas.Wait(); close(done) }()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		if got := r.count(`SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM archived_orders)`); got != n {
			t.Fatalf("%d orders are to be seen, want %d", got, n)
		}
	}
	// A replica stops when another holds the last rows, so a few may be left for the next minute.
	moved += r.archive(n)
	if left := r.count(`SELECT count(*) FROM orders`); moved != n || left != 0 {
		t.Errorf("moved %d, left %d of %d", moved, left, n)
	}
}

// TestArchiveReadsNoMoreThanItMoves checks that looking for what may be archived does not read the table.
func TestArchiveReadsNoMoreThanItMoves(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	r.ddl(`
		INSERT INTO orders (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, placed_at, updated_at)
		SELECT n, 'c', 'GBP', '[]', 0, 0, 0, 0, 'domestic', gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'CONFIRMED' ELSE 'DELIVERED' END, now(), now() - n * interval '1 day'
		FROM generate_series(1, 20000) AS n;
		ANALYZE orders`)
	plan := r.explain(`SELECT order_no FROM orders
		WHERE status IN ('DELIVERED', 'REJECTED', 'CANCELLED', 'FAILED') AND NOT needs_attention AND updated_at < now() - $1::interval
		ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED`, 90*24*time.Hour, 500)
	if !strings.Contains(plan, "orders_ended") || strings.Contains(plan, "Sort") {
		t.Errorf("the archive does not use its index:\n%s", plan)
	}
}

// TestEndedOrdersStay is what the archive rests on: no input changes an order that has ended, or has it state or call anything.
func TestEndedOrdersStay(t *testing.T) {
	t.Parallel()
	closed := order.Part{Closed: true}
	var inputs []decision.Input
	for _, f := range event.Catalogue() {
		if f.Type() == (event.UndoStuck{}).Type() {
			for _, step := range []event.Step{event.StockStep, event.ScreeningStep, event.ShipmentStep, event.PaymentStep} {
				inputs = append(inputs, decision.Delivered{Envelope: event.Envelope{ID: participant.NewID(), Order: 1, Fact: event.UndoStuck{Step: step, Reason: "late"}}})
			}
			continue
		}
		inputs = append(inputs, decision.Delivered{Envelope: event.Envelope{ID: participant.NewID(), Order: 1, Fact: f}})
	}
	for _, request := range []decision.Request{
		decision.Cancel{By: event.ByCustomer}, decision.Cancel{By: event.ByOperator}, decision.Ship{}, decision.Deliver{}, order.Place{},
	} {
		inputs = append(inputs, decision.Requested{ID: participant.NewID(), At: participant.Now(), Request: request})
	}
	inputs = append(inputs, decision.Elapsed{At: participant.Now()})
	for _, s := range []order.State{
		{Status: order.Delivered, Deadline: time.Unix(1, 0)},
		{Status: order.Rejected, Cause: order.Rejected, Payment: closed, Shipment: closed, Stock: closed},
		{Status: order.Cancelled, Cause: order.Cancelled, By: event.ByCustomer, Payment: closed, Shipment: closed, Stock: closed, BackBy: time.Unix(1, 0)},
		{Status: order.Failed, Cause: order.Failed, Payment: closed, Shipment: closed, Stock: closed, BackBy: time.Unix(1, 0)},
	} {
		if !s.Status.Ended() {
			t.Fatalf("%s has not ended", s.Status)
		}
		for _, in := range inputs {
			d := order.Defaults().Decide(1, s, in)
			if d.Verdict == decision.Applied || len(d.Facts)+len(d.Intents) > 0 {
				t.Errorf("%s, on %+v: %s %v", s.Status, in, d.Verdict, d.Facts)
			}
		}
	}
}
