package cdc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"chorus/cdc/wal"
)

// source publishes one outbox: one session after the other, until its context
// ends.
type source struct {
	log     *slog.Logger
	config  Config
	cfg     Source
	metrics sourceMetrics
	resume  position // used by run alone
	dropin  *dropin  // nil for an outbox of our own
	kept    *kept    // the quarantine of the session; nil when there is none

	suspects    suspects
	quarantined atomic.Int64 // rows in quarantine that hold their keys

	// The next session is to take transactions after their end only: what came
	// before it cannot be understood, or the server could not decode it.
	// PostgreSQL before 18 cannot when a savepoint is rolled back in which the
	// table was changed ("could not map filenode"), and would fail at it for ever.
	readWhole bool
	asText    bool // the log holds rows whose binary form is not known
	unkept    bool // it was said that no position is kept beside the slot

	mu       sync.Mutex // guards what follows, for health and metrics
	flight   *flight    // of the session that streams; nil when none does
	held     *held      // likewise
	reason   string     // why it stands still; empty when it does not
	logged   string     // the last reason that was logged
	slot     *slotView  // as last read by the session; nil when it is not known
	finished bool       // nothing more is to be done; reason says why
	standby  bool       // another session has the slot, and this one waits for it; reason says so
}

// position is one up to which all is in Kafka. The slot is told of it, but
// later; after an interruption it saves records from being sent again. It
// means something only in the history of one server.
type position struct {
	system   string
	timeline int32
	at       wal.LSN
	end      wal.LSN // of the server's log, at the start
}

func newSource(log *slog.Logger, config Config, cfg Source, m *metrics) *source {
	return &source{log: log, config: config, cfg: cfg, metrics: m.of(cfg.Name), reason: "starting"}
}

func (s *source) exactlyOnce() bool { return s.cfg.Delivery == ExactlyOnce }

// transactional is what makes its producer the owner of the slot in Kafka; nil
// for at-least-once.
func (s *source) transactional(system string, timeout time.Duration) *transactional {
	if !s.exactlyOnce() {
		return nil
	}
	return &transactional{transactionalID(system, s.cfg.Slot), timeout}
}

// maxBackoff is the longest wait between two sessions.
const maxBackoff = 5 * time.Second

func (s *source) run(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, maxBackoff
	for {
		worked, err := s.session(ctx)
		if ctx.Err() != nil {
			s.log.Info("source stopped", "confirmed", s.resume.at.String())
			return
		}
		if errors.Is(err, errSnapshotOnly) {
			s.finish(err.Error())
			<-ctx.Done()
			return
		}
		if worked {
			wait.Reset()
			s.forget()
		}
		s.asText = s.asText || errors.Is(err, wal.ErrBinary)
		s.readWhole = errors.Is(err, errReadWhole) || sqlState(err) == internalError
		d := wait.NextBackOff()
		if errors.Is(err, errSlotBusy) { // another standby was quicker
			s.standBy(err.Error())
			d = min(d, standbyPoll)
		} else {
			s.standStill(err.Error())
			s.metrics.reconnects.Inc()
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// standStill notes why nothing is published, and logs it unless it is what was
// logged last: an attempt every few seconds would fill the log.
func (s *source) standStill(reason string) {
	s.mu.Lock()
	news := s.logged != reason
	s.reason, s.logged, s.standby = reason, reason, false
	s.mu.Unlock()
	if news {
		s.log.Warn("source stands still", "reason", reason)
	}
}

// standBy notes that another session has the slot.
func (s *source) standBy(reason string) {
	s.mu.Lock()
	news := s.logged != reason
	s.reason, s.logged, s.standby = reason, reason, true
	s.mu.Unlock()
	if news {
		s.log.Info("source stands by", "reason", reason)
	}
}

// finish notes that there is nothing more to do.
func (s *source) finish(why string) {
	s.mu.Lock()
	s.reason, s.finished = why, true
	s.mu.Unlock()
	s.log.Info("source is done", "reason", why)
}

// busyWith notes what is done before anything can be published.
func (s *source) busyWith(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.standby = what, false
}

// goOn ends a stand-still.
func (s *source) goOn() {
	s.mu.Lock()
	stood := s.reason != ""
	s.reason, s.standby = "", false
	s.mu.Unlock()
	if stood {
		s.log.Info("source is publishing")
	}
}

// forget makes the next stand-still news, whatever its reason.
func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = ""
}

// streaming notes that a session streams (nil: that it ended).
func (s *source) streaming(f *flight, h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight, s.held = f, h
	if f == nil {
		s.slot = nil
	}
}

func (s *source) setSlot(v *slotView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slot = v
}
