package tracker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

// ErrUnknown says that no fact of the order has been folded yet.
var ErrUnknown = errors.New("no fact of this order has been read yet")

// Timeline returns the story of an order, or ErrUnknown.
func (t *Tracker) Timeline(ctx context.Context, no event.OrderNo) (Timeline, error) {
	facts, err := t.Facts(ctx, no, 0)
	if err != nil {
		return Timeline{}, err
	}
	if len(facts) == 0 {
		return Timeline{}, fmt.Errorf("order %s: %w", no, ErrUnknown)
	}
	return Fold(no, facts, t.waits, time.Now()), nil
}

// Facts returns an order's facts that were folded after the given seq, as they were folded. From 0 on they are all there are.
func (t *Tracker) Facts(ctx context.Context, no event.OrderNo, after int64) ([]Fact, error) {
	rows, err := t.db.Query(ctx, `
		SELECT event_id, seq, type, owner, occurred_at, causation_id, hop, topic, partition, "offset", recorded_at, folded_at, body
		FROM facts WHERE order_no = $1 AND seq > $2 ORDER BY seq`, int64(no), after)
	if err != nil {
		return nil, fmt.Errorf("read facts of order %s: %w", no, err)
	}
	facts, err := pgx.CollectRows(rows, t.scanFact)
	if err != nil {
		return nil, fmt.Errorf("read facts of order %s: %w", no, err)
	}
	return facts, nil
}

func (t *Tracker) scanFact(row pgx.CollectableRow) (f Fact, err error) {
	var id [16]byte
	var cause *[16]byte
	var body []byte
	err = row.Scan(&id, &f.Seq, &f.Type, &f.Owner, &f.OccurredAt, &cause, &f.Hop, &f.Topic, &f.Partition, &f.Offset, &f.RecordedAt, &f.FoldedAt, &body)
	if err != nil {
		return f, err
	}
	f.ID, f.Body = id, body
	if cause != nil {
		f.CausationID = *cause
	}
	f.OccurredAt, f.RecordedAt, f.FoldedAt = f.OccurredAt.UTC(), f.RecordedAt.UTC(), f.FoldedAt.UTC()
	f.Said, err = t.bodies.Decode(f.Type, body)
	return f, err
}

func (t *Tracker) folded(ctx context.Context, id event.ID) (folded bool, err error) {
	err = t.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM facts WHERE event_id = $1)`, [16]byte(id)).Scan(&folded)
	if err != nil {
		return false, fmt.Errorf("look for event %s: %w", id, err)
	}
	return folded, nil
}

// Filter chooses orders for List. The zero value chooses all.
type Filter struct {
	Status    order.Status  // empty for any
	Attention bool          // only those that need a person or are overdue
	Ended     *bool         // only those that have, or have not, come to an end (Entry.EndedAt)
	From      event.OrderNo // not below this number
	After     event.OrderNo // the cursor: only numbers below it; 0 begins with the newest
	Limit     int           // 1 to 1000; 0 means 50
}

// Entry is an order in a list.
type Entry struct {
	Number         event.OrderNo `json:"number"`
	Status         order.Status  `json:"status"`
	Customer       string        `json:"customer"`
	Currency       string        `json:"currency"`
	Total          int64         `json:"total"` // minor units
	NeedsAttention bool          `json:"needs_attention"`
	Overdue        bool          `json:"overdue,omitempty"`
	WaitsFor       string        `json:"waits_for,omitempty"` // "owner" or "owner/step"
	PlacedAt       *time.Time    `json:"placed_at,omitempty"`
	UpdatedAt      *time.Time    `json:"updated_at,omitempty"`
	EndedAt        *time.Time    `json:"ended_at,omitempty"` // confirmed, or wholly undone
}

const listOrders = `
SELECT order_no, status, customer, currency, total, needs_attention, coalesce(overdue_at < now(), false), coalesce(waits_for, ''),
       placed_at, updated_at, ended_at
