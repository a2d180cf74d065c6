package quarantine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Entry is a key with records that are kept, for people.
type Entry struct {
	Topic  string    `json:"topic"`
	Key    []byte    `json:"key"` // nil: records without a key, which hold nobody
	Rows   int64     `json:"rows"`
	Bytes  int64     `json:"bytes"`
	First  int64     `json:"first"` // id of the first row
	Since  time.Time `json:"since"`
	Asked  bool      `json:"asked"`  // the publisher is about to publish them
	Reason string    `json:"reason"` // of the first row that has one
}

// List returns the keys that are held.
func List(ctx context.Context, db *pgx.Conn, source string) ([]Entry, error) {
	rows, err := db.Query(ctx, `
		SELECT topic, key, count(*), coalesce(sum(octet_length(key)), 0) + coalesce(sum(octet_length(value)), 0), min(id), min(kept_at),
		       bool_or(state <> 'kept'), coalesce((array_agg(reason ORDER BY id) FILTER (WHERE reason <> ''))[1], '')
		  FROM `+Table+` WHERE source = $1 AND state IN `+openStates+`
		 GROUP BY topic, key ORDER BY min(id)`, source)
	if err != nil {
		return nil, fmt.Errorf("list the quarantine: %w", noTable(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		return e, row.Scan(&e.Topic, &e.Key, &e.Rows, &e.Bytes, &e.First, &e.Since, &e.Asked, &e.Reason)
	})
	if err != nil {
		return nil, fmt.Errorf("list the quarantine: %w", noTable(err))
	}
	return all, nil
}

// Show returns the rows of a key that hold it, in order.
func Show(ctx context.Context, db *pgx.Conn, source string, id int64) ([]Row, error) {
	return collect(db.Query(ctx, selectRows+`source = $1 AND state IN `+openStates+`
		AND (id = $2 OR (topic, key) = (SELECT topic, key FROM `+Table+` WHERE id = $2 AND source = $1)) ORDER BY id`, source, id))
}

// Retry asks for the key of a row; with id 0 for all keys. It returns for how
// many rows.
func Retry(ctx context.Context, db *pgx.Conn, source string, id int64) (int64, error) {
	tag, err := db.Exec(ctx, `
		UPDATE `+Table+` SET state = 'asked'
		 WHERE source = $1 AND state = 'kept'
		   AND ($2 = 0 OR id = $2 OR (topic, key) = (SELECT topic, key FROM `+Table+` WHERE id = $2 AND source = $1))`, source, id)
	if err != nil {
		return 0, fmt.Errorf("ask for rows in quarantine: %w", noTable(err))
	}
	return tag.RowsAffected(), nil
}

// ErrNotKept is a row that is not there, or with which something else was done.
var ErrNotKept = errors.New("row is not kept")

// Skip gives a row up, for good, and asks for those behind it when no other of
// its key is refused. by and why are kept with it.
func Skip(ctx context.Context, db *pgx.Conn, source string, id int64, by, why string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE `+Table+` SET state = 'skipped', note = $3, settled_by = $4, settled_at = clock_timestamp()
			 WHERE source = $1 AND id = $2 AND state IN ('kept', 'asked')`, source, id, why, by)
		if err != nil {
			return fmt.Errorf("skip row %d in quarantine: %w", id, noTable(err))
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("skip row %d in quarantine: %w", id, ErrNotKept)
		}
		_, err = tx.Exec(ctx, `
			UPDATE `+Table+` AS q SET state = 'asked'
			  FROM `+Table+` AS s
			 WHERE s.id = $2 AND q.source = $1 AND q.topic = s.topic AND q.key = s.key AND q.state = 'kept'
			   AND NOT EXISTS (SELECT FROM `+Table+` AS r WHERE r.source = $1 AND r.topic = s.topic AND r.key = s.key AND r.state IN `+openStates+` AND r.reason <> '')`, source, id)
		if err != nil {
			return fmt.Errorf("ask for the rows behind row %d in quarantine: %w", id, err)
		}
		return nil
	})
}
