package cdc

import (
	"context"

	"chorus/cdc/wal"
)

// takeOwn handles one event of an outbox of our own.
func (s *session) takeOwn(ctx context.Context, ev wal.Event) error {
	switch ev.Kind {
	case wal.Nothing:
		s.countOther()
	case wal.Begin:
		return s.begin(ev.Tx)
	case wal.Insert:
		return s.publish(ctx, ev.Row)
	case wal.Commit:
		s.showLife()
		return s.commit(ctx, ev.Tx.End)
	case wal.Truncate:
		s.metrics.ignored.WithLabelValues("truncate").Inc()
		s.log.Info("table was truncated; nothing of it is published", "table", ev.Table.String(), "xid", ev.Tx.XID)
	case wal.Update:
		s.ignore("update", ev.Table)
	case wal.Delete:
		s.metrics.ignored.WithLabelValues("delete").Inc() // somebody's housekeeping
	case wal.Foreign:
		if s.keeper == nil || ev.Table != s.keeper.table.name { // in a publication for all tables
			s.ignore("foreign", ev.Table)
		}
	}
	return nil
}

// ignore passes a change over that somebody may have meant: an update of an
// outbox row, which is never published again, or a row of a table that is no
// outbox. The first of a session is logged, all are counted.
func (s *session) ignore(kind string, table wal.Table) {
	s.metrics.ignored.WithLabelValues(kind).Inc()
	if key := kind + " " + table.String(); !s.told[key] {
		s.told[key] = true
		s.log.Warn("change is not published, nor are others like it", "kind", kind, "table", table.String())
	}
}

// countOther brings the kinds of message that make no event into the metrics.
// They are rare: the decoder's counts need not be read for each row.
func (s *session) countOther() {
	now := s.decoder.Counts()
	for kind, n := range map[string]uint64{
		"type":         now.Types - s.counted.Types,
		"origin":       now.Origins - s.counted.Origins,
		"message":      now.Messages - s.counted.Messages,
		"stream_abort": now.StreamAborts - s.counted.StreamAborts,
		"unknown":      now.Unknown - s.counted.Unknown,
	} {
		if n > 0 {
			s.metrics.ignored.WithLabelValues(kind).Add(float64(n))
		}
	}
	s.counted = now
}
