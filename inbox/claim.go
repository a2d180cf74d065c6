package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// claimTimeout bounds the statements of one claim. It has to outlast endBackendSQL's own wait.
const claimTimeout = 20 * time.Second

// backend names one connection as the server knows it. A pid alone may be another's by now.
type backend struct {
	pid     int32
	started time.Time
}

const ownBackendSQL = `SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()`

// endBackendSQL ends a backend and waits up to 5 s until it is gone. $3: only if it sits in a transaction. A backend that has been told to end
// but is finishing its COMMIT counts as still there, which is why the fence row is read only after this.
const endBackendSQL = `
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE pid = $1 AND backend_start = $2 AND (NOT $3 OR xact_start IS NOT NULL)`

// claim makes this process the owner of a partition (D6). The previous owner may be frozen in a transaction: its backend is ended first, so that it holds
// neither the fence row nor any other lock, and again after the row has changed hands, because it may have begun another transaction in between.
func (c *Consumer) claim(ctx context.Context, p broker.Partition) (*lane, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	l := &lane{c: c, p: p, drain: make(chan struct{})}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if err := l.takeOver(ctx); err != nil {
		l.closeConn()
		return nil, fmt.Errorf("claim %s/%d for %s: %w", p.Topic, p.Partition, c.cfg.Consumer, err)
	}
	c.lanes.add(l)
	c.log.Info("partition claimed", "topic", p.Topic, "partition", p.Partition, "epoch", l.epoch, "offset", l.next.Load())
	return l, nil
}

// endFrozenSQL ends the backends of the partition's previous owner whose client has let a transaction stand still, and waits until they are gone. A shared transaction (Config.Together)
// runs on the connection of one of its partitions, and the rows of the others do not name it. Who is alive is not that slow; if it is after all, it runs its transaction again.
const endFrozenSQL = `
SELECT pg_terminate_backend(a.pid, 5000)
FROM partition_owner AS mine
JOIN partition_owner AS o ON o.consumer = mine.consumer AND o.owner = mine.owner
JOIN pg_stat_activity AS a ON a.pid = o.pid AND a.backend_start = o.backend_start
WHERE mine.consumer = $1 AND mine.topic = $2 AND mine.partition = $3 AND mine.owner <> $4
  AND a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - interval '1 second'`

func (l *lane) endFrozen(ctx context.Context) error {
	if !l.c.cfg.Together {
		return nil
	}
	rows, _ := l.conn.Query(ctx, endFrozenSQL, l.c.cfg.Consumer, l.p.Topic, l.p.Partition, l.c.cfg.Owner)
	gone, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	switch {
	case err != nil:
		return fmt.Errorf("end frozen transactions of the previous owner: %w", err)
	case slices.Contains(gone, false):
		return Again(errors.New("a backend of the previous owner is still there 5 s after it was told to end"))
	case len(gone) > 0:
		l.c.log.Warn("ended frozen transactions of the previous owner", "topic", l.p.Topic, "partition", l.p.Partition, "count", len(gone))
	}
	return nil
}

// claimSQL takes the row over, or makes it. It is one statement of its own, because a claimer that is frozen in a transaction would hold the row while
// nobody knows its backend yet. The row stays as it is if its progress does not fit the topic.
const claimSQL = `
WITH last AS MATERIALIZED (
    SELECT pid, backend_start FROM partition_owner
    WHERE consumer = $1 AND topic = $2 AND partition = $3 FOR UPDATE
)
INSERT INTO partition_owner (consumer, topic, partition, topic_id, epoch, next_offset, pid, backend_start, owner)
SELECT $1, $2, $3, $4, 1, $5, $7, $8, $9 FROM (SELECT count(*) FROM last) AS locked
ON CONFLICT (consumer, topic, partition) DO UPDATE
SET epoch = partition_owner.epoch + 1, pid = EXCLUDED.pid, backend_start = EXCLUDED.backend_start, owner = EXCLUDED.owner, claimed_at = now()
WHERE partition_owner.topic_id = EXCLUDED.topic_id AND partition_owner.next_offset BETWEEN $5 AND $6
RETURNING epoch, next_offset, coalesce((SELECT pid FROM last), 0), coalesce((SELECT backend_start FROM last), now())`

func (l *lane) takeOver(ctx context.Context) error {
	previous, err := l.recorded(ctx)
	if err != nil {
		return err
	}
	if err := l.end(ctx, previous, true); err != nil {
		return err
	}
	if err := l.endFrozen(ctx); err != nil {
		return err
	}
	var next int64
	err = l.conn.QueryRow(ctx, claimSQL, l.c.cfg.Consumer, l.p.Topic, l.p.Partition, l.p.TopicID, l.p.Start, l.p.End,
		l.self.pid, l.self.started, l.c.cfg.Owner).Scan(&l.epoch, &next, &previous.pid, &previous.started)
	if errors.Is(err, pgx.ErrNoRows) {
		return l.refusal(ctx)
	}
	if err != nil {
		return fmt.Errorf("take the row over: %w", err)
	}
	l.next.Store(next)
	return l.end(ctx, previous, false)
}

