package inbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Entry is what is recorded about an input when it is seen for the first time. The place is that of a record; inputs from elsewhere (a request, an outcome, a timer) have no Topic.
type Entry struct {
	ID         [16]byte
	OccurredAt time.Time
	Topic      string
	Partition  int32
	Offset     int64
}

const insertSQL = `
INSERT INTO inbox (consumer, event_id, occurred_at, topic, partition, "offset", duplicates)
SELECT $1, e.event_id, e.occurred_at, e.topic, e.partition, e."offset", e.duplicates
FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::integer[], $6::bigint[], $7::integer[])
     AS e(event_id, occurred_at, topic, partition, "offset", duplicates)
ORDER BY e.event_id
ON CONFLICT DO NOTHING
RETURNING event_id`

// The two updates are written as inserts that conflict, because the conflict is found by the primary key whatever the planner believes about the table; a join was planned,
// on a table not yet analyzed, as a scan of all the consumer's rows. The rows are there: DO NOTHING has just met them, or inserted them.
const duplicateSQL = `
INSERT INTO inbox (consumer, event_id, occurred_at, duplicates)
SELECT $1, e.event_id, now(), e.times FROM unnest($2::uuid[], $3::integer[]) AS e(event_id, times)
ORDER BY e.event_id
ON CONFLICT (consumer, event_id) DO UPDATE SET duplicates = inbox.duplicates + EXCLUDED.duplicates`

// Insert records that the consumer has seen these inputs, in tx, and tells which of them are new: fresh[i] is true if entries[i] was not
// there and is the first of its id in the call. Only new ones may be acted upon; the others are counted as duplicates. It is the first statement of a transaction, before any
// lock on the caller's own rows: it waits for others that are inserting the same id, and they insert in the order of ids, so nobody deadlocks.
func Insert(ctx context.Context, tx pgx.Tx, consumer string, entries ...Entry) (fresh []bool, err error) {
	fresh = make([]bool, len(entries))
	order := make([]int, len(entries))
	for i, e := range entries {
		if e.ID == ([16]byte{}) {
			return nil, fmt.Errorf("insert inbox ids of %s: entry %d has no id", consumer, i)
		}
		order[i] = i
	}
	if len(entries) == 0 {
		return fresh, nil
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(entries[a].ID[:], entries[b].ID[:]) })

	var cols insertColumns
	first := make(map[[16]byte]int, len(entries)) // id to the index of its first entry
	for _, i := range order {
		e := entries[i]
		if _, again := first[e.ID]; again {
			cols.repeats[len(cols.repeats)-1]++
			continue
		}
		first[e.ID] = i
		cols.add(e)
	}
	rows, _ := tx.Query(ctx, insertSQL, consumer, cols.ids, cols.occurred, cols.topics, cols.partitions, cols.offsets, cols.repeats)
	inserted, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("insert %d inbox ids of %s: %w", len(cols.ids), consumer, err)
	}
	for _, id := range inserted {
		fresh[first[id]] = true
	}
	if len(inserted) == len(cols.ids) {
		return fresh, nil
	}
	var known [][16]byte
	var times []int32
	for k, id := range cols.ids {
		if !fresh[first[id]] {
			known, times = append(known, id), append(times, cols.repeats[k]+1)
		}
	}
	if _, err := tx.Exec(ctx, duplicateSQL, consumer, known, times); err != nil {
		return nil, fmt.Errorf("count %d duplicates of %s: %w", len(known), consumer, err)
	}
	return fresh, nil
}

// insertColumns holds the entries by column, one row an id, sorted by id.
type insertColumns struct {
	ids        [][16]byte
	occurred   []time.Time
	topics     []*string
	partitions []*int32
	offsets    []*int64
	repeats    []int32 // how often the id comes again in the same call
}

func (c *insertColumns) add(e Entry) {
	c.ids, c.occurred, c.repeats = append(c.ids, e.ID), append(c.occurred, e.OccurredAt), append(c.repeats, 0)
	if e.Topic == "" {
		c.topics, c.partitions, c.offsets = append(c.topics, nil), append(c.partitions, nil), append(c.offsets, nil)
		return
	}
	c.topics, c.partitions, c.offsets = append(c.topics, &e.Topic), append(c.partitions, &e.Partition), append(c.offsets, &e.Offset)
}

const verdictSQL = `
INSERT INTO inbox (consumer, event_id, occurred_at, verdict, why)
SELECT $1, v.event_id, now(), v.verdict, v.why FROM unnest($2::uuid[], $3::text[], $4::text[]) AS v(event_id, verdict, why)
ON CONFLICT (consumer, event_id) DO UPDATE SET verdict = EXCLUDED.verdict, why = EXCLUDED.why`

// SetVerdicts records in tx what became of inputs that the same transaction has inserted. verdicts[i] belongs to ids[i].
func SetVerdicts(ctx context.Context, tx pgx.Tx, consumer string, ids [][16]byte, verdicts []Verdict) error {
	var changed [][16]byte
	var outcomes, whys []string
	for i, v := range verdicts {
		outcome, why := v.columns()
		if outcome == string(Applied) && why == "" {
			continue // as inserted
		}
		changed, outcomes, whys = append(changed, ids[i]), append(outcomes, outcome), append(whys, why)
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, verdictSQL, consumer, changed, outcomes, whys); err != nil {
		return fmt.Errorf("save %d verdicts of %s: %w", len(changed), consumer, err)
	}
	return nil
}

// columns are the verdict as its row has it.
func (v Verdict) columns() (outcome, why string) {
	switch v.Outcome {
	case "":
		return string(Applied), clean(v.Why, 500)
	case Dead:
		return string(Dead), clean(v.Reason, 500)
	case Passed: // where there is a row already
		return string(Ignored), clean(v.Why, 500)
	}
	return string(v.Outcome), clean(v.Why, 500)
}

// clean makes s something that a text column takes (UTF-8 without NUL), of limit bytes at most.
func clean(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
