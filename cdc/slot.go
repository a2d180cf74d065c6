package cdc

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// slotView is how the server sees the slot.
type slotView struct {
	lag      int64  // bytes from the confirmed position to the end of the log
	retained int64  // bytes of log that the server keeps for the slot
	safe     *int64 // bytes that may be written before the slot is lost; nil without max_slot_wal_keep_size
	// toLoss is when that will be if the log goes on growing as it does and
	// nothing more is confirmed; nil when there is no limit, or it does not grow.
	toLoss *time.Duration
	stands string // why the server sends nothing; empty while it does
	keeps  string // for whom it keeps much log that is published; empty when it does not
}

// slotWatch is what the goroutine that watches the slot remembers.
type slotWatch struct {
	growth   growth
	retained time.Time // since when the server keeps much log for others
	keeps    bool      // it was said
	stands   bool      // it was said that the source stands still
}

const readLag = `
SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint, (confirmed_flush_lsn - '0/0')::bigint,
       (pg_current_wal_lsn() - restart_lsn)::bigint, safe_wal_size, (pg_current_wal_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint
  FROM pg_replication_slots
 WHERE slot_name = $1`

// readLag reads the slot for people and probes, and returns its confirmed
// position as the server has it.
func (s *session) readLag(ctx context.Context, db *pgx.Conn) (wal.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var v slotView
	var confirmed, end, flushed int64 // what is not flushed is not sent
	if err := db.QueryRow(ctx, readLag, s.cfg.Slot).Scan(&v.lag, &confirmed, &v.retained, &v.safe, &end, &flushed); err != nil {
		return 0, fmt.Errorf("read lag of slot %s: %w", s.cfg.Slot, err)
	}
	rate := s.growth.add(time.Now(), end)
	if v.safe != nil && rate > 0 {
		left := time.Duration(min(float64(*v.safe)/rate*float64(time.Second), math.MaxInt64))
		v.toLoss = &left
	}
	v.stands = s.standsStill(ctx, db, wal.LSN(flushed))
	var err error
	v.keeps, err = s.retainedBy(ctx, db, v)
	s.setSlot(&v)
	s.tell(v)
	return wal.LSN(confirmed), err
}

// growth is how fast the log grows: the mean of half a minute, in which older
// readings count less and less.
type growth struct {
	at   time.Time
	end  int64
	rate float64 // bytes a second
}

const growthMemory = 30 * time.Second

// add takes a reading of the log's end in, and returns the rate. The first two
// make the first rate.
func (g *growth) add(now time.Time, end int64) float64 {
	took := now.Sub(g.at)
	if first := g.at.IsZero(); first || took <= 0 {
		if first {
			g.at, g.end = now, end
		}
		return g.rate
	}
	present := float64(max(0, end-g.end)) / took.Seconds()
	weight := 1 - math.Exp(-float64(took)/float64(growthMemory))
	if g.rate == 0 {
		weight = 1
	}
	g.rate += weight * (present - g.rate)
	g.at, g.end = now, end
	return g.rate
}
