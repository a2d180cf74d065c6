package inbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// seen tells which records of a batch are new.
type seen struct {
	ids   [][16]byte
	times map[[16]byte]int32 // how often an id comes in the batch
	known map[[16]byte]bool  // it is in the inbox, or came earlier in the batch
}

func newSeen(items []item) *seen {
	s := &seen{times: make(map[[16]byte]int32, len(items)), known: map[[16]byte]bool{}}
	for i := range items {
		if it := &items[i]; it.hasID && !it.record.Control {
			if s.times[it.fact.ID]++; s.times[it.fact.ID] == 1 {
				s.ids = append(s.ids, it.fact.ID)
			}
		}
	}
	return s
}

// lookSQL looks each id up by the whole primary key. OFFSET 0 keeps the planner from making a join of it: on a table not yet analyzed a join, and event_id = ANY too, was
// planned as a scan of all the consumer's rows, and the plan was kept while they became many.
const lookSQL = `
SELECT e.id FROM unnest($2::uuid[]) AS e(id)
WHERE EXISTS (SELECT FROM inbox WHERE consumer = $1 AND event_id = e.id OFFSET 0)`

// look asks the inbox which ids it has, and counts them as duplicates. Who records the same id meanwhile is found when the rows are inserted, last in the transaction.
func (s *seen) look(ctx context.Context, tx pgx.Tx, consumer string) error {
	if len(s.ids) == 0 || forgetful {
		return nil
	}
	rows, _ := tx.Query(ctx, lookSQL, consumer, s.ids)
	there, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return fmt.Errorf("look up %d inbox ids of %s: %w", len(s.ids), consumer, err)
	}
	if len(there) == 0 {
		return nil
	}
	times := make([]int32, len(there))
	for i, id := range there {
		s.known[id], times[i] = true, s.times[id]
	}
	if _, err := tx.Exec(ctx, duplicateSQL, consumer, there, times); err != nil {
		return fmt.Errorf("count %d duplicates of %s: %w", len(there), consumer, err)
	}
	return nil
}

// first tells whether a record is the first with its id.
func (s *seen) first(it *item) bool {
	if s.known[it.fact.ID] {
		return false
	}
	s.known[it.fact.ID] = true
	return true
}

// repeats is how often the record's id comes again in the batch.
func (s *seen) repeats(it *item) int32 { return s.times[it.fact.ID] - 1 }

// inboxRow is a record with what became of it.
type inboxRow struct {
	item    *item
	verdict Verdict
}

const insertRowsSQL = `
INSERT INTO inbox (consumer, event_id, occurred_at, topic, partition, "offset", duplicates, verdict, why)
SELECT $1, e.event_id, e.occurred_at, e.topic, e.partition, e."offset", e.duplicates, e.verdict, e.why
FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::integer[], $6::bigint[], $7::integer[], $8::text[], $9::text[])
     AS e(event_id, occurred_at, topic, partition, "offset", duplicates, verdict, why)
ORDER BY e.event_id
ON CONFLICT DO NOTHING`

// insertRows records what became of new facts, each row written once. That it comes last is no less safe than first: whoever else handled the same fact in the meantime has its
// row there, or makes this statement wait for it, and then nothing of this transaction may stay. It is run again and finds duplicates.
func insertRows(ctx context.Context, tx pgx.Tx, consumer string, rows []inboxRow) error {
	if len(rows) == 0 || forgetful {
		return nil
	}
	slices.SortFunc(rows, func(a, b inboxRow) int { return bytes.Compare(a.item.fact.ID[:], b.item.fact.ID[:]) })
	n := len(rows)
	var (
		ids                    = make([][16]byte, n)
		occurred               = make([]time.Time, n)
		topics, verdicts, whys = make([]string, n), make([]string, n), make([]string, n)
		partitions, repeats    = make([]int32, n), make([]int32, n)
		offsets                = make([]int64, n)
	)
	for i, r := range rows {
		ids[i], occurred[i], repeats[i] = r.item.fact.ID, r.item.fact.OccurredAt, r.item.repeats
		topics[i], partitions[i], offsets[i] = r.item.record.Topic, r.item.record.Partition, r.item.record.Offset
		verdicts[i], whys[i] = r.verdict.columns()
	}
	tag, err := tx.Exec(ctx, insertRowsSQL, consumer, ids, occurred, topics, partitions, offsets, repeats, verdicts, whys)
	if err != nil {
		return fmt.Errorf("insert %d inbox rows of %s: %w", n, consumer, err)
	}
	if tag.RowsAffected() < int64(n) {
		return fmt.Errorf("insert %d inbox rows of %s: %w", n, consumer, &pgconn.PgError{
			Code: "40001", Severity: "ERROR", Message: "a fact was handled by two transactions at once",
		})
	}
	return nil
}
