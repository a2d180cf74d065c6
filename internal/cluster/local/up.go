package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chorus/internal/cluster"
	"chorus/internal/cluster/dirlock"
	"chorus/internal/deploy"
	"chorus/internal/pgserver"
)

// Run runs the cluster until ctx ends, and then stops it in order. What people should see goes to out; the
// supervisor's own log is a file beside those of its processes.
func Run(ctx context.Context, out io.Writer, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	lock, err := dirlock.Acquire(ctx, cfg.Data, cluster.LockPatience)
	if err != nil {
		var held *dirlock.HeldError
		if errors.As(err, &held) {
			return fmt.Errorf("chorus is already up on %s: %w", cfg.Data, err)
		}
		return err
	}
	defer lock.Release()
	if cfg.Fresh {
		if err := lock.Empty(); err != nil {
			return fmt.Errorf("start over: %w", err)
		}
	}
	if err := cfg.portFree(ctx); err != nil {
		return err
	}
	file, err := openLog(cfg.dir("log"))
	if err != nil {
		return err
	}
	defer file.Close()
	log := slog.New(slog.NewTextHandler(file, nil))
	p, err := newPlan(log, cfg)
	if err != nil {
		return err
	}
	procs, err := p.processes()
	if err != nil {
		return err
	}
	show := &progress{out: out}
	sup, err := cluster.New(log, cluster.Config{
		Lock: lock, Control: p.addr("control"), Addresses: p.addresses(), Progress: show.changed,
	}, procs)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { p.prune(ctx, log, sup.Ready(), done) })
	wg.Go(func() {
		select {
		case <-sup.Ready():
			if err := deploy.Seed(ctx, p.front(), p.front()); err != nil {
				log.Warn("the sample catalogue is not loaded", "err", err)
			}
			show.welcome(p)
		case <-done:
		}
	})
	err = sup.Run(ctx)
	close(done)
	wg.Wait()
	if err == nil {
		fmt.Fprintln(out, "Everything is stopped.")
	}
	return err
}

func openLog(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the logs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "supervisor.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	return file, nil
}

func newPlan(log *slog.Logger, cfg Config) (plan, error) {
	if err := cluster.MakeSecret(cfg.Data); err != nil {
		return plan{}, err
	}
	password, err := cluster.Passwords(cfg.Data)
	if err != nil {
		return plan{}, err
	}
	ports, err := cluster.Ports(cfg.Data, cfg.portNames()...)
	if err != nil {
		return plan{}, err
	}
	p := plan{cfg: cfg, ports: ports, server: deploy.Server{Admin: cfg.Postgres, Password: password}}
	if cfg.Postgres == "" {
		// Without its password, which initdb draws, the URL is good enough to name databases and roles.
		if p.server.Admin, err = p.private().Passwordless(); err != nil {
			return plan{}, err
		}
	}
	p.prepare = p.preparing(log)
	return p, nil
}

// preparing returns the one preparation that all processes wait for: it runs once.
func (p plan) preparing(log *slog.Logger) func(string) cluster.Prepare {
	var once sync.Once
	var err error
	return func(string) cluster.Prepare {
		return func(ctx context.Context) error {
			once.Do(func() { err = p.deploy(ctx, log) })
			return err
		}
	}
}

// private is the server that up runs itself. Its clients come over the socket, which costs them and the server less than TCP does.
func (p plan) private() pgserver.Config {
	return pgserver.Config{Dir: p.cfg.dir("postgres"), Port: p.ports["postgres"]}
}

// deploy makes what the processes find when they start.
func (p plan) deploy(ctx context.Context, log *slog.Logger) error {
	server := p.server
	if p.cfg.Postgres == "" {
		admin, err := p.private().DSN()
		if err != nil {
			return err
		}
		server.Admin = admin
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deployWithin, fmt.Errorf("not within %s", deployWithin))
	defer cancel()
	return deploy.Plan{Server: server, Kafka: p.kafka(), Partitions: p.cfg.Partitions, Registry: p.cfg.Registry}.Run(ctx, log)
}

// prune deletes old records of calls daily, as long as the cluster is up, beginning some minutes after it is: a cluster may not live for a day.
func (p plan) prune(ctx context.Context, log *slog.Logger, ready, done <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-ready:
	case <-done:
		return
	}
	t := time.NewTimer(pruneSoon)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.server.PruneEvery(ctx, log, deploy.KeepCalls, pruneEvery, func(error) {}) })
	<-done
	cancel()
	wg.Wait()
}

// When old records of calls are deleted.
const (
	pruneSoon  = 5 * time.Minute
	pruneEvery = 24 * time.Hour
)

// deployWithin is how long servers may take until they can be prepared: a PostgreSQL that recovers from a crash opens its port
// before it lets anybody in.
const deployWithin = 5 * time.Minute

func joined(list []string) string { return strings.Join(list, ",") }
