package quarantine

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// Known is what the publisher has to know when it begins.
type Known struct {
	Held   map[Held]int       // how many rows are kept of each key
	Places map[Place]struct{} // rows from a place on, whatever became of them
	Ahead  wal.LSN            // the last commit with a row from that place on that holds its key; 0 for none
}

// Count is how many rows hold keys, and of these how many are asked for.
type Count struct{ Open, Asked int64 }

const openStates = `('kept', 'asked', 'sending')`

// Read reads what is known of a source. Places are those from a position on.
func Read(ctx context.Context, db *pgx.Conn, source string, from wal.LSN) (Known, error) {
	k := Known{Held: map[Held]int{}, Places: map[Place]struct{}{}}
	rows, err := db.Query(ctx, `SELECT topic, key, count(*) FROM `+Table+` WHERE source = $1 AND state IN `+openStates+` AND key IS NOT NULL GROUP BY topic, key`, source)
	if err != nil {
		return k, fmt.Errorf("read the keys in quarantine: %w", noTable(err))
	}
	var topic string
	var key []byte
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&topic, &key, &n}, func() error {
		k.Held[Held{topic, string(key)}] = n
		return nil
	}); err != nil {
		return k, fmt.Errorf("read the keys in quarantine: %w", noTable(err))
	}
	rows, err = db.Query(ctx, `SELECT commit_lsn, sequence, state IN `+openStates+` FROM `+Table+` WHERE source = $1 AND commit_lsn >= $2`, source, int64(from))
	if err != nil {
		return k, fmt.Errorf("read the rows in quarantine: %w", err)
	}
	var commit, sequence int64
	var open bool
	if _, err := pgx.ForEachRow(rows, []any{&commit, &sequence, &open}, func() error {
		k.Places[Place{wal.LSN(commit), uint64(sequence)}] = struct{}{}
		if open {
			k.Ahead = max(k.Ahead, wal.LSN(commit))
		}
		return nil
	}); err != nil {
		return k, fmt.Errorf("read the rows in quarantine: %w", err)
	}
	return k, nil
}

// Counted counts the rows of a source.
func Counted(ctx context.Context, db *pgx.Conn, source string) (c Count, err error) {
	err = db.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state <> 'kept') FROM `+Table+` WHERE source = $1 AND state IN `+openStates, source).Scan(&c.Open, &c.Asked)
	if err != nil {
		err = fmt.Errorf("count the rows in quarantine: %w", noTable(err))
	}
	return c, err
}

const insertRow = `
INSERT INTO public.chorus_cdc_quarantine (source, commit_lsn, sequence, topic, partition, key, value, headers, timestamp, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (source, commit_lsn, sequence) DO NOTHING`

// Keep commits rows, in this order. One that is there stays as it is.
func Keep(ctx context.Context, db *pgx.Conn, source string, rows []Row) error {
	batch := &pgx.Batch{}
	// The position passes them when they are committed, whatever the role's settings.
	batch.Queue("SET LOCAL synchronous_commit = on")
	for _, r := range rows {
		batch.Queue(insertRow, source, int64(r.Place.Commit), int64(r.Place.Sequence), r.Topic, r.Partition, r.Key, r.Value, encodeHeaders(r.Headers), r.Timestamp, r.Reason)
	}
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return fmt.Errorf("keep %d rows in quarantine: %w", len(rows), err)
	}
	return nil
}
