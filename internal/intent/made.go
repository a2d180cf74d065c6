package intent

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
)

// gather adds what the provider's templates need to the calls that were leased: the bodies that earlier attempts were sent with, and
// for undos the request and the answer of the call with the effect.
func (l *lane) gather(ctx context.Context, tx pgx.Tx, calls []claimed) error {
	if len(calls) == 0 {
		return nil
	}
	if l.providers.Renders(l.provider) {
		if err := sentBefore(ctx, tx, calls); err != nil {
			return fmt.Errorf("read the bodies of earlier attempts: %w", err)
		}
	}
	if l.providers.History(l.provider) {
		if err := effects(ctx, tx, calls); err != nil {
			return fmt.Errorf("read the calls with the effects: %w", err)
		}
	}
	return nil
}

func sentBefore(ctx context.Context, tx pgx.Tx, calls []claimed) error {
	at := map[int64]int{}
	var ids []int64
	for i, c := range calls {
		at[c.id] = i
		ids = append(ids, c.id)
	}
	rows, err := tx.Query(ctx, `SELECT call_id, body FROM call_sent WHERE call_id = ANY($1)`, ids)
	if err != nil {
		return err
	}
	var id int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &body}, func() error {
		calls[at[id]].rendered = append([]byte{}, body...)
		return nil
	})
	return err
}

// effects reads, for each undo, its call with the effect. The answer is that of the attempt that succeeded, or of the look-up that
// found the effect.
func effects(ctx context.Context, tx pgx.Tx, calls []claimed) error {
	at := map[string][]int{}
	var keys []string
	for i, c := range calls {
		if c.call.Op == decision.Undo && c.call.Phase == decision.Attempting {
			do := effectKey(c.key)
			at[do] = append(at[do], i)
			keys = append(keys, do)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT c.key, b.body, a.body
		  FROM calls AS c
		  LEFT JOIN call_bodies AS b ON b.call_id = c.id
		  LEFT JOIN LATERAL (
		       SELECT body FROM call_attempts
		        WHERE call_id = c.id AND part = 'end' AND result = 'ok' AND kind IN ('ATTEMPT', 'ASK')
		        ORDER BY kind = 'ATTEMPT' DESC, n DESC LIMIT 1) AS a ON true
		 WHERE c.key = ANY($1)`, keys)
	if err != nil {
		return err
	}
	var key string
	var request []byte
	var answer *string
	_, err = pgx.ForEachRow(rows, []any{&key, &request, &answer}, func() error {
		for _, i := range at[key] {
			calls[i].doBody = append([]byte(nil), request...)
			if answer != nil {
				calls[i].doAnswer = []byte(*answer)
			}
		}
		return nil
	})
	return err
}

// sentRows are the bodies that were made for their provider at a call's first attempt.
type sentRows struct {
	ids    []int64
	bodies [][]byte
}

func (s *sentRows) add(c *claimed) {
	if c.begins && c.request.Rendered {
		s.ids, s.bodies = append(s.ids, c.id), append(s.bodies, c.request.Body)
	}
}

func (s *sentRows) insert(ctx context.Context, tx pgx.Tx) error {
	if len(s.ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO call_sent (call_id, body) SELECT call_id, body FROM unnest($1::bigint[], $2::bytea[]) AS s (call_id, body)
		    ON CONFLICT (call_id) DO NOTHING`, s.ids, s.bodies)
	if err != nil {
		return fmt.Errorf("record %d bodies as they are sent: %w", len(s.ids), err)
	}
	return nil
}
