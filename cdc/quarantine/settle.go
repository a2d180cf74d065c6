package quarantine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// Asked returns the keys of a source for which somebody has asked, and those of
// which no record is refused any more: the one that was is skipped, and others
// came behind it before the publisher knew. A record without a key comes with a
// nil one.
func Asked(ctx context.Context, db *pgx.Conn, source string) ([]Row, error) {
	rows, err := db.Query(ctx, `SELECT topic, key FROM `+Table+` WHERE source = $1 AND state IN `+openStates+` GROUP BY topic, key
		HAVING bool_or(state <> 'kept') OR key IS NOT NULL AND bool_and(reason = '') ORDER BY min(id)`, source)
	if err != nil {
		return nil, fmt.Errorf("read what is asked for in quarantine: %w", err)
	}
	asked, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
		return r, row.Scan(&r.Topic, &r.Key)
	})
	if err != nil {
		return nil, fmt.Errorf("read what is asked for in quarantine: %w", err)
	}
	return asked, nil
}

const selectRows = `
SELECT id, commit_lsn, sequence, state, topic, partition, key, value, headers, timestamp, reason, note, kept_at
  FROM public.chorus_cdc_quarantine
 WHERE `

func collect(rows pgx.Rows, err error) ([]Row, error) {
	if err != nil {
		return nil, fmt.Errorf("read rows in quarantine: %w", noTable(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
		var commit, sequence int64
		var headers []byte
		if err = row.Scan(&r.ID, &commit, &sequence, &r.State, &r.Topic, &r.Partition, &r.Key, &r.Value, &headers, &r.Timestamp, &r.Reason, &r.Note, &r.Kept); err != nil {
			return r, err
		}
		r.Place = Place{wal.LSN(commit), uint64(sequence)}
		return r, json.Unmarshal(headers, &r.Headers)
	})
	if err != nil {
		return nil, fmt.Errorf("read rows in quarantine: %w", noTable(err))
	}
	return all, nil
}

// Next returns the first rows of a key that hold it, in the order of the log: a
// row may have been kept after later ones of its key, when a publisher died
// before Kafka had it and it came again to a key that was held. With a nil key
// these are the ones that were asked for.
func Next(ctx context.Context, db *pgx.Conn, source, topic string, key []byte, limit int) ([]Row, error) {
	if key == nil {
		return collect(db.Query(ctx, selectRows+`source = $1 AND topic = $2 AND key IS NULL AND state IN ('asked', 'sending') ORDER BY commit_lsn, sequence LIMIT $3`, source, topic, limit))
	}
	return collect(db.Query(ctx, selectRows+`source = $1 AND topic = $2 AND key = $3 AND state IN `+openStates+` ORDER BY commit_lsn, sequence LIMIT $4`, source, topic, key, limit))
}

// Send gives rows the number of the batch in which they are about to be sent.
// It fails when one of them has been skipped meanwhile.
func Send(ctx context.Context, db *pgx.Conn, ids []int64, batch uint64) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE `+Table+` SET state = 'sending', batch = $2 WHERE id = ANY ($1) AND state IN `+openStates, ids, int64(batch))
		if err != nil {
			return fmt.Errorf("number rows in quarantine: %w", err)
		}
		if tag.RowsAffected() != int64(len(ids)) {
			return fmt.Errorf("number rows in quarantine: of %d there are %d: one was skipped meanwhile", len(ids), tag.RowsAffected())
		}
		return nil
	})
}

// Published marks rows that Kafka has.
func Published(ctx context.Context, db *pgx.Conn, ids []int64) error {
	if _, err := db.Exec(ctx, `UPDATE `+Table+` SET state = 'published', settled_at = clock_timestamp() WHERE id = ANY ($1)`, ids); err != nil {
		return fmt.Errorf("mark rows in quarantine as published: %w", err)
	}
	return nil
}

// Settle marks what an exactly-once source has sent: the batches up to the one
// that its position names are in Kafka, the others are not.
func Settle(ctx context.Context, db *pgx.Conn, source string, batch uint64) error {
	if _, err := db.Exec(ctx, `
		UPDATE `+Table+`
		   SET state = CASE WHEN batch <= $2 THEN 'published' ELSE 'asked' END, settled_at = CASE WHEN batch <= $2 THEN clock_timestamp() END
		 WHERE source = $1 AND state = 'sending'`, source, int64(batch)); err != nil {
		return fmt.Errorf("settle rows in quarantine: %w", noTable(err))
	}
	return nil
}

// Refuse notes that a row is still refused. It and all behind it are kept on.
func Refuse(ctx context.Context, db *pgx.Conn, source string, row Row, reason string) error {
	if _, err := db.Exec(ctx, `
		UPDATE `+Table+`
		   SET state = 'kept', reason = CASE WHEN id = $1 THEN $2 ELSE reason END
		 WHERE source = $3 AND topic = $4 AND state IN ('asked', 'sending') AND (id = $1 OR key = $5)`, row.ID, reason, source, row.Topic, row.Key); err != nil {
		return fmt.Errorf("note the refusal of a row in quarantine: %w", err)
	}
	return nil
}