FROM orders
WHERE order_no >= $1 AND order_no < $2`

// List returns a page of orders, the newest number first, and the cursor of the next page; 0 when there is none.
func (t *Tracker) List(ctx context.Context, f Filter) ([]Entry, event.OrderNo, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	f.Limit = min(max(f.Limit, 1), 1000)
	if f.After == 0 {
		f.After = math.MaxInt64
	}
	// Only the conditions that are asked for, so that each list is read from the index that fits it.
	sql, args := listOrders, []any{int64(f.From), int64(f.After), f.Limit + 1}
	if f.Status != "" {
		args = append(args, string(f.Status))
		sql += " AND status = $4"
	}
	if f.Attention {
		sql += " AND (needs_attention OR waiting AND overdue_at < now())"
	}
	if f.Ended != nil && *f.Ended {
		sql += " AND ended_at IS NOT NULL"
	} else if f.Ended != nil {
		sql += " AND ended_at IS NULL"
	}
	rows, err := t.db.Query(ctx, sql+" ORDER BY order_no DESC LIMIT $3", args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list orders: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		err = row.Scan(&e.Number, &e.Status, &e.Customer, &e.Currency, &e.Total, &e.NeedsAttention, &e.Overdue, &e.WaitsFor, &e.PlacedAt, &e.UpdatedAt, &e.EndedAt)
		return e, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list orders: %w", err)
	}
	if len(entries) <= f.Limit {
		return entries, 0, nil
	}
	entries = entries[:f.Limit]
	return entries, entries[f.Limit-1].Number, nil
}

// Counts are how many orders there are.
type Counts struct {
	Total     int64                  `json:"total"`
	ByStatus  map[order.Status]int64 `json:"by_status"`
	Waiting   map[string]int64       `json:"waiting"`   // by the first of what they wait for: "owner" or "owner/step"
	Attention int64                  `json:"attention"` // what Filter.Attention chooses: of the next two, either or both
	Person    int64                  `json:"person"`    // a step is stuck
	Overdue   int64                  `json:"overdue"`   // something has not come in the time that it is allowed
	At        time.Time              `json:"at"`
}

// counted keeps counts for a moment: counting reads an index from end to end, however many people look.
type counted struct {
	mu   sync.Mutex
	last Counts        // guarded by mu
	keep time.Duration // guarded by mu: how long last is good
}

// Counting takes as long as there are orders. Counts are kept for a second at least, and for so much longer that it never
// takes more than a twentieth of the time.
const (
	keepCounts = time.Second
	countShare = 20
)

// Counts counts the orders, as of a moment ago.
func (t *Tracker) Counts(ctx context.Context) (Counts, error) {
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	if time.Since(t.counts.last.At) < t.counts.keep {
		return t.counts.last, nil
	}
	c := Counts{ByStatus: map[order.Status]int64{}, Waiting: map[string]int64{}, At: time.Now().UTC()}
	rows, err := t.db.Query(ctx, `
		SELECT 'status', status, count(*) FROM orders GROUP BY status
		UNION ALL SELECT 'waits', waits_for, count(*) FROM orders WHERE waiting GROUP BY waits_for
		UNION ALL SELECT 'attention', '', count(*) FROM orders WHERE needs_attention OR waiting AND overdue_at < now()
		UNION ALL SELECT 'person', '', count(*) FROM orders WHERE needs_attention
		UNION ALL SELECT 'overdue', '', count(*) FROM orders WHERE waiting AND overdue_at < now()`)
	if err != nil {
		return c, fmt.Errorf("count orders: %w", err)
	}
	var what, name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&what, &name, &n}, func() error {
		switch what {
		case "status":
			c.ByStatus[order.Status(name)] = n
			c.Total += n
		case "waits":
			c.Waiting[name] = n
		case "attention":
			c.Attention = n
		case "person":
			c.Person = n
		case "overdue":
			c.Overdue = n
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count orders: %w", err)
	}
	t.counts.last, t.counts.keep = c, max(keepCounts, countShare*time.Since(c.At))
	return c, nil
}
