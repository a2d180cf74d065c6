package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/event"
)

// row is an order's row in a transaction that holds its lock.
type row struct {
	state  Summary
	facts  int32 // the last seq
	stored bool  // the row is there, and locked
}

// receive is Handle for the tracker's own consumer. What it folds leaves no row in the inbox: the fact's own row absorbs a repeat, for good (decision 0020).
func (t *Tracker) receive(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	verdicts, err := t.Handle(ctx, tx, facts)
	for i := range verdicts {
		if verdicts[i].Outcome != inbox.Dead {
			verdicts[i] = inbox.Verdict{Outcome: inbox.Passed, Why: "folded"}
		}
	}
	return verdicts, err
}

// Handle folds a batch: an inbox.Handler with four statements, whatever its size. A fact that cannot be read is a dead letter.
func (t *Tracker) Handle(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	verdicts := make([]inbox.Verdict, len(facts))
	var cols factColumns
	var envelopes []event.Envelope
	for i, f := range facts {
		env, dead, err := t.reader.Read(f)
		if err != nil {
			return nil, err
		}
		if dead != nil {
			verdicts[i] = *dead
			continue
		}
		body, err := t.bodies.Encode(env.Fact)
		if err != nil {
			return nil, inbox.Permanent(fmt.Errorf("keep %s %s: %w", env.Fact.Type(), env.ID, err), "unkeepable")
		}
		cols.add(env, f, string(body))
		envelopes = append(envelopes, env)
	}
	if len(envelopes) == 0 {
		return verdicts, nil
	}
	orders := slices.Compact(slices.Sorted(slices.Values(cols.orders)))
	rows, err := lock(ctx, tx, orders)
	if err != nil {
		return nil, err
	}
	for i, env := range envelopes {
		r := rows[env.Order]
		r.facts++
		cols.seqs[i] = r.facts
		r.state = r.state.Add(env.Fact, env.OccurredAt)
	}
	if err := cols.insert(ctx, tx); err != nil {
		return nil, err
	}
	return verdicts, t.save(ctx, tx, orders, rows)
}

// lock locks the rows of sorted orders, and reads them. Those that are not there yet come empty.
func lock(ctx context.Context, tx pgx.Tx, orders []int64) (map[event.OrderNo]*row, error) {
	rows := make(map[event.OrderNo]*row, len(orders))
	for _, no := range orders {
		rows[event.OrderNo(no)] = &row{}
	}
	found, err := tx.Query(ctx, `
		SELECT order_no, state, facts FROM orders
		WHERE order_no = ANY($1) ORDER BY order_no FOR UPDATE`, orders)
	if err != nil {
		return nil, fmt.Errorf("lock %d orders: %w", len(orders), err)
	}
	defer found.Close()
	for found.Next() {
		var no event.OrderNo
		var state []byte
		var facts int32
		if err := found.Scan(&no, &state, &facts); err != nil {
			return nil, fmt.Errorf("read order: %w", err)
		}
		r := rows[no]
		r.stored, r.facts = true, facts
		if err := json.Unmarshal(state, &r.state); err != nil {
			return nil, fmt.Errorf("read the fold of order %s: %w", no, err)
		}
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("lock %d orders: %w", len(orders), err)
	}
	return rows, nil
}

// factColumns are new facts by column, for one statement.
type factColumns struct {
	ids, causes                   [][16]byte
	orders                        []int64
	seqs, hops, partitions        []int32
	types, owners, topics, bodies []string
	offsets                       []int64
	occurred, recorded            []time.Time
}

func (c *factColumns) add(e event.Envelope, f inbox.Fact, body string) {
	c.ids, c.causes = append(c.ids, e.ID), append(c.causes, e.CausationID)
	c.orders, c.seqs, c.hops = append(c.orders, int64(e.Order)), append(c.seqs, 0), append(c.hops, int32(e.Hop))
	c.types, c.owners = append(c.types, string(e.Fact.Type())), append(c.owners, string(e.Owner))
	c.topics, c.partitions, c.offsets = append(c.topics, f.Topic), append(c.partitions, f.Partition), append(c.offsets, f.Offset)
	c.occurred, c.recorded = append(c.occurred, e.OccurredAt), append(c.recorded, f.Timestamp)
	c.bodies = append(c.bodies, body)
}

// The natural key absorbs what the inbox has forgotten (D6).
const insertFacts = `
INSERT INTO facts (event_id, order_no, seq, type, owner, occurred_at, causation_id, hop, topic, partition, "offset", recorded_at, body)
SELECT f.event_id, f.order_no, f.seq, f.type, f.owner, f.occurred_at, nullif(f.causation_id, '00000000-0000-0000-0000-000000000000'),
       f.hop, f.topic, f.partition, f."offset", f.recorded_at, f.body::json
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[], $5::text[], $6::timestamptz[], $7::uuid[], $8::integer[],
            $9::text[], $10::integer[], $11::bigint[], $12::timestamptz[], $13::text[])
     AS f(event_id, order_no, seq, type, owner, occurred_at, causation_id, hop, topic, partition, "offset", recorded_at, body)
ORDER BY f.event_id
ON CONFLICT DO NOTHING`

