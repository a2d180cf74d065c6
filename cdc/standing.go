package cdc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// standing finds out that the server sends nothing although its log grows: its
// walsender is stuck, waits for a standby, or works through a transaction of
// other tables for long. Keepalives come all the while, nothing is in flight,
// and the source looks as if it had caught up (E27).
//
// The reader says that a change came; the goroutine that watches the slot does
// the rest.
type standing struct {
	came atomic.Bool // a change, since the last look
	at   wal.LSN     // up to where the server has looked
	from time.Time   // since when it has got no further; zero when it does
}

// sent notes that a change came. It is called for every one.
func (s *standing) sent() {
	if !s.came.Load() {
		s.came.Store(true)
	}
}

// slack is what may lie between the end of the log and the last position that a
// server which sends everything has stated: less than a page.
const slack = 8 << 10

// look tells for how long the server has got nowhere: seen is the position of
// its last keepalive, end that of its log. 0 is a server that moves, or has
// nothing to send.
func (s *standing) look(now time.Time, seen, end wal.LSN) time.Duration {
	came := s.came.Swap(false)
	switch {
	case came, seen > s.at, seen+slack >= end:
		s.at, s.from = max(s.at, seen), time.Time{}
		return 0
	case s.from.IsZero():
		s.from = now
		return 0
	}
	return now.Sub(s.from)
}

// Wait events of others are hidden from a role that is no member of
// pg_read_all_stats; walsenders of its own are not.
const selectSender = `
SELECT a.pid, coalesce(r.state, ''), coalesce(a.wait_event_type || '/' || a.wait_event, '')
  FROM pg_replication_slots AS s
  JOIN pg_stat_activity AS a ON a.pid = s.active_pid
  LEFT JOIN pg_stat_replication AS r ON r.pid = a.pid
 WHERE s.slot_name = $1`

// standsStill says why, when the server has sent nothing for too long; "" when
// not. While records are on their way the reader may be the one who waits, for
// Kafka, which is judged by itself.
func (s *session) standsStill(ctx context.Context, db *pgx.Conn, end wal.LSN) string {
	if s.flight.unacked() > 0 {
		s.standing.sent()
	}
	stood := s.standing.look(time.Now(), s.flight.lookedAt(), end)
	if stood < patience {
		return ""
	}
	why := fmt.Sprintf("the server has sent nothing for %s, and its log has %d bytes more", stood.Round(time.Second), end-s.standing.at)
	var pid int
	var state, waits string
	if err := db.QueryRow(ctx, selectSender, s.cfg.Slot).Scan(&pid, &state, &waits); err != nil {
		return why // the next look says what is wrong with the connection
	}
	why += fmt.Sprintf("; its walsender is pid %d", pid)
	if state != "" {
		why += ", " + state
	}
	if waits != "" {
		why += ", waits for " + waits
	}
	return why + ": it works through a large transaction of other tables, or a standby named in synchronized_standby_slots is away"
}
