package cdc

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"chorus/cdc/wal"
)

// timelineLeft is where the history of the server, which is on timeline now,
// left another one; 0 when it was never on it.
func (s *source) timelineLeft(ctx context.Context, now, other int32) (wal.LSN, error) {
	if now == 1 {
		return 0, nil // the first has no history
	}
	conn, _, err := connectReplication(ctx, s.cfg.DSN, 0)
	if err != nil {
		return 0, fmt.Errorf("connect for the history of timeline %d: %w", now, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	history, err := pglogrepl.TimelineHistory(ctx, conn, now)
	if err != nil {
		return 0, fmt.Errorf("read the history of timeline %d: %w", now, err)
	}
	return leftAt(string(history.Content), other)
}

// leftAt reads a timeline history file: a line for each timeline, with where it was left.
func leftAt(history string, timeline int32) (wal.LSN, error) {
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != strconv.Itoa(int(timeline)) {
			continue
		}
		at, err := pglogrepl.ParseLSN(fields[1])
		if err != nil {
			return 0, fmt.Errorf("history of timeline %d: %w", timeline, err)
		}
		return wal.LSN(at), nil
	}
	return 0, nil
}
