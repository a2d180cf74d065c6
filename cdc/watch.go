package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// watch keeps the position beside the slot, reads the slot's lag over an ordinary
// connection, prunes, and ends the session when the database wants to go: a
// walsender that waits for confirmations, because Kafka is away, would hold a
// shutdown up for ever (CDC-19).
func (s *session) watch(ctx context.Context, db *pgx.Conn) {
	defer func() { s.endWatch(ctx, db) }()
	pruner := newPruner(s.source)
	defer func() { pruner.drops.end() }()
	ticker := time.NewTicker(s.config.StatusInterval)
	defer ticker.Stop()
	for {
		err := s.look(ctx, db, pruner)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoPositionTable):
			s.fail(err)
			return
		case db.IsClosed():
			if db, err = s.reconnect(ctx, db, err); err != nil {
				s.fail(err)
				return
			}
			pruner.forget() // what it knew was of the old connection
		case err != nil:
			s.log.Warn("watch slot", "err", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look does what is due.
func (s *session) look(ctx context.Context, db *pgx.Conn, pruner *pruner) error {
	wrote, err := s.keeper.keep(ctx, db, s.flight.confirmed())
	if err != nil {
		return err
	}
	if wrote {
		s.reply()
	}
	confirmed, err := s.readLag(ctx, db)
	if err != nil {
		return err
	}
	return errors.Join(pruner.tick(ctx, db, confirmed), s.watchKept(ctx, db))
}

// endWatch keeps the last position: nothing is in flight any more.
func (s *session) endWatch(ctx context.Context, db *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	defer func() { _ = db.Close(ctx) }()
	if s.keeper == nil {
		return
	}
	if db.IsClosed() { // interrupted in a query, for one
		again, err := s.connect(ctx)
		if err != nil {
			return // the database is away: nobody can be told
		}
		db = again
	}
	if err := s.keeper.last(ctx, db, s.flight.confirmed()); err != nil {
		s.log.Warn("keep the last position", "err", err)
	}
}

// reconnect replaces a connection that was lost. Nothing is lost with it, so
// only a database that takes nobody any more ends the session.
func (s *session) reconnect(ctx context.Context, old *pgx.Conn, cause error) (*pgx.Conn, error) {
	db, err := s.connect(ctx)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		s.log.Info("connection that watches the slot was made anew", "cause", cause)
		return db, nil
	case errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "57P"):
		return old, nil // too many connections, say: the stream may go on
	}
	return old, fmt.Errorf("database is going away: %w", err)
}
