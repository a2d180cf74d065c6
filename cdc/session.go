package cdc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"chorus/cdc/bookmark"
	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// session is one replication connection with a Kafka producer, from START to
// the last confirmation.
//
// Its reader (the caller of run) receives, decodes and sends. Beside it one
// goroutine confirms on a timer of its own, so that a slow Kafka never makes
// the database believe that we are dead, and one watches the slot over an
// ordinary connection and prunes. Whichever fails ends the session.
type session struct {
	publisher
	stream   *stream
	decoder  *wal.Decoder
	take     func(context.Context, wal.Event) error
	held     *held
	keeper   *keeper       // nil: no position is kept beside the slot
	rows     bool          // the open transaction has some
	kick     chan struct{} // holds one when the server wants an answer now
	stopping atomic.Bool   // the process is to end; the reader goes on to the end of a transaction
	from     position      // where it began
	alive    bool          // the server has shown that it can decode what comes next
	standing standing      // whether the server sends what it has
	settled  bool          // what was being sent from the quarantine when the last session ended
	counted  wal.Counts    // what of the decoder's counts is in the metrics
	slotWatch
}

// errStop ends a session whose process is to end.
var errStop = errors.New("stopped")

// session connects, makes what is missing, and publishes until ctx ends or
// something fails. worked tells whether it got anywhere: if not, the next
// attempt should wait longer.
func (s *source) session(ctx context.Context) (worked bool, err error) {
	db, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	defer func() { s.kept.close(ctx) }()
	g, err := s.prepare(ctx, db)
	if err != nil {
		return false, err
	}
	ses, err := s.open(ctx, g)
	if err != nil {
		return false, err
	}
	defer ses.release()
	at := ses.from
	s.log.Info("replication starts", "slot", s.cfg.Slot, "lsn", at.at.String())
	began := time.Now()
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	ses.fail = fail
	err = ses.run(ctx, work, db, bookmark.Server{System: at.system, Timeline: at.timeline, Slot: s.cfg.Slot, Confirmed: g.Confirmed, End: at.end})
	if errors.Is(err, errTorn) {
		err = errors.Join(err, s.dropTorn(ctx))
	}
	s.resume = position{system: at.system, timeline: at.timeline, at: ses.flight.confirmed()}
	return s.resume.at > at.at || time.Since(began) > 2*maxBackoff, s.withForget(g.table, s.explain(err))
}

// ground is what a session stands on.
type ground struct {
	catalog
	table *positionTable // nil: none is kept
	left  *stored        // what it says of the slot; nil: nothing
}

// stored is the position that the server itself has, in the slot or in the table,
// for a session that goes on at from.
func (g ground) stored(from position) wal.LSN {
	at := g.Confirmed
	if g.left != nil && g.left.system == from.system && g.left.timeline == from.timeline {
		at = max(at, g.left.at)
	}
	return min(at, from.at)
}

// prepare waits until nobody else has the slot, and makes what is missing.
func (s *source) prepare(ctx context.Context, db *pgx.Conn) (g ground, err error) {
	if g.catalog, err = s.inspectFree(ctx, db); errors.As(err, new(lostSlot)) {
		t, _ := s.openPositionTable(ctx, db) // it only completes the cure
		return g, s.withForget(t, err)
	}
	if err != nil {
		return g, err
	}
	if g.table, g.left, err = s.lookBack(ctx, db, g.catalog); err != nil {
		return g, err
	}
	if err = s.openKept(ctx, g.Confirmed); err != nil || g.Slot {
		return g, err
	}
	if err = s.createSlot(ctx, db, g.catalog); err != nil {
		return g, err
	}
	g.catalog, err = s.inspect(ctx, db)
	return g, err
}

