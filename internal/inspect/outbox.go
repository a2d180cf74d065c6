package inspect

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/internal/web"
)

// OutboxRow is a row that still stands in the outbox, published or not: the publisher prunes it some time after.
type OutboxRow struct {
	ID          event.ID   `json:"id"`
	Topic       string     `json:"topic"`
	Key         string     `json:"key"`
	Type        event.Type `json:"type"`
	OccurredAt  time.Time  `json:"occurred_at"`
	CommittedAt time.Time  `json:"committed_at,omitzero"` // unknown where the server does not keep it (track_commit_timestamp)
}

// lastID is above all ids.
var lastID = event.ID{0: 0xff, 1: 0xff, 2: 0xff, 3: 0xff, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff, 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}

// Descending, since the newest are those that may be missing. xmin is the transaction that wrote the row: nobody updates an outbox.
const selectOutbox = `
SELECT id, aggregatetype || '.events', aggregateid, type, occurredat,
       CASE WHEN current_setting('track_commit_timestamp')::boolean THEN pg_xact_commit_timestamp(xmin) END
  FROM outbox WHERE id < $1 ORDER BY id DESC LIMIT $2`

// PageOutbox reads a page of the outbox, by falling ids below one.
func (s Source) PageOutbox(ctx context.Context, before event.ID, limit int) ([]OutboxRow, error) {
	if !s.States { // whoever has states has an outbox
		return nil, nil
	}
	rows, _ := s.DB.Query(ctx, selectOutbox, before, limit)
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r OutboxRow, err error) {
		var committed *time.Time
		err = row.Scan((*[16]byte)(&r.ID), &r.Topic, &r.Key, &r.Type, &r.OccurredAt, &committed)
		if committed != nil {
			r.CommittedAt = *committed
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return page, nil
}

func (s Source) getOutbox(w http.ResponseWriter, r *http.Request) {
	q := params{values: r.URL.Query()}
	limit := q.number("limit", 1000, 1, 10000)
	before := lastID
	if text := q.values.Get("before"); text != "" {
		id, err := event.ParseID(text)
		if err != nil {
			q.fail("before", err.Error())
		}
		before = id
	}
	if q.refused(w) {
		return
	}
	page, err := s.PageOutbox(r.Context(), before, int(limit))
	reply(w, map[string]any{"rows": append([]OutboxRow{}, page...)}, err)
}

// Outbox asks for a page of the outbox: the rows with the highest ids below one, or with the zero id of all. ok is false for a participant
// that does not show it, being of an earlier version.
func (c Client) Outbox(ctx context.Context, before event.ID, limit int) (rows []OutboxRow, ok bool, err error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if !before.IsZero() {
		q.Set("before", before.String())
	}
	var body struct {
		Rows []OutboxRow `json:"rows"`
	}
	err = c.Do(ctx, http.MethodGet, "/v1/inspect/outbox?"+q.Encode(), nil, &body)
	if problem, isProblem := err.(*web.Problem); isProblem && problem.Status == http.StatusNotFound {
		return nil, false, nil
	}
	return body.Rows, true, err
}
