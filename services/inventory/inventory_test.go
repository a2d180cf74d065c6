package inventory_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/inbox"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/deploy"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/provider"
	"chorus/internal/web"
	"chorus/services/inventory"
	"chorus/services/inventory/stock"
)

// shop is an inventory with its database as the deploy step makes it.
type shop struct {
	t      *testing.T
	db     *pgxpool.Pool // as the service's role
	door   *participant.Door[stock.State]
	client inspect.Client
}

var facts = sync.OnceValue(codec.Embedded)

func newShop(t *testing.T) *shop {
	t.Helper()
	// One database for all tests that make roles: the lock under which that is done belongs to a database.
	admin, err := pg.WithDatabase(pgtest.Database(t), "postgres", "", "")
	if err != nil {
		t.Fatal(err)
	}
	all := deploy.Databases()
	spec := all[slices.IndexFunc(all, func(d deploy.Database) bool { return d.Name == string(event.Inventory) })]
	spec.Name += "_" + strings.ToLower(rand.Text()[:10])
	server := deploy.Server{Admin: admin, Password: func(string) string { return "secret" }}
	if err := server.Make(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		for _, sql := range []string{"DROP DATABASE " + spec.Name + " WITH (FORCE)", "DROP ROLE " + spec.Name, "DROP ROLE " + spec.Name + "_owner"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Error(err)
			}
		}
	})
	dsn, err := server.URL(spec.Name, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t}
	if s.db, err = pg.Open(t.Context(), dsn, pg.Options{MaxConns: 20}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	routed, err := provider.Load("")
	if err != nil {
		t.Fatal(err)
	}
	s.door = participant.New(t.Context(), log, s.db, facts(), participant.Spec[stock.State]{
		Name: event.Inventory, Decide: stock.Rules{Route: routed.Route(event.StockStep)}.Decide, Shelf: inventory.OpenShelf,
		Phase: func(s stock.State) string { return string(s.Effect.Phase) },
	})
	mux := http.NewServeMux()
	inventory.Routes(s.db, mux)
	server2 := httptest.NewServer(mux)
	t.Cleanup(server2.Close)
	s.client = inspect.Client{Base: server2.URL}
	return s
}

// line is some units of a product.
func line(sku string, n int64) event.Line { return event.Line{SKU: sku, Quantity: n, UnitPrice: "1"} }

