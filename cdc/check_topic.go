package cdc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// largest is what the largest row of the outbox for a topic comes to.
type largest struct {
	id        string
	bytes     int
	partition int32 // that a row asks for; -1 for none
}

// checkTopics looks for the topics that the rows of the outbox go to, and
// whether they take the largest of them. It makes the records, so it also finds
// rows of which none can be made.
func (c *checker) checkTopics(ctx context.Context, db *pgx.Conn, tables []wal.Table) {
	const check = "topic"
	topics := map[string]largest{}
	for _, t := range tables {
		if err := c.measure(ctx, db, t, topics); err != nil {
			c.cannotMeasure(t, err)
			return
		}
	}
	if len(topics) == 0 {
		c.unknown(check, "check again when there are rows", "the outbox is empty: its topics and the size of its rows cannot be told")
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		c.checkTopic(ctx, name, topics[name])
	}
}

func (c *checker) cannotMeasure(t wal.Table, err error) {
	const check = "topic"
	var refused refusal
	var row *debezium.RowError
	switch {
	case errors.As(err, &refused), errors.As(err, &row):
		c.problem("rows", "correct or delete the row", "a row of %s cannot be published: %v", t, err)
	case sqlState(err) == queryCanceled:
		c.unknown(check, "", "table %s is too large to look through within the statement timeout", t)
	default:
		c.unknown(check, "", "look through table %s: %v", t, err)
	}
}

func (c *checker) checkTopic(ctx context.Context, name string, l largest) {
	const check = "topic"
	if !validTopic(name) {
		c.problem(check, "correct the row, or the routing", "row %s goes to %q, which cannot be a topic's name", l.id, name)
		return
	}
	t, err := c.out.lookUp(ctx, name)
	var r refusal
	switch {
	case errors.As(err, &r) && c.dropin != nil:
		c.warn(check, "create it, or let the broker or topic.creation.default.* do it", "%s", r.reason)
	case errors.As(err, &r):
		c.problem(check, "create it with as many partitions as you want for good: the key's partition depends on their number", "%s", r.reason)
	case err != nil:
		c.unknown(check, "", "%v", err)
	case l.partition >= t.partitions:
		c.problem(check, "add partitions, or correct the row", "%s has %d partitions, and row %s asks for partition %d", name, t.partitions, l.id, l.partition)
	case l.bytes+batchSlack > t.limit:
		c.problem(check, fmt.Sprintf("raise max.message.bytes of topic %s above %d, or make the row smaller", name, l.bytes+batchSlack),
			"row %s makes a record of %d bytes, topic %s takes %d", l.id, l.bytes, name, t.limit)
	default:
		c.ok(check, "%s has %d partitions and takes %s; the largest row of the outbox makes %s", name, t.partitions, bytesText(int64(t.limit)), bytesText(int64(l.bytes)))
	}
}

// measure notes the largest row for each topic that rows of a table go to.
func (c *checker) measure(ctx context.Context, db *pgx.Conn, t wal.Table, topics map[string]largest) error {
	reader, err := c.openTables(ctx, db, answer)
	if err != nil {
		return err
	}
	defer reader.close(ctx)
	f := debezium.Fields{RouteBy: "aggregatetype", Payload: "payload"}
	if c.dropin != nil {
		f = c.dropin.connector.Fields()
	}
	return reader.each(ctx, t, 1, largestRows(t, f), func(row reread) error {
		if row.record == nil {
			return nil
		}
		if l := (largest{string(row.id), size(row.record), row.record.Partition}); l.bytes > topics[row.record.Topic].bytes {
			topics[row.record.Topic] = l
		}
		return nil
	})
}

// largestRows selects, of each routing value, the row with the longest payload.
func largestRows(t wal.Table, f debezium.Fields) string {
	return fmt.Sprintf("SELECT DISTINCT ON (%[2]s) NULL, t.* FROM %[1]s AS t ORDER BY %[2]s, octet_length(%[3]s::text) DESC NULLS LAST",
		quoteTable(t), quoteIdentifier(f.RouteBy), quoteIdentifier(f.Payload))
}
