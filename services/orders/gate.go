package orders

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// gate lets a deadline fire only when every fact that was in the topics before it has been handled, by whichever
// replica (D4): a payment that was taken in time wins, however far behind the consumers are. For each order whose deadline has come it asks once how
// far the order's partitions reach, and waits until the fences have passed that. It fails towards waiting: with Kafka away no deadline fires.
//
// What it remembers is lost in a crash, and asked anew: later ends only make it wait longer. It is used by one goroutine.
type gate struct {
	log     *slog.Logger
	db      *pgxpool.Pool
	ends    func(ctx context.Context, topics []string) (ends, error)
	topics  []string
	waiting map[event.OrderNo]waiting // an order is placed once, and has one deadline
	swept   time.Time                 // when what nobody asks about any more was last forgotten
	blind   bool                      // Kafka did not answer last time; it is told once
}

// waiting are the marks of an order.
type waiting struct {
	marks []mark
	asked time.Time // last
}

// keepMarks is how long the marks of an order are kept that is not asked about: its timer may be in another part of a long list, and marks that are read
// anew lie further on.
const keepMarks = 10 * time.Minute

// ends are how far topics reach for a reader of committed records, and which topics they are.
type ends struct {
	offsets broker.Offsets
	ids     map[string][16]byte
}

// mark is an offset that the fence of a partition must reach.
type mark struct {
	topic     string
	id        [16]byte
	partition int32
	end       int64
}

// askWithin bounds the question about ends, which keeps other timers waiting.
const askWithin = 3 * time.Second

func newGate(log *slog.Logger, db *pgxpool.Pool, ask func(ctx context.Context, topics []string) (ends, error)) *gate {
	g := &gate{log: log, db: db, ends: ask, waiting: map[event.OrderNo]waiting{}, swept: time.Now()}
	for _, owner := range choreography.Sources(event.Orders) {
		g.topics = append(g.topics, owner.Topic())
	}
	return g
}

// Pass returns the timers that may fire: those of placed orders whose topics are read, and all others at once.
func (g *gate) Pass(ctx context.Context, due []participant.Due) ([]participant.Due, error) {
	placed, err := g.placed(ctx, due)
	if err != nil {
		return nil, err
	}
	g.forget(due, placed)
	g.learn(ctx, due, placed)
	var fences map[fence]int64
	if len(g.waiting) > 0 {
		if fences, err = g.fences(ctx); err != nil {
			return nil, err
		}
	}
	var open []participant.Due
	for _, d := range due {
		w, known := g.waiting[d.Order]
		if !placed[d.Order] || known && passed(w.marks, fences) {
			open = append(open, d)
		}
	}
	return open, nil
}

// placed finds out which of the orders are still PLACED.
func (g *gate) placed(ctx context.Context, due []participant.Due) (map[event.OrderNo]bool, error) {
	orders := make([]int64, len(due))
	for i, d := range due {
		orders[i] = int64(d.Order)
	}
	rows, err := g.db.Query(ctx, `SELECT order_no FROM order_states WHERE order_no = ANY($1) AND phase = $2`, orders, string(order.Placed))
	if err != nil {
		return nil, fmt.Errorf("read the phases of due orders: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[event.OrderNo])
	if err != nil {
		return nil, fmt.Errorf("read the phases of due orders: %w", err)
	}
	placed := make(map[event.OrderNo]bool, len(found))
	for _, number := range found {
		placed[number] = true
	}
	return placed, nil
}

// forget drops what is not waited for any more.
func (g *gate) forget(due []participant.Due, placed map[event.OrderNo]bool) {
	now := time.Now()
	for _, d := range due {
		switch w, known := g.waiting[d.Order]; {
		case !placed[d.Order]:
			delete(g.waiting, d.Order)
		case known:
			w.asked = now
			g.waiting[d.Order] = w
		}
	}
	if now.Sub(g.swept) < keepMarks {
		return
	}
	g.swept = now
	maps.DeleteFunc(g.waiting, func(_ event.OrderNo, w waiting) bool { return now.Sub(w.asked) > keepMarks })
}

// learn reads the ends for orders that are seen for the first time. It runs after the due time was seen in the database, hence after the deadline.
func (g *gate) learn(ctx context.Context, due []participant.Due, placed map[event.OrderNo]bool) {
	var fresh []participant.Due
	for _, d := range due {
		if _, known := g.waiting[d.Order]; placed[d.Order] && !known {
			fresh = append(fresh, d)
		}
	}
	if len(fresh) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	reached, err := g.ends(ctx, g.topics)
	for _, topic := range g.topics {
		if err == nil && len(reached.offsets[topic]) == 0 {
			err = fmt.Errorf("topic %s has no partitions", topic)
		}
	}
	if err != nil {
		if !g.blind {
			g.log.Warn("deadlines wait for Kafka", "orders", len(fresh), "err", err)
		}
		g.blind = true
		return
	}
	g.blind = false
	for _, d := range fresh {
		marks := make([]mark, 0, len(g.topics))
		for _, topic := range g.topics {
			p := partitionOf(d.Order.String(), len(reached.offsets[topic]))
			marks = append(marks, mark{topic, reached.ids[topic], p, reached.offsets[topic][p]})
		}
		g.waiting[d.Order] = waiting{marks, time.Now()}
	}
}

// fence names a partition of one incarnation of a topic.
type fence struct {
	topic     string
	id        [16]byte
	partition int32
}

func (g *gate) fences(ctx context.Context) (map[fence]int64, error) {
	rows, err := g.db.Query(ctx, `
		SELECT topic, topic_id, partition, next_offset FROM partition_owner WHERE consumer = $1`, string(event.Orders))
	if err != nil {
		return nil, fmt.Errorf("read the fences: %w", err)
	}
	fences := map[fence]int64{}
	var f fence
	var next int64
	if _, err := pgx.ForEachRow(rows, []any{&f.topic, &f.id, &f.partition, &next}, func() error {
		fences[f] = next
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the fences: %w", err)
	}
	return fences, nil
}

// passed reports whether every fence has reached its mark. A partition that has never held a record has none and needs none.
func passed(marks []mark, fences map[fence]int64) bool {
	for _, m := range marks {
		if m.end > 0 && fences[fence{m.topic, m.id, m.partition}] < m.end {
			return false
		}
	}
	return true
}
