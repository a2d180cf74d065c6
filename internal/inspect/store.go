package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/intent"
)

// Source is the participant that is inspected.
type Source struct {
	Participant event.Participant
	DB          inbox.DB
	States      bool          // it has order states
	Calls       bool          // it calls providers
	Handler     inbox.Handler // for redriving a dead letter
}

// mostActions bounds how many of an order's actions are shown with it.
const mostActions = 100

// Order reads what the participant knows of an order, and its verdicts on the facts.
func (s Source) Order(ctx context.Context, order event.OrderNo, facts []event.ID) (Order, error) {
	o := Order{Participant: s.Participant}
	if s.States {
		err := s.DB.QueryRow(ctx, `
			SELECT phase, state, updated_at FROM order_states WHERE order_no = $1`, int64(order)).Scan(&o.Phase, &o.State, &o.UpdatedAt)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return o, fmt.Errorf("read state of order %s: %w", order, err)
		}
		o.Known = err == nil
	}
	var err error
	if o.Inbox, err = s.verdicts(ctx, facts); err != nil {
		return o, err
	}
	if s.States { // whoever has states has an outbox
		if o.Stated, err = s.stated(ctx, order, facts); err != nil {
			return o, err
		}
	}
	if o.Audit, err = audit.List(ctx, s.DB, audit.Filter{Order: order}, mostActions); err != nil || !s.Calls {
		return o, err
	}
	o.Calls, err = intent.Calls(ctx, s.DB, order)
	return o, err
}

func (s Source) verdicts(ctx context.Context, facts []event.ID) ([]Verdict, error) {
	if len(facts) == 0 {
		return nil, nil
	}
	ids := make([][16]byte, len(facts))
	for i, id := range facts {
		ids[i] = id
	}
	rows, err := s.DB.Query(ctx, `
		SELECT event_id, verdict, why, duplicates, handled_at,
		       CASE WHEN verdict = 'dead' THEN (SELECT max(d.id) FROM dead_letters AS d
		            WHERE d.consumer = $1 AND d.event_id = i.event_id AND d.state = 'open') END
		FROM inbox AS i
		WHERE consumer = $1 AND event_id = ANY($2::uuid[]) ORDER BY handled_at, event_id`, string(s.Participant), ids)
	if err != nil {
		return nil, fmt.Errorf("read inbox: %w", err)
	}
	verdicts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Verdict, error) {
		var v Verdict
		var letter *int64
		err := row.Scan((*[16]byte)(&v.EventID), &v.Verdict, &v.Why, &v.Duplicates, &v.HandledAt, &letter)
		if letter != nil {
			v.Letter = *letter
		}
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("read inbox: %w", err)
	}
	return verdicts, nil
}

// PageStates reads a page of all order states, by number.
func (s Source) PageStates(ctx context.Context, after event.OrderNo, limit int) ([]State, error) {
	if !s.States {
		return nil, nil
	}
	rows, err := s.DB.Query(ctx, `
		SELECT order_no, phase, state, updated_at FROM order_states
		WHERE order_no > $1 ORDER BY order_no LIMIT $2`, int64(after), limit)
	if err != nil {
		return nil, fmt.Errorf("read states: %w", err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (State, error) {
		var st State
		err := row.Scan(&st.Order, &st.Phase, &st.State, &st.UpdatedAt)
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("read states: %w", err)
	}
	return states, nil
}

// Figures counts.
func (s Source) Figures(ctx context.Context) (Figures, error) {
	f := Figures{Participant: s.Participant, Phases: map[string]int64{}}
	err := s.DB.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(duplicates), 0) FROM inbox WHERE consumer = $1 AND duplicates > 0),
		       (SELECT count(*) FROM dead_letters WHERE consumer = $1 AND state = 'open')`,
		string(s.Participant)).Scan(&f.Duplicates, &f.DeadLetters)
	if err != nil {
		return f, fmt.Errorf("count: %w", err)
	}
	if s.Calls {
		if f.Backlog, err = intent.Backlog(ctx, s.DB); err != nil {
			return f, err
		}
	}
	if !s.States {
		return f, nil
	}
	rows, err := s.DB.Query(ctx, `SELECT phase, count(*) FROM order_states GROUP BY phase`)
	if err != nil {
		return f, fmt.Errorf("count phases: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var phase string
		var n int64
		if err := rows.Scan(&phase, &n); err != nil {
			return f, fmt.Errorf("count phases: %w", err)
		}
		f.Phases[phase] = n
	}
	return f, rows.Err()
}

// Letters lists the dead letters that a filter chooses, the oldest first, without their bytes.
func (s Source) Letters(ctx context.Context, f LetterFilter, limit int) ([]Letter, error) {
	dead, err := inbox.DeadLetters(ctx, s.DB, f.of(s.Participant), limit)
	if err != nil {
		return nil, err
	}
	letters := make([]Letter, len(dead))
	for i, d := range dead {
		letters[i] = s.letter(d)
		letters[i].Value, letters[i].Headers = nil, nil
	}
	return letters, nil
}

func (s Source) letter(d inbox.DeadLetter) Letter {
	l := Letter{
		ID: d.ID, Participant: s.Participant, Topic: d.Record.Topic, Partition: d.Record.Partition, Offset: d.Record.Offset,
		EventID: d.EventID, EventType: d.EventType, Key: string(d.Record.Key), Value: d.Record.Value, OccurredAt: d.OccurredAt,
		Reason: d.Reason, Detail: d.Detail, Attempts: d.Attempts, FirstFailedAt: d.FirstFailedAt, LastFailedAt: d.LastFailedAt,
		State: d.State, ClosedAt: d.ClosedAt, ClosedWhy: d.ClosedWhy, Headers: map[string]string{},
	}
	for _, h := range d.Record.Headers {
		l.Headers[h.Key] = string(h.Value)
	}
	return l
}
