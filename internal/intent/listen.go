package intent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the notification channel of the service's database.
const channel = "chorus_calls"

const (
	coalesce = 50 * time.Millisecond // the least time between two notifications of one process
	patience = 5 * time.Second       // for connecting
)

// notify tells other replicas of new work, outside every transaction: a NOTIFY in the writer's would serialise
// all commits of the server behind one lock. Many wake-ups make one notification. Losing
// one costs a poll.
func (w *Workers) notify(ctx context.Context) {
	notices := &trouble{log: w.log, what: "telling other replicas of due calls"}
	for {
		select {
		case <-w.announce:
		case <-ctx.Done():
			return
		}
		_, err := w.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, w.owner)
		if err != nil {
			notices.rest(ctx, err)
			poke(w.announce)
			continue
		}
		notices.over()
		pause(ctx, coalesce)
	}
}

// listen wakes the lanes when another replica has planned calls. It uses a connection of its own; when that fails, or
// does not hear what it sends itself, it is made anew, and meanwhile the poll finds the work.
func (w *Workers) listen(ctx context.Context) {
	ears := &trouble{log: w.log, what: "listening for due calls"}
	for ctx.Err() == nil {
		ears.rest(ctx, w.listenOnce(ctx, ears.over))
	}
}

func (w *Workers) listenOnce(ctx context.Context, heard func()) error {
	cfg := w.pool.Config().ConnConfig
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	w.wakeLanes() // for what was missed
	heard()
	w.log.Debug("listening for due calls of other replicas")
	for {
		switch err := w.hear(ctx, conn, w.cfg.Silence); {
		case err == nil:
			continue
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("wait for a notification: %w", err)
		}
		if _, err := w.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, w.owner); err != nil {
			return fmt.Errorf("prove that the listener hears: %w", err)
		}
		if err := w.hear(ctx, conn, w.cfg.Silence); err != nil {
			return fmt.Errorf("the listener is deaf: %w", err)
		}
	}
}

// hear waits for one notification. Its own need no wake-up: the lanes of this process were woken at once.
func (w *Workers) hear(ctx context.Context, conn *pgx.Conn, d time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			return context.DeadlineExceeded
		}
		return err
	}
	if n.Payload != w.owner {
		w.wakeLanes()
	}
	return nil
}