// open begins to replicate, and makes what a session needs.
func (s *source) open(ctx context.Context, g ground) (ses *session, err error) {
	ses = &session{decoder: wal.NewDecoder(s.cfg.table()), kick: make(chan struct{}, 1)}
	defer func() {
		if err != nil && ses.stream != nil {
			_ = ses.stream.close()
		}
		if err != nil {
			ses.release()
		}
	}()
	if ses.held, err = s.hold(); err != nil {
		return ses, err
	}
	if ses.stream, ses.from, err = s.start(ctx, g, ses.held != nil); err != nil {
		return ses, err
	}
	if g.table != nil {
		ses.keeper = newKeeper(g.table, s.cfg.Slot, ses.from, g.stored(ses.from), g.left != nil, s.config.StatusInterval)
	}
	out, err := s.newProducer(s.transactional(ses.from.system, transactionTimeout))
	if err != nil {
		return ses, err
	}
	ses.publisher = publisher{source: s, out: out, flight: newFlight(ses.from.at), told: map[string]bool{}}
	ses.take = ses.takeOwn
	if s.dropin != nil {
		clear(s.dropin.tables) // they are announced anew
		s.dropin.captured = make(map[uint32]wal.Table, len(g.Tables))
		for _, t := range g.Tables {
			s.dropin.captured[t.OID] = t.Table
		}
		ses.decoder, ses.take = wal.NewFeed(debezium.Unchanged()), ses.takeChange
	}
	if s.exactlyOnce() {
		ses.exactly = &exactly{publisher: &ses.publisher, gathering: newGathering()}
	}
	return ses, nil
}

// release closes what run leaves open.
func (s *session) release() {
	if s.out != nil {
		s.out.client.Close()
	}
	s.held.close()
}

// answer is how long the server may take to answer something simple. A network
// that swallows everything would otherwise hold the source for ever.
const answer = 10 * time.Second

// connect opens the ordinary connection. Nothing on it may take long: it shares
// the database with the service.
func (s *source) connect(ctx context.Context, set ...func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(s.cfg.DSN)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = answer
	cfg.RuntimeParams["application_name"] = "chorus cdc"
	cfg.RuntimeParams["statement_timeout"] = "10s"
	cfg.RuntimeParams["lock_timeout"] = "1s"
	for _, set := range set {
		set(cfg)
	}
	db, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return db, nil
}

// silence is how long the server may say nothing though it is asked every
// status interval. Working through a large transaction of other tables it may
// keep still for a good part of its own timeout.
func silence(walSenderTimeout time.Duration) time.Duration {
	if walSenderTimeout <= 0 {
		return 2 * time.Minute
	}
	return max(2*walSenderTimeout, 10*time.Second)
}

