package participant_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// place places orders with deadlines, one each.
func place(t *testing.T, d *participant.Door[orderState], first event.OrderNo, deadlines ...time.Time) {
	t.Helper()
	for i, deadline := range deadlines {
		number := first + event.OrderNo(i)
		if _, err := d.Request(t.Context(), number, decision.Requested{ID: stranger(int(number)), At: participant.Now(), Request: order.Place{OrderPlaced: event.OrderPlaced{
			Customer: "ada", Currency: "EUR", Shipping: event.Domestic, Deadline: deadline, Lines: []event.Line{{SKU: "A", Quantity: 1, UnitPrice: "1"}},
		}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A deadline has come at its microsecond and not before, also when it was given finer than the database keeps it.
func TestDeadlineIsExact(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Orders)
	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), orders())
	at := time.Date(2020, 1, 2, 3, 4, 5, 123_456_000, time.UTC)
	place(t, d, 1, at)
	due, err := d.Elapsed(t.Context(), participant.Due{}, 10)
	if err != nil || len(due) != 1 || !due[0].At.Equal(at) {
		t.Fatalf("due %v %v", due, err)
	}
	if err := d.Elapse(t.Context(), []participant.Due{{Order: 1, At: at.Add(-time.Microsecond)}}); err != nil || b.phase(1) != "PLACED" {
		t.Errorf("a microsecond before its deadline the order is %s (%v)", b.phase(1), err)
	}
	if err := d.Elapse(t.Context(), due); err != nil || b.phase(1) != "COMPENSATING" {
		t.Errorf("at its deadline the order is %s (%v)", b.phase(1), err)
	}

	// A state that asks for a nanosecond is woken at the next whole microsecond, when its own rule agrees that it is time.
	spec := orders()
	spec.Due = func(s orderState) time.Time {
		if s.Status == order.Placed {
			return s.Deadline.Add(time.Nanosecond)
		}
		return time.Time{}
	}
	fine := participant.New(t.Context(), b.log, b.pool(nil), facts(), spec)
	place(t, fine, 2, at)
	if due, err = fine.Elapsed(t.Context(), participant.Due{}, 1); err != nil || len(due) != 1 || due[0].Order != 2 || !due[0].At.Equal(at.Add(time.Microsecond)) {
		t.Errorf("due %v %v", due, err)
	}
}

// gate is closed for some orders.
type gate struct {
	mu     sync.Mutex
	closed map[event.OrderNo]bool
	err    error
	asked  [][]participant.Due
}

func (g *gate) Pass(_ context.Context, due []participant.Due) ([]participant.Due, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, due)
	var open []participant.Due
	for _, x := range due {
		if !g.closed[x.Order] {
			open = append(open, x)
		}
	}
	return open, g.err
}

func (g *gate) set(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

// Two replicas keep the time of the same orders. Each deadline has its effect once; what a gate holds back keeps nobody else
// waiting, however much it is; a failing gate and an order whose state cannot be decided do not stop the time of the others.
func TestTimersFireOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Orders)
	g := &gate{closed: map[event.OrderNo]bool{}, err: errors.New("no telling")}
	const held, free = 250, 30
	past := participant.Now().Add(-time.Minute)
	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), orders())
	for number := range event.OrderNo(held) {
		g.closed[number+1] = true
		place(t, d, number+1, past.Add(-time.Hour))
	}
	for number := range event.OrderNo(free) {
		place(t, d, held+number+1, past)
	}
	place(t, d, held+free+1, participant.Now().Add(time.Hour))
	if _, err := b.conn.Exec(t.Context(), `UPDATE order_states SET state = '{"status": 7}' WHERE order_no = $1`, held+1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var replicas sync.WaitGroup
	for range 2 {
		replica := participant.New(ctx, b.log, b.pool(nil), facts(), orders())
		replicas.Go(func() {
			if err := participant.KeepTime(ctx, replica, g, 100); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "the gate is asked", func() (asked bool) { g.set(func() { asked = len(g.asked) > 0 }); return asked })
	g.set(func() { g.err = nil })
	requested := `SELECT count(*) FROM outbox WHERE type = 'OrderCancellationRequested'`
	eventually(t, "all free timers but the broken one's have fired", func() bool { return one[int](b, requested) == free-1 })
	g.set(func() { clear(g.closed) })
	eventually(t, "all have fired", func() bool { return one[int](b, requested) == held+free-1 })
	cancel()
	replicas.Wait()
	if got := one[int](b, requested); got != held+free-1 {
		t.Errorf("%d cancellations requested, want %d", got, held+free-1)
	}
	if got := one[int](b, `SELECT count(DISTINCT aggregateid) FROM outbox WHERE type = 'OrderCancellationRequested'`); got != held+free-1 {
		t.Errorf("of %d orders", got)
	}
	if got := b.phase(held + free + 1); got != "PLACED" {
		t.Errorf("an order whose deadline is to come is %s", got)
	}
}
