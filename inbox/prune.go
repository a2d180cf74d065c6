package inbox

import (
	"context"
	"fmt"
	"time"
)

// A row may go when the fact can no longer be new: it occurred before the horizon, so a redelivery is too_old. Both times must have passed: occurred_at is another
// machine's clock and handled_at the database's. A dead fact's row stays as long as its dead letter is open, for the redrive to compare and set.
const pruneSQL = `
DELETE FROM inbox WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM inbox AS i
    WHERE i.consumer = $1 AND i.handled_at < now() - $2::interval AND i.occurred_at < now() - $2::interval
      AND NOT (i.verdict = 'dead' AND EXISTS (
          SELECT 1 FROM dead_letters AS d WHERE d.consumer = i.consumer AND d.event_id = i.event_id AND d.state = 'open'))
    ORDER BY i.handled_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED))`

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
	for _, sql := range []string{pruneSQL, pruneLettersSQL} {
		for {
			tag, err := db.Exec(ctx, sql, consumer, age, batch)
			if err != nil {
				return deleted, fmt.Errorf("prune the inbox of %s: %w", consumer, err)
			}
			deleted += tag.RowsAffected()
			if tag.RowsAffected() < int64(batch) {
				break
			}
		}
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
