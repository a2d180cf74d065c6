package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How often held facts are looked for whose turn has come, and how many are looked at in one go.
const (
	releaseEvery = time.Second
	releaseBatch = 500
)

// releaseLoop handles held facts when those before them have been redriven or discarded. Several replicas may do it at once, and a person at the same time: each fact is a redrive, which takes effect
// once, and a lane counts it as held until that is committed, so nothing overtakes it.
func (c *Consumer) releaseLoop(ctx context.Context) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // it is of no more use either way
		}
	}()
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = c.cfg.Connect(ctx)
		}
		if err == nil {
			err = c.releaseAll(ctx, conn)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("held facts could not be released, will try again", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// releaseAll releases until nothing can be.
func (c *Consumer) releaseAll(ctx context.Context, conn *pgx.Conn) error {
	for {
		released, err := c.releaseRound(ctx, conn)
		if err != nil || released == 0 {
			return err
		}
	}
}

// releasableSQL finds the held facts that are the first open letter of their key.
const releasableSQL = `
SELECT id FROM dead_letters AS h
WHERE h.consumer = $1 AND h.state = 'open' AND h.reason = $2
  AND NOT EXISTS (SELECT FROM dead_letters AS d
      WHERE d.consumer = h.consumer AND d.topic = h.topic AND d.state = 'open' AND sha256(d.key) = sha256(h.key) AND d.id < h.id)
ORDER BY id LIMIT $3`

// releaseRound handles the first held fact of each key that has no other dead letter before it, and counts those that are not held any more. One whose surroundings are
// out of order stays held, and is not in the way of other keys.
func (c *Consumer) releaseRound(ctx context.Context, conn *pgx.Conn) (released int, err error) {
	rows, _ := conn.Query(ctx, releasableSQL, c.cfg.Consumer, ReasonHeld, releaseBatch)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("look for held facts to release: %w", err)
	}
	var faults []error
	for _, id := range ids {
		switch err := c.release(ctx, conn, id); {
		case err == nil:
			released++
		case ctx.Err() != nil, conn.IsClosed():
			return released, errors.Join(append(faults, err)...)
		case errors.Is(err, ErrClosed), errors.Is(err, ErrHandled), errors.Is(err, ErrHeld): // somebody else was faster
		default:
			faults = append(faults, err)
		}
	}
	return released, errors.Join(faults...)
}

// release handles one held fact. If it fails by its own fault, as often as a lane would have tried it, it is a dead letter like any other from now on.
func (c *Consumer) release(ctx context.Context, db DB, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.BatchTimeout)
	defer cancel()
	l, err := Letter(ctx, db, id)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("release held dead letter %d", id)
	for attempt := 1; ; attempt++ {
		verdict, failed, err := redrive(ctx, db, what, l, RedriveOptions{}, c.handler)
		switch {
		case err == nil:
			c.log.Info("held fact released", "topic", l.Record.Topic, "partition", l.Record.Partition, "offset", l.Record.Offset, "verdict", verdict.Outcome)
			if c.cfg.Committed != nil {
				c.cfg.Committed([]Fact{identify(l.Record).fact}, []Verdict{verdict})
			}
			return nil
		case failed == nil:
			return err
		}
		if class, _ := classify(err); class == never || attempt >= c.cfg.Attempts {
			c.log.Warn("dead letter", "topic", l.Record.Topic, "partition", l.Record.Partition, "offset", l.Record.Offset,
				"type", l.EventType, "reason", failed.reason, "detail", failed.detail)
			return noteFailure(ctx, db, l, *failed, nil)
		}
	}
}
