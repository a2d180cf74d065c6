package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
)

// RewindRequest says where a consumer is to go on.
type RewindRequest struct {
	Consumer  string
	Topic     string
	Partition int32
	TopicID   [16]byte // of the topic as it is now; adopted, so that a topic that was made anew can be read
	To        int64    // offset of the next record to handle; the caller has checked that the topic reaches from at most To to at least To
	DryRun    bool

	// Changed, when set, is told last in the transaction where the consumer was, -1 if nowhere: for a record of who did it. Its error rolls the rewind back.
	Changed func(ctx context.Context, tx pgx.Tx, from int64) error
}

// Rewind sets where a consumer goes on in a partition, back or forward, and returns where it was: -1 if the partition has never been claimed.
// A running owner is fenced: it stops within its present batch, claims again, and starts at To. Facts that are in the inbox are not handled
// again, only counted as duplicates, so going back repairs what was skipped and repeats nothing. With DryRun it changes nothing. The lock on the row waits for a batch under way.
func Rewind(ctx context.Context, db DB, r RewindRequest) (from int64, err error) {
	what := fmt.Sprintf("rewind %s in %s/%d to %d", r.Consumer, r.Topic, r.Partition, r.To)
	if r.To < 0 {
		return -1, fmt.Errorf("%s: an offset is not negative", what)
	}
	err = pg.InTx(ctx, db, what, func(tx pgx.Tx) error {
		from = -1
		err := tx.QueryRow(ctx, `
SELECT next_offset FROM partition_owner WHERE consumer = $1 AND topic = $2 AND partition = $3 FOR UPDATE`,
			r.Consumer, r.Topic, r.Partition).Scan(&from)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if r.DryRun {
			return nil
		}
		_, err = tx.Exec(ctx, `
INSERT INTO partition_owner (consumer, topic, partition, topic_id, epoch, next_offset)
VALUES ($1, $2, $3, $4, 1, $5)
ON CONFLICT (consumer, topic, partition) DO UPDATE
SET topic_id = EXCLUDED.topic_id, next_offset = EXCLUDED.next_offset, epoch = partition_owner.epoch + 1`,
			r.Consumer, r.Topic, r.Partition, r.TopicID, r.To)
		if err != nil || r.Changed == nil {
			return err
		}
		return r.Changed(ctx, tx, from)
	})
	return from, err
}