// start begins to replicate, after the last position that is safe in Kafka.
func (s *source) start(ctx context.Context, g ground, hold bool) (st *stream, at position, err error) {
	conn, reader, err := connectReplication(ctx, s.cfg.DSN, silence(g.Silence))
	if err != nil {
		return nil, at, fmt.Errorf("connect for replication: %w", err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	reader.lease.timeout = g.Silence
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	system, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		return nil, at, fmt.Errorf("identify system: %w", err)
	}
	at = position{system: system.SystemID, timeline: system.Timeline, at: g.Confirmed, end: wal.LSN(system.XLogPos)}
	if at, err = s.goOnFrom(ctx, conn, g, at); err != nil {
		return nil, at, err
	}
	if s.cfg.Failover && !g.Failover {
		if err = run(ctx, conn, "ALTER_REPLICATION_SLOT "+quoteIdentifier(s.cfg.Slot)+" (FAILOVER true)"); err != nil {
			return nil, at, err
		}
	}
	st, err = startStream(ctx, conn, reader, streamOptions{
		slot: s.cfg.Slot, publication: s.cfg.Publication, from: at.at, messages: s.dropin != nil, unended: hold && !s.readWhole,
		binary: s.dropin == nil && g.Binary && !s.asText})
	s.readWhole = false
	if err != nil {
		err = fmt.Errorf("start replication: %w", err)
		if sqlState(err) == objectInUse {
			err = s.explain(err)
		}
		return nil, at, err
	}
	return st, at, nil
}

// run publishes until ctx ends or something fails, waits for what is in
// flight, confirms it and closes the stream.
func (s *session) run(ctx, work context.Context, db *pgx.Conn, here bookmark.Server) error {
	s.streaming(s.flight, s.held)
	defer s.streaming(nil, nil)

	var helpers sync.WaitGroup
	helping, endHelp := context.WithCancel(context.WithoutCancel(ctx))
	helpers.Go(func() { s.confirmRegularly(helping) })
	helpers.Go(func() { s.watch(helping, db) })
	helpers.Go(func() { s.interruptReader(ctx, work, helping) })

	var err error
	if s.exactly != nil {
		if err = s.takeOver(work, here); err == nil {
			helpers.Go(func() { s.exactly.run(helping) })
		}
	}
	if err == nil {
		err = s.read(work)
	}
	if s.exactly != nil {
		s.exactly.gathering.press()
	}
	left := s.config.DrainTimeout
	switch {
	case errors.Is(err, errStop):
		left -= s.grace() // it was used up
	case errors.Is(err, errFrozen):
		left = 0 // the sooner the client is closed, the less of what it holds goes out
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
	defer cancel()
	if s.flight.drain(drain) != nil && ctx.Err() != nil {
		s.log.Warn("stopped before Kafka acknowledged everything; the rest is sent again after the next start", "records", s.flight.unacked())
	}
	endHelp()
	helpers.Wait()
	s.fail(errStop)
	// When the connection is what failed there is nobody to tell, and nothing
	// to add to that failure.
	_ = s.stream.confirm(s.keeper.limit(s.flight.confirmed()), false)
	_ = s.stream.close()
	return err
}

// grace is how long the reader may go on at the end of the process, to the end
// of a transaction that is half received: it would be sent again from its first
// row.
func (s *session) grace() time.Duration { return s.config.DrainTimeout / 2 }

// interruptReader wakes the reader when it is to end.
func (s *session) interruptReader(ctx, work, helping context.Context) {
	select {
	case <-ctx.Done():
		s.stopping.Store(true)
		s.stream.interrupt(time.Now().Add(s.grace()))
		select {
		case <-time.After(s.grace()):
			s.fail(errStop)
		case <-work.Done():
		case <-helping.Done():
			return
		}
	case <-work.Done():
	case <-helping.Done():
		return
	}
	s.stream.interrupt(time.Now())
}

// read receives and publishes. It returns nil when the process is to end.
func (s *session) read(ctx context.Context) error {
	for {
		if s.stopping.Load() && !s.decoder.Open() {
			return nil
		}
		if s.kept != nil && s.kept.due.Load() && !s.decoder.Open() {
			if err := s.settleKept(ctx); err != nil {
				return err
			}
		}
		if f := s.stream.reader.frames; !f.ready() {
			s.leave(f.pace.busy) // nothing more comes at once
		}
		m, err := s.stream.receive()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // interrupted: look why
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case m.Data == nil:
			s.flight.keepalive(m.End)
			s.showLife()
			if m.Reply {
				s.reply()
			}
		default:
			s.standing.sent()
			if err := s.handle(ctx, m.Data); err != nil {
				return err
			}
		}
	}
}

// showLife makes the source ready. It is called at the first sign that the
// server can decode what comes next: a stream that fails at its first row
// (CDC-07) should not look ready in between.
func (s *session) showLife() {
	if !s.alive {
		s.alive = true
		s.keeper.live()
		s.goOn()
	}
}

// reply has the confirming goroutine send the position now.
func (s *session) reply() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// confirmRegularly reports the position on its own timer and when the server
// asks, whatever Kafka and the reader do.
func (s *session) confirmRegularly(ctx context.Context) {
	ticker := time.NewTicker(s.config.StatusInterval)
	defer ticker.Stop()
	for ask := true; ; {
		if err := s.stream.confirm(s.keeper.limit(s.flight.confirmed()), ask); err != nil {
			s.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ask = true
		case <-s.kick:
			ask = false
		}
	}
}
