package participant_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/services/shipping/shipment"
)

// Hundreds of facts, several of each order among them, are one transaction.
func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	const n = 300
	var batch []inbox.Fact
	for number := range event.OrderNo(n) {
		number++
		batch = append(batch, screened(number, event.Clear))
		if number%3 == 0 {
			batch = append(batch, cancelled(number))
		}
	}
	for number := range event.OrderNo(n) {
		batch = append(batch, placed(number+1), scheduled(number+1))
	}
	batch = append(batch, placed(1)) // a redelivery in the same batch
	must(t, pool, d, event.Billing, batch...)
	for table, want := range map[string]int{"inbox": len(batch) - 1, "order_states": n, "outbox": n / 3, "calls": n - n/3} {
		rows := one[int](b, "SELECT count(*) FROM "+table)
		transactions := one[int](b, "SELECT count(DISTINCT xmin::text) FROM "+table)
		if rows != want || transactions != 1 {
			t.Errorf("%s: %d rows by %d transactions, want %d by 1", table, rows, transactions, want)
		}
	}
	for number, want := range map[event.OrderNo]string{2: "DOING  payment-2-0", 3: "CLOSED PaymentVoided "} {
		if got := b.phase(number) + " " + b.stated(number) + " " + b.called(number); got != want {
			t.Errorf("order %s is %q, want %q", number, got, want)
		}
	}
	if got := one[int](b, `SELECT duplicates FROM inbox WHERE event_id = $1`, placed(1).ID); got != 1 {
		t.Errorf("%d duplicates", got)
	}
}

// A row that is not there cannot be locked. When facts of two topics meet a new order at once, the second transaction fails as one that
// could not be serialized, which the inbox runs again; it never writes over what the first one saved.
func TestTwoTopicsMeetANewOrder(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	first, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(context.Background())
	if _, err := d.Handle(t.Context(), first, []inbox.Fact{placed(1)}); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := enter(t.Context(), pool, d, event.Billing, screened(1, event.Clear), scheduled(1))
		second <- err
	}()
	eventually(t, "the second transaction waits for the first", func() bool {
		return one[int](b, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := within(t, "the second transaction", second); pg.Code(err) != "40001" {
		t.Fatalf("the second transaction: %v, want SQLSTATE 40001", err)
	}
	must(t, pool, d, event.Billing, screened(1, event.Clear), scheduled(1))
	if got := b.phase(1) + " " + b.called(1); got != "DOING payment-1-0" {
		t.Errorf("order 1 is %q: a fact was lost", got)
	}
}

// Three topics in batches, all about the same new orders, and each of the first batches has looked for its orders before any has saved them: nothing
// is lost, nothing done twice.
func TestTopicsContendForNewOrders(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	sources := []event.Participant{event.Orders, event.Fraud, event.Shipping}
	var mu sync.Mutex
	met, all3 := map[event.Participant]bool{}, make(chan struct{})
	spec := billing()
	decide := spec.Decide
	spec.Decide = func(number event.OrderNo, s paymentState, in decision.Input) decision.Decision[paymentState] {
		mu.Lock()
		from := in.(decision.Delivered).Owner
		first := !met[from]
		if met[from] = true; first && len(met) == len(sources) {
			close(all3)
		}
		mu.Unlock()
		if first {
			within(t, "the first batches of all topics", all3)
		}
		return decide(number, s, in)
	}
	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), spec)
	const n = 400
	var all []inbox.Fact
	for number := range event.OrderNo(n) {
		all = append(all, placed(number+1), screened(number+1, event.Clear), scheduled(number+1))
	}
	publish(t, kafka.Addr(), 1, all...)
	var conflicts atomic.Int64
	consumeBy(b, kafka.Addr(), d, event.Billing, func(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
		verdicts, err := d.Handle(ctx, tx, facts)
		if pg.Code(err) == "40001" {
			conflicts.Add(1)
		}
		return verdicts, err
	}, func(cfg *inbox.Config) { cfg.BatchRecords, cfg.Parallel = 20, len(sources) })
	eventually(t, "all facts are handled", func() bool { return one[int](b, `SELECT count(*) FROM inbox`) == 3*n })
	if got := one[int](b, `SELECT count(*) FROM order_states WHERE phase = 'DOING'`); got != n {
		t.Errorf("%d orders are being charged, want %d", got, n)
	}
	if got := one[int](b, `SELECT count(*) FROM calls`); got != n {
		t.Errorf("%d calls, want %d", got, n)
	}
	if got := one[int](b, `SELECT count(*) FROM dead_letters`); got != 0 {
		t.Errorf("%d dead letters", got)
	}
	if got := conflicts.Load(); got < 2 {
		t.Errorf("%d transactions failed for the others: the test proves nothing", got)
	}
}

// CON-17: every order in which the facts of two topics and more can come ends in one of two ways: charged and to be undone by the call's answer, or
// never charged; each fact once more changes nothing.
func TestEveryOrderOfArrival(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), billing())
	number := event.OrderNo(0)
	ends := map[string]int{}
	permute([]int{0, 1, 2, 3}, func(turn []int) {
		number++
		all := []inbox.Fact{placed(number), screened(number, event.Review), scheduled(number), cancelled(number)}
		for range 2 {
			for _, i := range turn {
				must(t, pool, d, event.Billing, all[i])
			}
		}
		end := fmt.Sprintf("%s %s %s undo asked: %s", b.phase(number), b.stated(number), strings.Replace(b.called(number), number.String(), "N", 1),
			one[string](b, `SELECT coalesce(state->'effect'->>'undo_asked', 'false') FROM order_states WHERE order_no = $1`, int64(number)))
		ends[end]++
		if n := one[int](b, `SELECT sum(duplicates) FROM inbox WHERE event_id = ANY($1)`, ids(all...)); n != 4 {
			t.Errorf("%v: %d duplicates, want 4", turn, n)
		}
	})
	charged, voided := ends["DOING  payment-N-0 undo asked: true"], ends["CLOSED PaymentVoided  undo asked: false"]
	if charged != 6 || voided != 18 {
		t.Errorf("ends: %v", ends)
	}
}

