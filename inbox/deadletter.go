package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// DeadLetter is a record that was set aside, as it was read.
type DeadLetter struct {
	ID            int64
	Consumer      string
	Record        broker.Record // raw: key, value and headers byte for byte
	EventID       [16]byte      // zero if the record had no usable one
	EventType     string
	OccurredAt    time.Time
	Reason        string // a short code
	Detail        string
	Attempts      int
	FirstFailedAt time.Time
	LastFailedAt  time.Time
	State         string    // open, redriven or discarded
	ClosedAt      time.Time // zero while open
	ClosedWhy     string
}

// The states of a dead letter.
const (
	Open      = "open"
	Redriven  = "redriven"
	Discarded = "discarded"
)

// A record that was dead before (its inbox row was pruned, or it never had one) and is read again after a rewind keeps its first failure and its state.
const deadLetterSQL = `
INSERT INTO dead_letters (consumer, topic_id, topic, partition, "offset", event_id, event_type, key, value, headers, occurred_at, recorded_at, reason, detail, attempts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (consumer, topic_id, partition, "offset") DO UPDATE
SET reason = EXCLUDED.reason, detail = EXCLUDED.detail, attempts = dead_letters.attempts + EXCLUDED.attempts, last_failed_at = now()`

// letter is a dead letter about to be written.
type letter struct {
	item     *item
	failure  failure
	attempts int
}

// saveLetters writes dead letters in one round trip. An id that the record has is kept only when its inbox row is this transaction's own; see door.go.
func saveLetters(ctx context.Context, tx pgx.Tx, consumer string, letters []letter) error {
	if len(letters) == 0 {
		return nil
	}
	// Letters of a key are numbered in the order of its facts: that is the order in which they are released.
	slices.SortStableFunc(letters, func(a, b letter) int { return cmp.Compare(a.item.record.Offset, b.item.record.Offset) })
	var batch pgx.Batch
	for _, l := range letters {
		r, f := l.item.record, l.item.fact
		var id *[16]byte
		if l.item.hasID {
			id = &f.ID
		}
		headers := make([][]byte, 0, 2*len(r.Headers))
		for _, h := range r.Headers {
			headers = append(headers, []byte(h.Key), h.Value)
		}
		batch.Queue(deadLetterSQL, consumer, r.TopicID, r.Topic, r.Partition, r.Offset, id, clean(f.Type, 200), r.Key, r.Value, headers,
			f.OccurredAt, r.Timestamp, clean(l.failure.reason, 100), clean(l.failure.detail, 4000), l.attempts)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("save %d dead letters of %s: %w", len(letters), consumer, err)
	}
	return nil
}

const letterColumns = `id, consumer, topic_id, topic, partition, "offset", event_id, event_type, key, value, headers, occurred_at, recorded_at,
       reason, detail, attempts, first_failed_at, last_failed_at, state, closed_at, closed_why`

// LetterFilter chooses dead letters of one consumer. What is zero chooses any.
type LetterFilter struct {
	Consumer string // must be set
	State    string
	Type     string // of the fact
	Reason   string
	Key      string
	Since    time.Time // first failed at or after it
	Before   time.Time // first failed before it
	After    int64     // only ids above it: where the last page ended
}

// DeadLetters lists those that a filter chooses, by ascending id, limit at most.
func DeadLetters(ctx context.Context, db DB, f LetterFilter, limit int) ([]DeadLetter, error) {
	sql := `SELECT ` + letterColumns + ` FROM dead_letters WHERE consumer = $1 AND id > $2`
	args := []any{f.Consumer, f.After, limit}
	add := func(wanted bool, condition string, arg any) {
		if wanted {
			args = append(args, arg)
			sql += fmt.Sprintf(" AND "+condition, len(args))
		}
	}
	add(f.State != "", `state = $%d`, f.State)
	add(f.Type != "", `event_type = $%d`, f.Type)
	add(f.Reason != "", `reason = $%d`, f.Reason)
	add(f.Key != "", `key = $%d`, []byte(f.Key))
	add(!f.Since.IsZero(), `first_failed_at >= $%d`, f.Since)
	add(!f.Before.IsZero(), `first_failed_at < $%d`, f.Before)
	rows, _ := db.Query(ctx, sql+` ORDER BY id LIMIT $3`, args...)
	letters, err := pgx.CollectRows(rows, scanLetter)
	if err != nil {
		return nil, fmt.Errorf("list dead letters of %s: %w", f.Consumer, err)
	}
	return letters, nil
}

// Letter returns one dead letter; pgx.ErrNoRows if there is none with that id.
func Letter(ctx context.Context, db DB, id int64) (DeadLetter, error) {
	rows, _ := db.Query(ctx, `SELECT `+letterColumns+` FROM dead_letters WHERE id = $1`, id)
	l, err := pgx.CollectExactlyOneRow(rows, scanLetter)
	if err != nil {
		return l, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	return l, nil
}

func scanLetter(row pgx.CollectableRow) (DeadLetter, error) {
	var l DeadLetter
	var headers [][]byte
	var id *[16]byte
	var closed *time.Time
	r := &l.Record
	err := row.Scan(&l.ID, &l.Consumer, &r.TopicID, &r.Topic, &r.Partition, &r.Offset, &id, &l.EventType, &r.Key, &r.Value, &headers, &l.OccurredAt, &r.Timestamp,
		&l.Reason, &l.Detail, &l.Attempts, &l.FirstFailedAt, &l.LastFailedAt, &l.State, &closed, &l.ClosedWhy)
	if err != nil {
		return l, err
	}
	if id != nil {
		l.EventID = *id
	}
	if closed != nil {
		l.ClosedAt = *closed
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, Header{Key: string(headers[i]), Value: headers[i+1]})
	}
	return l, nil
}
