package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/choreography"
	"chorus/internal/event"
)

// Stated is a fact about an order that stands in the participant's outbox: it is committed, whether it is published or not.
type Stated struct {
	ID         event.ID   `json:"id"`
	Type       event.Type `json:"type"`
	OccurredAt time.Time  `json:"occurred_at"`
}

// mostStuck is how many UndoStuck facts of an order are looked for: each after the first took a person's retry.
const mostStuck = 8

// stated looks up what the participant has stated about an order because of the given facts, of its calls, and of what people did. The outbox is by
// id and has no index by order, which each fact would pay for; but ids are derived from their causes, so they are known beforehand.
func (s Source) stated(ctx context.Context, order event.OrderNo, facts []event.ID) ([]Stated, error) {
	ids, err := s.byHand(ctx, order)
	if err != nil {
		return nil, err
	}
	causes := slices.Clone(facts)
	if s.Calls {
		of, err := s.causes(ctx, order)
		if err != nil {
			return nil, err
		}
		causes = append(causes, of...)
	}
	for _, c := range causes {
		for _, t := range states(s.Participant) {
			generations := 1
			if t == "UndoStuck" {
				generations = mostStuck
			}
			for g := range generations {
				ids = append(ids, event.Derive(c.Time(), s.Participant, order, string(t), g))
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, _ := s.DB.Query(ctx, `SELECT id, type, occurredat FROM outbox WHERE id = ANY($1::uuid[]) ORDER BY occurredat, id`, ids)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (st Stated, err error) {
		err = row.Scan((*[16]byte)(&st.ID), &st.Type, &st.OccurredAt)
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was stated about order %s: %w", order, err)
	}
	return found, nil
}

// states lists the types that a participant states.
func states(who event.Participant) (types []event.Type) {
	for _, r := range choreography.Table() {
		if r.Who == who {
			types = append(types, r.States...)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// causes are the facts and requests that the order's calls were planned because of.
func (s Source) causes(ctx context.Context, order event.OrderNo) ([]event.ID, error) {
	rows, _ := s.DB.Query(ctx, `SELECT causation_id FROM calls WHERE order_no = $1 AND causation_id IS NOT NULL`, int64(order))
	ids, err := pgx.CollectRows(rows, scanID)
	if err != nil {
		return nil, fmt.Errorf("read the causes of calls of order %s: %w", order, err)
	}
	return ids, nil
}

// byHand are the facts that people's actions led to at once.
func (s Source) byHand(ctx context.Context, order event.OrderNo) ([]event.ID, error) {
	rows, _ := s.DB.Query(ctx, `SELECT jsonb_array_elements_text(after->'facts')::uuid FROM audit WHERE order_no = $1 AND jsonb_typeof(after->'facts') = 'array'`, int64(order))
	ids, err := pgx.CollectRows(rows, scanID)
	if err != nil {
		return nil, fmt.Errorf("read what people did about order %s: %w", order, err)
	}
	return ids, nil
}

func scanID(row pgx.CollectableRow) (id event.ID, err error) {
	err = row.Scan((*[16]byte)(&id))
	return id, err
}
