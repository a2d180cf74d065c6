package participant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"chorus/inbox"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/provider"
	"chorus/internal/web"
)

// Service is a running participant.
type Service[S any] struct {
	Door   *Door[S]
	DB     *pgxpool.Pool
	Config Config
	Log    *slog.Logger
	spec   Spec[S]
	facts  *inbox.Consumer
	calls  *intent.Workers // nil for a participant that calls nobody
	meter  *web.Meter
}

// Setup is what a participant adds to the common shell.
type Setup[S any] struct {
	Spec      Spec[S]
	Providers *provider.File                                 // nil for a participant that calls nobody
	Step      event.Step                                     // whose providers it calls
	Routes    func(s *Service[S], mux *http.ServeMux)        // its own HTTP routes; nil for none
	Gate      func(s *Service[S]) (Gate, error)              // when timers may fire; nil for at once
	Ready     func(ctx context.Context, s *Service[S]) error // further conditions of readiness; nil for none
}

// Run runs a participant until ctx ends: its consumer, its workers, its timers and its HTTP side. Database, broker and providers may be
// away at the start or at any time; it waits for them. At the end it finishes what was begun: batches, exchanges and requests.
func Run[S any](ctx context.Context, log *slog.Logger, cfg Config, setup Setup[S]) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", setup.Spec.Name, err)
	}
	s := &Service[S]{Config: cfg, Log: log.With("participant", setup.Spec.Name), spec: setup.Spec, meter: web.NewMeter()}
	return Serve(ctx, s.Log, cfg.Listen, func(ctx context.Context, gate *web.Gate) error {
		if err := s.open(ctx, setup); err != nil {
			return err
		}
		mux := http.NewServeMux()
		s.routes(mux, setup)
		gate.Open(s.meter.Measure(mux))
		return s.run(ctx, setup)
	}, func() {
		if s.DB != nil {
			s.DB.Close()
		}
	})
}

// Serve runs a process with an HTTP side until ctx ends: body, and behind gate what body opens it with. When both have ended it calls
// closed, so that requests under way keep their database. The end of ctx is no error.
func Serve(ctx context.Context, log *slog.Logger, listen string, body func(ctx context.Context, gate *web.Gate) error, closed func()) error {
	listener, err := web.Listen(ctx, listen)
	if err != nil {
		return err
	}
	defer closed()
	group, running := errgroup.WithContext(ctx)
	gate := &web.Gate{} // answers 503 until the process is set up
	group.Go(func() error { return web.Serve(running, log, listener, gate) })
	group.Go(func() error {
		log.Info("starting", "listen", listener.Addr().String())
		err := body(running, gate)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the process ended by itself")
		}
		return err
	})
	if err := group.Wait(); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return err
	}
	return nil
}

func (s *Service[S]) open(ctx context.Context, setup Setup[S]) (err error) {
	cfg := s.Config
	s.DB, err = pg.Await(ctx, s.Log, cfg.Postgres, pg.Options{Name: "chorus " + string(setup.Spec.Name), MaxConns: cfg.MaxConns})
	if err != nil {
		return err
	}
	c, err := OpenCodec(ctx, s.Log, cfg.Registry, cfg.Format)
	if err != nil {
		return err
	}
	s.Door = New(ctx, s.Log, s.DB, c, setup.Spec)
	s.facts, err = inbox.New(s.Log, inbox.Config{
		Brokers: cfg.Kafka, Group: string(setup.Spec.Name), Topics: Topics(setup.Spec.Name), Postgres: cfg.Postgres,
		BatchRecords: cfg.Batch, Horizon: cfg.Horizon, InstanceID: cfg.Instance, Committed: s.Door.Committed, Together: true,
	}, s.Door.Receive)
	if err != nil {
		return err
	}
	s.meter.MustRegister(Figures(s.DB, s.facts))
	if setup.Providers == nil {
		return nil
	}
	set, err := setup.Providers.Set(cfg.Providers, cfg.Timeout, setup.Step)
	if err != nil {
		return err
	}
	if s.calls, err = intent.New(s.Log, cfg.Calls, s.DB, set, s.Door); err != nil {
		return err
	}
	s.Door.CallBy(s.calls)
	return nil
}

// run ends when ctx ends and everything that was begun is finished, or with the first failure.
func (s *Service[S]) run(ctx context.Context, setup Setup[S]) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.facts.Run(ctx) })
	group.Go(func() error { return Housekeep(ctx, s.Log, s.DB, string(s.spec.Name), s.Config.Horizon) })
	if s.calls != nil {
		group.Go(func() error { return s.calls.Run(ctx) })
	}
	if s.spec.Due != nil {
		gate := Gate(openGate{})
		if setup.Gate != nil {
			var err error
			if gate, err = setup.Gate(s); err != nil {
				return err
			}
		}
		group.Go(func() error { return s.Door.keepTime(ctx, gate) })
	}
	s.Log.Info("running")
	return group.Wait()
}

// ready says why the service cannot do its work, every reason there is, or nil.
func (s *Service[S]) ready(ctx context.Context, setup Setup[S]) error {
	err := Ready(ctx, s.DB, s.facts)
	if setup.Ready != nil {
		err = errors.Join(err, setup.Ready(ctx, s))
	}
	return err
}
