package inbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// fenceWatch is how often the fence rows are looked at. A partition with traffic meets its fence in each transaction; this is for
// one where nothing comes, so that a rewind of it takes effect all the same.
const fenceWatch = 5 * time.Second

// laneSet holds the claimed partitions of a consumer.
type laneSet struct {
	mu  sync.Mutex
	all map[*lane]struct{} // guarded by mu
}

func (s *laneSet) add(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*lane]struct{}{}
	}
	s.all[l] = struct{}{}
}

func (s *laneSet) remove(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

// overtaken lists the lanes whose claim is older than what the rows say.
func (s *laneSet) overtaken(rows []fenceRow) (old []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.all {
		for _, r := range rows {
			if r.Topic == l.p.Topic && r.Partition == l.p.Partition && r.Epoch > l.epoch {
				old = append(old, l)
			}
		}
	}
	return old
}

type fenceRow struct {
	Topic     string
	Partition int32
	Epoch     int64
}

// watchFences has partitions claimed again whose fence somebody has moved. A failure is no news: whoever has records to handle meets it too.
func (c *Consumer) watchFences(ctx context.Context) {
	tick := time.NewTicker(fenceWatch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rows, err := c.fences(ctx)
		if err != nil {
			continue
		}
		for _, l := range c.lanes.overtaken(rows) {
			c.group.Reclaim(l.p.Topic, l.p.Partition)
		}
	}
}

func (c *Consumer) fences(ctx context.Context) ([]fenceRow, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceWatch)
	defer cancel()
	conn, err := c.cfg.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the fences: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT topic, partition, epoch FROM partition_owner WHERE consumer = $1`, c.cfg.Consumer)
	if err != nil {
		return nil, fmt.Errorf("look at the fences: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[fenceRow])
}