func permute(turn []int, do func([]int)) {
	var step func(k int)
	step = func(k int) {
		if k == len(turn) {
			do(slices.Clone(turn))
			return
		}
		for i := k; i < len(turn); i++ {
			turn[k], turn[i] = turn[i], turn[k]
			step(k + 1)
			turn[k], turn[i] = turn[i], turn[k]
		}
	}
	step(0)
}

// CMP-04: an undo that comes before its do leaves a tombstone: shipping says at once that there is nothing, and books nothing later (D4).
func TestUndoBeforeDo(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Shipping)
	pool := b.pool(nil)
	d := participant.New(t.Context(), b.log, pool, facts(), participant.Spec[shipment.State]{
		Name: event.Shipping, Decide: shipment.Rules{Route: routed(event.ShipmentStep)}.Decide, Phase: func(s shipment.State) string { return string(s.Effect.Phase) },
	})
	declined := fact(event.Billing, 1, event.PaymentDeclined{Reason: "screening REJECT"})
	verdicts := must(t, pool, d, event.Shipping, declined)
	verdicts = append(verdicts, must(t, pool, d, event.Shipping, placed(1))...)
	verdicts = append(verdicts, must(t, pool, d, event.Shipping, fact(event.Inventory, 1, event.StockReserved{Reservation: "r-1"}))...)
	// A stuck step of inventory is in a topic that shipping reads, and is none of its business.
	verdicts = append(verdicts, must(t, pool, d, event.Shipping, fact(event.Inventory, 1, event.UndoStuck{Step: event.StockStep, Reason: "x"}))...)
	var outcomes []inbox.Outcome
	for _, v := range verdicts {
		outcomes = append(outcomes, v.Outcome)
	}
	if want := []inbox.Outcome{inbox.Applied, inbox.Ignored, inbox.Ignored, inbox.Passed}; !slices.Equal(outcomes, want) {
		t.Errorf("verdicts %v, want %v", verdicts, want)
	}
	if got := b.stated(1) + " " + b.called(1); got != "ShipmentCancelled " {
		t.Errorf("stated and called: %q", got)
	}
	cause := one[string](b, `SELECT causationid FROM outbox`)
	if want := event.ID(declined.ID).String(); cause != want {
		t.Errorf("ShipmentCancelled is caused by %s, want %s", cause, want)
	}
}

// The derived id of a fact is the same when its decision is made again, by whatever replica (D4).
func TestRepeatedDecisionHasTheSameID(t *testing.T) {
	t.Parallel()
	var ids [2]event.ID
	for i := range ids {
		b := newBase(t, event.Billing)
		pool := b.pool(nil)
		d := participant.New(t.Context(), b.log, pool, facts(), billing())
		must(t, pool, d, event.Billing, cancelled(7))
		ids[i] = one[[16]byte](b, `SELECT id FROM outbox`)
	}
	if ids[0] != ids[1] || ids[0].IsZero() {
		t.Errorf("ids %s and %s", ids[0], ids[1])
	}
}

// A rule that panics, and facts that go in a circle, are their own fault alone: a dead letter, and the neighbours go on (G11).
func TestFaultyDecisionCostsNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	spec := billing()
	decide := spec.Decide
	spec.Decide = func(order event.OrderNo, s paymentState, in decision.Input) decision.Decision[paymentState] {
		if order == 2 {
			panic("at the disco")
		}
		return decide(order, s, in)
	}
	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), spec)
	loop := cancelled(3)
	loop.Headers[6].Value = []byte(fmt.Sprint(participant.MaxHop))
	all := []inbox.Fact{cancelled(1), cancelled(2), loop, cancelled(4)}
	for _, f := range []inbox.Fact{placed(5), screened(5, event.Clear), scheduled(5)} { // whichever comes last has the charge made
		f.Headers[6].Value = []byte(fmt.Sprint(participant.MaxHop))
		all = append(all, f)
	}
	publish(t, kafka.Addr(), 1, all...)
	consume(b, kafka.Addr(), d, event.Billing, nil)
	eventually(t, "all facts are handled", func() bool { return one[int](b, `SELECT count(*) FROM inbox`) == 7 })
	if got := fmt.Sprint(many[string](b, `SELECT reason || ' ' || attempts FROM dead_letters ORDER BY reason`)); got != "[hop_limit 1 hop_limit 1 panic 1]" {
		t.Errorf("dead letters %s", got)
	}
	if got := b.stated(1) + b.stated(2) + b.stated(3) + b.stated(4); got != "PaymentVoidedPaymentVoided" {
		t.Errorf("stated %q", got)
	}
	if got := b.called(5); got != "" {
		t.Errorf("called %q, whose answer could not be stated", got)
	}
}

// The same for what is not a fact: the answers of other calls are taken, the process lives.
func TestPanicInAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Orders)
	spec := orders()
	spec.Decide = func(event.OrderNo, orderState, decision.Input) decision.Decision[orderState] { panic("at the disco") }
	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), spec)
	_, err := d.Request(t.Context(), 1, decision.Requested{ID: stranger(1), At: time.Now(), Request: decision.Ship{}}, nil)
	if err == nil || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("error %v", err)
	}
}
