// Command calls measures what a service's provider calls cost: calls a second with both attempt rows, overhead over a bare HTTP
// client, the time from commit to request, and all of that as the number of stored calls grows (D13). See README.md.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/pgserver"
	"chorus/internal/provider"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(1)
	}
}

// rig is one service's database with workers, and a provider.
type rig struct {
	pool    *pgxpool.Pool
	outside *slow
	set     *provider.Set
	workers *intent.Workers
	next    event.OrderNo

	postgres int // the server's process
}

func run(ctx context.Context) error {
	calls := flag.Int("calls", 10_000, "calls of one run of the throughput")
	runs := flag.Int("runs", 5, "runs of each measurement; medians are printed")
	stored := flag.String("stored", "1000,10000,100000,1000000", "stored calls at which the wake-up is measured")
	latency := flag.Duration("latency", 20*time.Millisecond, "of the provider")
	concurrency := flag.Int("concurrency", 64, "of the provider's configuration")
	nosync := flag.Bool("nosync", false, "do not wait for the disk, to see whether it is what bounds the runs")
	flag.Parse()

	dir, err := os.MkdirTemp("", "chorus-bench-calls-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // the server's own user must get in
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres"), NoSync: *nosync})
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop(context.WithoutCancel(ctx)) }()
	r, err := newRig(ctx, server.DSN(), *latency, *concurrency)
	if err != nil {
		return err
	}
	defer r.outside.stop()
	r.postgres = server.PID()
	if err := r.describe(ctx, *latency, *concurrency); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.workers.Run(working) }()
	err = r.measure(ctx, *calls, *runs, *concurrency, strings.Split(*stored, ","))
	stop()
	return cmp.Or(err, <-ended)
}

func newRig(ctx context.Context, dsn string, latency time.Duration, concurrency int) (*rig, error) {
	if err := pg.Migrate(ctx, dsn, intent.Schema()); err != nil {
		return nil, err
	}
	pool, err := pg.Open(ctx, dsn, pg.Options{MaxConns: 8})
	if err != nil {
		return nil, err
	}
	o, err := listen(latency)
	if err != nil {
		return nil, err
	}
	file, err := provider.Parse("bench.yaml", fmt.Appendf(nil, `
routes: {stock: [{to: pay}], screening: [{to: pay}], shipment: [{to: pay}], payment: [{to: pay}]}
providers:
  pay:
    url: "{+base}/charges"
    concurrency: %d
    unknown: repeat
    revert: {url: "{+base}/charges/{reference}"}
`, concurrency), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	r := &rig{pool: pool, outside: o, next: 1}
	if r.set, err = file.Set(o.url, 5*time.Second, event.PaymentStep); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r.workers, err = intent.New(log, intent.Defaults(), pool, r.set, door{pool})
	return r, err
}

// describe says on what and with what it is measured.
func (r *rig) describe(ctx context.Context, latency time.Duration, concurrency int) error {
	var version, commit, fsync string
	if err := r.pool.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')").Scan(&version, &commit, &fsync); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("machine: %s/%s, %d CPUs, %s, load %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), strings.TrimSpace(string(load)))
	fmt.Printf("settings: PostgreSQL %s, synchronous_commit %s, fsync %s; provider latency %s, concurrency %d; provider and PostgreSQL on the same machine\n\n",
		version, commit, fsync, latency, concurrency)
	return nil
}

func (r *rig) measure(ctx context.Context, calls, runs, concurrency int, stored []string) error {
	var bare, with []sample
	for range runs {
		b, err := r.bare(ctx, calls, concurrency)
		if err != nil {
			return err
		}
		w, err := r.sustained(ctx, calls)
		if err != nil {
			return err
		}
		bare, with = append(bare, b), append(with, w)
		fmt.Printf("run: bare client %s, with intents %s\n", b, w)
	}
	b, w := median(bare), median(with)
	fmt.Printf("\nmedian: bare client %s\n        with intents %s\noverhead: %s CPU a call and %s in PostgreSQL: %d cores allow %.0f calls/s\n\n", b, w, (w.cpu - b.cpu).Round(time.Microsecond),
		w.database.Round(time.Microsecond), runtime.NumCPU(), float64(runtime.NumCPU())/(w.cpu+w.database).Seconds())
	for _, text := range stored {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			return fmt.Errorf("stored %q: %w", text, err)
		}
		if err := r.fill(ctx, n); err != nil {
			return err
		}
		waits, err := r.wakeUps(ctx, 300)
		if err != nil {
			return err
		}
		fmt.Printf("%8d calls stored: commit to request p50 %s, p99 %s, max %s\n", n, at(waits, 50), at(waits, 99), at(waits, 100))
	}
	return nil
}

// at is a percentile of sorted waits.
func at(waits []time.Duration, percent int) time.Duration {
	return waits[min(len(waits)*percent/100, len(waits)-1)].Round(10 * time.Microsecond)
}

// sample is the outcome of one run.
type sample struct {
	rate float64       // calls a second
	cpu  time.Duration // of this process, a call

	database time.Duration // CPU of PostgreSQL, a call
}

func (s sample) String() string {
	text := fmt.Sprintf("%.0f calls/s, CPU a call %s", s.rate, s.cpu.Round(time.Microsecond))
	if s.database > 0 {
		text += fmt.Sprintf(" and %s in PostgreSQL", s.database.Round(time.Microsecond))
	}
	return text
}

func median(all []sample) sample {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b sample) int { return cmp.Compare(a.rate, b.rate) })
	return sorted[len(sorted)/2]
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