// refusal says why the row's progress does not fit the topic: going on would skip or repeat records in silence.
func (l *lane) refusal(ctx context.Context) error {
	var next int64
	var topicID [16]byte
	err := l.conn.QueryRow(ctx, `SELECT next_offset, topic_id FROM partition_owner WHERE consumer = $1 AND topic = $2 AND partition = $3`,
		l.c.cfg.Consumer, l.p.Topic, l.p.Partition).Scan(&next, &topicID)
	switch {
	case err != nil:
		return fmt.Errorf("read the row that does not fit: %w", err)
	case topicID != l.p.TopicID:
		return RefusedError{fmt.Sprintf("the topic was deleted and made anew: progress is recorded for topic id %x, this one has %x; rewind the consumer to start on the new one", topicID, l.p.TopicID)}
	case next > l.p.End:
		return RefusedError{fmt.Sprintf("next offset %d is beyond the end %d: the topic has lost records; rewind the consumer to go on", next, l.p.End)}
	case next < l.p.Start:
		return RefusedError{fmt.Sprintf("next offset %d is below the log start %d: %d records were deleted before they were read; rewind the consumer to go on without them", next, l.p.Start, l.p.Start-next)}
	}
	return fmt.Errorf("the row has just been changed to offset %d", next) // by a rewind; the next try will fit
}

// RefusedError says why a partition is not consumed although it is assigned. It stays so until a person decides, by Rewind.
type RefusedError struct{ Why string }

func (e RefusedError) Error() string { return e.Why }

// recorded reads, without a lock, the backend that the row names.
func (l *lane) recorded(ctx context.Context) (backend, error) {
	var b backend
	err := l.conn.QueryRow(ctx, `
SELECT pid, backend_start FROM partition_owner
WHERE consumer = $1 AND topic = $2 AND partition = $3 AND pid IS NOT NULL AND backend_start IS NOT NULL`,
		l.c.cfg.Consumer, l.p.Topic, l.p.Partition).Scan(&b.pid, &b.started)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("read the owner: %w", err)
	}
	return b, nil
}

// end ends the backend of a previous owner, if it is still there, and waits until it is gone.
func (l *lane) end(ctx context.Context, b backend, onlyInTransaction bool) error {
	if b.pid == 0 || b == l.self {
		return nil
	}
	var gone bool
	err := l.conn.QueryRow(ctx, endBackendSQL, b.pid, b.started, onlyInTransaction).Scan(&gone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("end backend %d of the previous owner: %w", b.pid, err)
	case !gone:
		return Again(fmt.Errorf("backend %d of the previous owner is still there 5 s after it was told to end", b.pid))
	}
	l.c.log.Warn("ended the backend of the previous owner", "topic", l.p.Topic, "partition", l.p.Partition, "pid", b.pid)
	return nil
}

// connect opens the lane's connection and learns its name.
func (l *lane) connect(ctx context.Context) error {
	conn, err := l.c.cfg.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect for %s/%d: %w", l.p.Topic, l.p.Partition, err)
	}
	l.conn = conn
	if err := conn.QueryRow(ctx, ownBackendSQL).Scan(&l.self.pid, &l.self.started); err != nil {
		l.closeConn()
		return fmt.Errorf("ask for the connection's own backend: %w", err)
	}
	return nil
}

// resume opens a new connection after the old one was lost, under the same epoch. When it returns nil, l.next is what the database has: a COMMIT whose answer
// was lost has either moved it or never will, because the old backend is gone before the row is read.
func (l *lane) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	l.closeConn()
	old := l.self
	if err := l.connect(ctx); err != nil {
		return err
	}
	for _, b := range []backend{old, l.leader} {
		if err := l.end(ctx, b, false); err != nil {
			return err
		}
	}
	l.leader = backend{}
	var next int64
	err := l.conn.QueryRow(ctx, `
UPDATE partition_owner SET pid = $5, backend_start = $6
WHERE consumer = $1 AND topic = $2 AND partition = $3 AND epoch = $4
RETURNING next_offset`, l.c.cfg.Consumer, l.p.Topic, l.p.Partition, l.epoch, l.self.pid, l.self.started).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrFenced
	}
	if err != nil {
		return fmt.Errorf("read the fence of %s/%d: %w", l.p.Topic, l.p.Partition, err)
	}
	l.next.Store(next)
	return nil
}

// closeConn gives the connection up. It waits a moment for a clean goodbye, not for a frozen server.
func (l *lane) closeConn() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx) // the connection is of no more use either way
}
