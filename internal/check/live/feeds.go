package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"chorus/internal/check"
	"chorus/internal/event"
)

// mostRows bounds how many rows of an outbox are read, the newest: some hundred bytes each. Older ones have been in their topic for long, or the
// publisher is that far behind, which the states of their orders show, too.
const mostRows = 200_000

// readOutboxes reads the rows that stand in the outboxes, before the topics: what is there later than its row is found.
func (v *verifier) readOutboxes(ctx context.Context) error {
	if len(v.src.Kafka) == 0 {
		v.report.Unseen(check.Feeds, "anything: the topics are not read")
		return nil
	}
	var all []check.OutboxRow
	for _, p := range v.participants() {
		rows, err := v.readOutbox(ctx, p)
		if err != nil {
			return err
		}
		all = append(all, rows...)
	}
	v.topics.rows = check.NewOutboxes(all)
	return v.position(ctx)
}

func (v *verifier) readOutbox(ctx context.Context, p participant) (all []check.OutboxRow, err error) {
	for before := (event.ID{}); ; {
		page, ok, err := p.client.Outbox(ctx, before, v.cfg.Page)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read outbox of %s: %w", p.name, err)
		case !ok:
			v.report.Unseen(check.Feeds, "the outbox of %s, which does not show it", p.name)
			return nil, nil
		}
		for _, r := range page {
			all = append(all, check.OutboxRow{ID: r.ID, Topic: r.Topic, Key: r.Key, Type: r.Type, Written: r.OccurredAt, Committed: r.CommittedAt})
		}
		if len(page) < v.cfg.Page {
			return all, nil
		}
		if len(all) >= mostRows {
			v.report.Unseen(check.Feeds, "the rows of %s that are older than the newest %d", p.name, len(all))
			return all, nil
		}
		before = page[len(page)-1].ID
	}
}

// positionWithin bounds how long a publisher is waited for: one that is frozen takes a connection and says nothing.
const positionWithin = 2 * time.Second

// position takes the positions that the publisher states. It says so once when it cannot.
func (v *verifier) position(ctx context.Context) error {
	if v.src.Publisher == "" {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, positionWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(asking, http.MethodGet, v.src.Publisher+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ctx.Err() // it is away, which feeds says
	}
	defer resp.Body.Close()
	var answer struct {
		Sources []struct{ Source, Confirmed string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return ctx.Err()
	}
	for _, s := range answer.Sources {
		var high, low uint32
		if n, _ := fmt.Sscanf(s.Confirmed, "%X/%X", &high, &low); n == 2 {
			v.topics.rows.Position("publisher of "+s.Source, uint64(high)<<32|uint64(low))
			v.positions++
		}
	}
	return nil
}

// feeds waits, as long as for a suspect, until each row of the outboxes is in its topic.
func (v *verifier) feeds(ctx context.Context) error {
	rows := v.topics.rows
	if rows == nil {
		return nil
	}
	for _, pause := range v.cfg.Pauses {
		if rows.Complete() {
			break
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
		if err := v.topics.advance(ctx); err != nil {
			return err
		}
	}
	if err := v.position(ctx); err != nil {
		return err
	}
	whole := v.topics.state == check.Whole
	v.report.Add(rows.Violations(whole)...)
	figure := func(name string, n int) check.Figure { return check.Figure{Name: name, Value: int64(n)} }
	v.report.Figures(check.Feeds, figure("rows", rows.Rows()), figure("repeats", rows.Repeats()), figure("records without a row", int(rows.Strangers)))
	if n := rows.Missing(); n > 0 && !whole {
		v.report.Unseen(check.Feeds, "%d rows: the topics have forgotten their beginning", n)
	}
	if n := rows.Strangers; n > 0 {
		v.report.Unseen(check.Feeds, "the rows of %d records: outboxes are pruned, and published shows what is missing of those", n)
	}
	if n := rows.Unordered; n > 0 {
		v.report.Unseen(check.Feeds, "the order of %d rows: their server did not keep the times of their commits (track_commit_timestamp)", n)
	}
	if v.positions == 0 {
		v.report.Unseen(check.Feeds, "the publisher's positions: it does not answer, or its address is not known")
	}
	return nil
}
