package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How much log the server may keep for a slot, and for how long, until somebody
// asks why: four segments. It lets go of log with a delay of half a minute.
const (
	manyRetained  = 64 << 20
	longRetention = 30 * time.Second
)

// A slot keeps the log from the beginning of the oldest transaction of the whole
// server that was open at its confirmed position. A prepared one is as good.
// Others' transactions are hidden from a role that is no member of
// pg_read_all_stats, but for those of its own.
const selectOldest = `
SELECT what, since FROM (
  SELECT 'pid ' || pid || concat_ws(', ', ' of ' || usename, 'database ' || datname, nullif(application_name, ''), state) AS what, xact_start AS since, backend_xid AS xid
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL
  SELECT 'prepared transaction ' || quote_literal(gid) || ' of ' || owner || ', database ' || database, prepared, transaction FROM pg_prepared_xacts
) AS open WHERE since < now() - interval '10 seconds' ORDER BY age(xid) DESC LIMIT 1`

// retainedBy says who has the server keep much log although it is published: no
// stall of ours, but it may fill the disk or cost the slot. "" when it is not
// much, or not for long, or it is our lag.
func (s *session) retainedBy(ctx context.Context, db *pgx.Conn, v slotView) (string, error) {
	if v.retained < manyRetained || v.lag > v.retained/2 {
		s.retained = time.Time{}
		return "", nil
	}
	if s.retained.IsZero() {
		s.retained = time.Now()
	}
	if time.Since(s.retained) < longRetention {
		return "", nil
	}
	var who string
	var since time.Time
	err := db.QueryRow(ctx, selectOldest).Scan(&who, &since)
	switch {
	case err == pgx.ErrNoRows:
		return fmt.Sprintf("the server keeps %d bytes of log for the slot, of which %d are not confirmed: the rest goes with its next checkpoints, or a transaction is open that this role may not see (GRANT pg_read_all_stats)",
			v.retained, v.lag), nil
	case err != nil:
		return "", fmt.Errorf("look for the oldest transaction: %w", err)
	}
	return fmt.Sprintf("the server keeps %d bytes of log for the slot, of which %d are not confirmed: a transaction is open since %s, %s",
		v.retained, v.lag, since.UTC().Format(time.RFC3339), who), nil
}

// tell logs what begins or ends while a session works: that it stands still,
// and that the server keeps its log for somebody else.
func (s *session) tell(v slotView) {
	s.mu.Lock()
	works := s.reason == "" // else the reason is logged where it begins
	s.mu.Unlock()
	st := s.status()
	switch stands := works && st.State == Stalled; {
	case stands && !s.stands:
		s.log.Warn("source stands still", "reason", st.Reason)
		s.stands = true
	case works && !stands && s.stands:
		s.log.Info("source goes on")
		s.stands = false
	}
	if v.keeps != "" && !s.keeps {
		s.log.Warn("log is kept", "reason", v.keeps)
	}
	s.keeps = v.keeps != ""
}