func (c *factColumns) insert(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, insertFacts, c.ids, c.orders, c.seqs, c.types, c.owners, c.occurred, c.causes, c.hops,
		c.topics, c.partitions, c.offsets, c.recorded, c.bodies); err != nil {
		return fmt.Errorf("keep %d facts: %w", len(c.ids), err)
	}
	return nil
}

// savedRows are the rows of orders to write, as a table.
const savedRows = `
unnest($1::bigint[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::bigint[],
       $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::boolean[], $12::text[], $13::timestamptz[])
    AS n(order_no, state, facts, status, customer, currency, total, placed_at, updated_at, ended_at, needs_attention, waits_for, overdue_at)`

const updateOrders = `
UPDATE orders AS o SET state = n.state::json, facts = n.facts, status = n.status, customer = n.customer, currency = n.currency, total = n.total,
       placed_at = n.placed_at, updated_at = n.updated_at, ended_at = n.ended_at,
       needs_attention = n.needs_attention, waits_for = nullif(n.waits_for, ''), overdue_at = n.overdue_at
FROM ` + savedRows + `
WHERE o.order_no = n.order_no`

const insertOrders = `
INSERT INTO orders (order_no, state, facts, status, customer, currency, total, placed_at, updated_at, ended_at, needs_attention, waits_for, overdue_at)
SELECT n.order_no, n.state::json, n.facts, n.status, n.customer, n.currency, n.total, n.placed_at, n.updated_at, n.ended_at,
       n.needs_attention, nullif(n.waits_for, ''), n.overdue_at
FROM ` + savedRows + `
ORDER BY n.order_no
ON CONFLICT DO NOTHING`

// save writes the rows of sorted orders, in at most two statements.
func (t *Tracker) save(ctx context.Context, tx pgx.Tx, orders []int64, rows map[event.OrderNo]*row) error {
	var known, fresh []int64
	for _, no := range orders {
		if rows[event.OrderNo(no)].stored {
			known = append(known, no)
		} else {
			fresh = append(fresh, no)
		}
	}
	if err := t.write(ctx, tx, updateOrders, known, rows); err != nil {
		return err
	}
	return t.write(ctx, tx, insertOrders, fresh, rows)
}

// write runs updateOrders or insertOrders. A row that was not there when the others were locked, and is now, was made by the fold of another partition: this one has
// to begin again, as after any serialization failure.
func (t *Tracker) write(ctx context.Context, tx pgx.Tx, sql string, orders []int64, rows map[event.OrderNo]*row) error {
	n := len(orders)
	if n == 0 {
		return nil
	}
	var (
		states, statuses, customers, currencies, waitsFor = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		facts, totals, attention                          = make([]int32, n), make([]int64, n), make([]bool, n)
		placed, updated, ended, overdue                   = make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	)
	for i, no := range orders {
		r := rows[event.OrderNo(no)]
		state, err := json.Marshal(r.state)
		if err != nil {
			return fmt.Errorf("write the fold of order %d: %w", no, err)
		}
		s := r.state
		states[i], facts[i], statuses[i] = string(state), r.facts, string(s.Status())
		customers[i], currencies[i], totals[i] = strings.ReplaceAll(s.Customer, "\x00", "\uFFFD"), s.Currency, s.Total
		placed[i], updated[i], ended[i] = stamp(s.Placed()), stamp(s.Updated), stamp(s.Ended())
		waitsFor[i], overdue[i], attention[i] = outlook(s.Waits(t.waits))
	}
	tag, err := tx.Exec(ctx, sql, orders, states, facts, statuses, customers, currencies, totals,
		placed, updated, ended, attention, waitsFor, overdue)
	if err != nil {
		return fmt.Errorf("save %d orders: %w", n, err)
	}
	if tag.RowsAffected() < int64(n) {
		return fmt.Errorf("save %d orders: %w", n, &pgconn.PgError{
			Code: "40001", Severity: "ERROR", Message: "an order was first met by two transactions at once",
		})
	}
	return nil
}

// outlook condenses the waits into columns.
func outlook(waits []choreography.Wait) (waitsFor string, overdue *time.Time, attention bool) {
	for i, w := range waits {
		if i == 0 {
			waitsFor = string(w.Owner)
			if w.Step != "" {
				waitsFor += "/" + string(w.Step)
			}
		}
		if overdue == nil || w.Until.Before(*overdue) {
			overdue = &w.Until
		}
		attention = attention || w.Person
	}
	return waitsFor, overdue, attention
}

// stamp is the time for a nullable column.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