// deliver takes facts through the door in one transaction, which is run again as the inbox would.
func (s *shop) deliver(batch ...inbox.Fact) {
	s.t.Helper()
	err := pg.InTx(s.t.Context(), s.db, "deliver", func(tx pgx.Tx) error {
		verdicts, err := s.door.Handle(s.t.Context(), tx, batch)
		for _, v := range verdicts {
			if v.Outcome == inbox.Dead {
				s.t.Errorf("dead: %s", v.Why)
			}
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

func (s *shop) fact(owner event.Participant, number event.OrderNo, f event.Fact) inbox.Fact {
	s.t.Helper()
	at := time.Now().UTC().Truncate(time.Microsecond)
	row, err := facts().Row(event.Envelope{
		ID: event.Derive(at, owner, number, string(f.Type()), 0), Order: number, Owner: owner, OccurredAt: at, CausationID: participant.NewID(), Hop: 1, Fact: f,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	text := func(key, value string) inbox.Header { return inbox.Header{Key: key, Value: []byte(value)} }
	return inbox.Fact{
		ID: row.ID, Type: row.Type, Key: row.AggregateID, Value: row.Payload, OccurredAt: at, Topic: owner.Topic(),
		Headers: []inbox.Header{
			text("id", event.ID(row.ID).String()), text("eventType", row.Type), text("aggregateType", row.AggregateType),
			text("occurredAt", at.Format(time.RFC3339Nano)), text("correlationId", row.CorrelationID), text("causationId", row.CausationID), text("hop", "1"),
		},
	}
}

func (s *shop) placed(number event.OrderNo, lines ...event.Line) inbox.Fact {
	s.t.Helper()
	return s.fact(event.Orders, number, event.OrderPlaced{
		Customer: "ada", Currency: "EUR", Shipping: event.Domestic, Lines: lines, Deadline: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond),
	})
}

func (s *shop) shipmentCancelled(number event.OrderNo) inbox.Fact {
	s.t.Helper()
	return s.fact(event.Shipping, number, event.ShipmentCancelled{})
}

// answer brings what the warehouse said.
func (s *shop) answer(op decision.Op, kind decision.OutcomeKind, orders ...event.OrderNo) {
	s.t.Helper()
	var answers []intent.Answer
	for _, number := range orders {
		answers = append(answers, intent.Answer{Order: number, Cause: intent.Cause{CausationID: participant.NewID()}, Answered: decision.Answered{
			Step: event.StockStep, Op: op, Outcome: decision.Outcome{Kind: kind, Reference: "r-" + number.String(), Reason: "because"},
		}})
	}
	if err := s.door.Answer(s.t.Context(), answers, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		s.t.Error(err)
	}
}

// put sets counts through the API and returns the status.
func (s *shop) put(body string) int {
	s.t.Helper()
	var problem *web.Problem
	err := s.client.Do(s.t.Context(), http.MethodPut, "/v1/stock", json.RawMessage(body), nil)
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &problem):
		return problem.Status
	}
	s.t.Fatal(err)
	return 0
}

// check compares "SKU on hand/held" with the shelf.
func (s *shop) check(want ...string) {
	s.t.Helper()
	var body struct {
		Stock []inventory.Count `json:"stock"`
	}
	if err := s.client.Do(s.t.Context(), http.MethodGet, "/v1/stock", nil, &body); err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, c := range body.Stock {
		got = append(got, fmt.Sprintf("%s %d/%d", c.SKU, c.OnHand, c.Held))
		if c.Available != c.OnHand-c.Held {
			s.t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the shelf has %v, want %v", got, want)
	}
}

// stated counts the facts in the outbox.
func (s *shop) stated(typ event.Type) int {
	s.t.Helper()
	var n int
	if err := s.db.QueryRow(s.t.Context(), `SELECT count(*) FROM outbox WHERE type = $1`, string(typ)).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// CON-21: two lines of one product are one hold; all lines are held or none; the hold ends once, with the shipment.
func TestHoldAndGiveBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	if code := s.put(`[{"sku":"B","on_hand":5},{"sku":"A","on_hand":4}]`); code != http.StatusOK {
		t.Fatal(code)
	}
	s.deliver(s.placed(1, line("A", 1), line("A", 2)))
	s.check("A 4/3", "B 5/0")
	s.deliver(s.placed(2, line("B", 1), line("A", 1), line("A", 1))) // A is one short, so B is not held either
	s.check("A 4/3", "B 5/0")
	s.deliver(s.placed(3, line("C", 1))) // a product that nobody has
	s.deliver(s.placed(4, line("A", 1)))
	s.check("A 4/4", "B 5/0")
	if n := s.stated("StockRejected"); n != 2 {
		t.Errorf("%d rejections, want 2", n)
	}
	s.answer(decision.Do, decision.Succeeded, 1)
	s.answer(decision.Do, decision.Declined, 4) // the warehouse does not have it after all
	s.check("A 4/3", "B 5/0")
	s.deliver(s.shipmentCancelled(1))
	s.check("A 4/3", "B 5/0") // held until the warehouse has given it back
	s.deliver(s.shipmentCancelled(1))
	s.answer(decision.Undo, decision.Stuck, 1)
	s.check("A 4/3", "B 5/0")
	if _, err := s.door.Request(t.Context(), 1, decision.Requested{ID: participant.NewID(), At: participant.Now(), Request: decision.Resolve{Step: event.StockStep, Evidence: "seen on the shelf"}}, nil); err != nil {
		t.Fatal(err)
	}
	s.check("A 4/0", "B 5/0")
	s.answer(decision.Undo, decision.Succeeded, 1)
	s.deliver(s.shipmentCancelled(1), s.shipmentCancelled(4), s.shipmentCancelled(9))
	s.check("A 4/0", "B 5/0")
	s.deliver(s.placed(9, line("A", 1))) // after its tombstone
	s.check("A 4/0", "B 5/0")
}

// Several facts of one order in one batch: what is held in it is given back in it.
func TestHoldAndGiveBackInOneBatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put(`[{"sku":"A","on_hand":1}]`)
	s.deliver(s.placed(1, line("A", 1)), s.placed(2, line("A", 1)), s.shipmentCancelled(1))
	s.check("A 1/1") // the warehouse is being asked
	s.answer(decision.Do, decision.Failed, 1)
	s.check("A 1/0")
	if r, x := s.stated("StockRejected"), s.stated("StockReleased"); r != 2 || x != 0 {
		t.Errorf("%d rejections and %d releases, want 2 and 0: the rejection answers the undo", r, x)
	}
}

// CON-21: orders with the same products in opposite order, and a person who counts at the same time, do not deadlock; the sums are exact.
func TestOppositeOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put(`[{"sku":"A","on_hand":1000},{"sku":"B","on_hand":1000}]`)
	var deadlocks int64
	before := s.deadlocks()
	for round := event.OrderNo(1); round <= 50; round++ {
		var together sync.WaitGroup
		together.Go(func() { s.deliver(s.placed(3*round+1, line("A", 1), line("B", 2))) })
		together.Go(func() { s.deliver(s.placed(3*round+2, line("B", 1), line("A", 3))) })
		together.Go(func() { s.put(`[{"sku":"B","on_hand":1000},{"sku":"A","on_hand":1000}]`) })
		together.Go(func() { s.deliver(s.placed(3*round+3, line("B", 1)), s.shipmentCancelled(3*round)) })
		together.Wait()
	}
	if deadlocks = s.deadlocks() - before; deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
	s.check("A 1000/200", "B 1000/200")
}

func (s *shop) deadlocks() (n int64) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// CMP-09: fifty orders at once for the last seven units: seven get them, and the others are told so before anybody charges them.
func TestNeverOversold(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put(`[{"sku":"A","on_hand":7},{"sku":"B","on_hand":1000}]`)
	var together sync.WaitGroup
	for number := range event.OrderNo(50) {
		together.Go(func() { s.deliver(s.placed(number+1, line("B", 1), line("A", 1))) })
	}
	together.Wait()
	s.check("A 7/7", "B 1000/7")
	if n := s.stated("StockRejected"); n != 43 {
		t.Errorf("%d rejections, want 43", n)
	}
	// All of them undone at once, twice.
	var held []event.OrderNo
	rows, _ := s.db.Query(t.Context(), `SELECT order_no FROM order_states WHERE phase = 'DOING'`)
	held, err := pgx.CollectRows(rows, pgx.RowTo[event.OrderNo])
	if err != nil || len(held) != 7 {
		t.Fatalf("%v %v", held, err)
	}
	for range 2 {
		for _, number := range held {
			together.Go(func() { s.answer(decision.Do, decision.Failed, number) })
			together.Go(func() { s.deliver(s.shipmentCancelled(number)) })
		}
	}
	together.Wait()
	s.check("A 7/0", "B 1000/0")
}

// Quantities whose sum is no number are not in stock, and hold nothing.
func TestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put(`[{"sku":"A","on_hand":10}]`)
	s.deliver(s.placed(1, line("A", math.MaxInt64), line("A", math.MaxInt64)), s.placed(2, line("A", 3), line("A", math.MaxInt64-1)))
	s.check("A 10/0")
	if n := s.stated("StockRejected"); n != 2 {
		t.Errorf("%d rejections, want 2", n)
	}
}

// A count may not be below what orders hold; the answer says which and how much. Other faults are told apart.
func TestPutStock(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put(`[{"sku":"A","on_hand":5},{"sku":"B","on_hand":5}]`)
	s.deliver(s.placed(1, line("A", 3)))
	var problem *web.Problem
	err := s.client.Do(t.Context(), http.MethodPut, "/v1/stock", json.RawMessage(`[{"sku":"B","on_hand":1},{"sku":"A","on_hand":2}]`), nil)
	if !errors.As(err, &problem) || problem.Status != http.StatusConflict || len(problem.Errors) != 1 || problem.Errors[0] != (web.Fault{Location: "body[1].on_hand", Message: "orders hold 3"}) {
		t.Errorf("below what is held: %+v", err)
	}
	s.check("A 5/3", "B 5/0")
	if code := s.put(`[{"sku":"A","on_hand":3}]`); code != http.StatusOK {
		t.Errorf("just what is held: %d", code)
	}
	for body, want := range map[string]int{
		`[]`:                                    http.StatusOK,
		`[{"sku":"A","on_hand":-1}]`:            http.StatusUnprocessableEntity,
		`[{"sku":"A","on_hand":1000000000001}]`: http.StatusUnprocessableEntity,
		`[{"sku":"","on_hand":1}]`:              http.StatusUnprocessableEntity,
		`[{"sku":"A","on_hand":9},{"sku":"A","on_hand":8}]`:        http.StatusUnprocessableEntity,
		`[{"sku":"` + strings.Repeat("x", 201) + `","on_hand":1}]`: http.StatusUnprocessableEntity,
		`[{"sku":"A","On_hand":1}]`:                                http.StatusBadRequest,
		`[{"sku":"A","on_hand":1.5}]`:                              http.StatusBadRequest,
		`[{"sku":"A\u0000","on_hand":1}]`:                          http.StatusBadRequest,
		`{"sku":"A"}`:                                              http.StatusBadRequest,
	} {
		if code := s.put(body); code != want {
			t.Errorf("%s: %d, want %d", body, code, want)
		}
	}
	s.check("A 3/3", "B 5/0")
	var body struct {
		Stock []inventory.Count `json:"stock"`
	}
	if err := s.client.Do(t.Context(), http.MethodGet, "/v1/stock?sku=B", nil, &body); err != nil || len(body.Stock) != 1 || body.Stock[0] != (inventory.Count{"B", 5, 0, 5}) {
		t.Errorf("%+v %v", body, err)
	}
	for _, query := range []string{"sku=%00", "sku=%ff", "after=A%00"} {
		if err := s.client.Do(t.Context(), http.MethodGet, "/v1/stock?"+query, nil, nil); !errors.As(err, &problem) || problem.Status != http.StatusBadRequest {
			t.Errorf("%s: %v, want 400", query, err)
		}
	}
}
