package inbox

import (
	"context"
	"fmt"
	"time"
)

// A row may go when the fact can no longer be new: it occurred before the horizon, so a redelivery is too_old. Both times must have passed: occurred_at is another
// machine's clock and handled_at the database's. A dead fact's row stays as long as its dead letter is open, for the redrive to compare and set.
//
// The index of ages says on which pages to look, from the age of the last batch on, so that a batch does not read again what those before it have emptied. The consumer is
// compared in a way that keeps the planner from its key, which would have it read all that is not old.
const pruneSQL = `
WITH gone AS (
    DELETE FROM inbox WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM inbox AS i
        WHERE i.consumer || '' = $1 AND i.handled_at >= $4 AND i.handled_at < now() - $2::interval AND i.occurred_at < now() - $2::interval
          AND NOT (i.verdict = 'dead' AND EXISTS (
              SELECT 1 FROM dead_letters AS d WHERE d.consumer = i.consumer AND d.event_id = i.event_id AND d.state = 'open'))
        LIMIT $3
        FOR UPDATE SKIP LOCKED))
    RETURNING handled_at)
SELECT count(*), coalesce(min(handled_at), $4) FROM gone`

const pruneLettersSQL = `
DELETE FROM dead_letters WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dead_letters WHERE consumer = $1 AND state <> 'open' AND closed_at < now() - $2::interval
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED))`

// Prune forgets what a consumer handled, and which dead letters it closed, longer ago than age, in batches of at most batch rows, each a transaction of its own (CON-15). The database's clock
// counts, which also dated the rows: a machine whose clock is ahead forgets nothing too early. age must not be less than Config.Horizon and how far clocks differ, or a redelivery takes effect
// twice. It returns how many rows it deleted; several may run at once.
func Prune(ctx context.Context, db DB, consumer string, age time.Duration, batch int) (deleted int64, err error) {
	if batch < 1 {
		return 0, fmt.Errorf("prune the inbox of %s: a batch of %d rows", consumer, batch)
	}
	for from, n := time.Unix(0, 0), int64(batch); n == int64(batch); deleted += n {
		if err := db.QueryRow(ctx, pruneSQL, consumer, age, batch, from).Scan(&n, &from); err != nil {
			return deleted, fmt.Errorf("prune the inbox of %s: %w", consumer, err)
		}
	}
	for n := int64(batch); n == int64(batch); deleted += n {
		tag, err := db.Exec(ctx, pruneLettersSQL, consumer, age, batch)
		if err != nil {
			return deleted, fmt.Errorf("prune the dead letters of %s: %w", consumer, err)
		}
		n = tag.RowsAffected()
	}
	return deleted, nil
}

// Outlived counts a consumer's open dead letters whose facts occurred before the horizon, and says how far beyond it the oldest is (D6). A redrive still finds their inbox rows, which stay
// with them; but what else of their time is remembered is forgotten, so somebody should decide.
func Outlived(ctx context.Context, db DB, consumer string, horizon time.Duration) (letters int64, beyond time.Duration, err error) {
	var seconds float64
	err = db.QueryRow(ctx, `
SELECT count(*), coalesce(extract(epoch FROM now() - $2::interval - min(occurred_at)), 0)::float8
FROM dead_letters WHERE consumer = $1 AND state = 'open' AND occurred_at < now() - $2::interval`, consumer, horizon).Scan(&letters, &seconds)
	if err != nil {
		return 0, 0, fmt.Errorf("count the dead letters of %s that outlive the horizon: %w", consumer, err)
	}
	return letters, time.Duration(seconds * float64(time.Second)), nil
}
