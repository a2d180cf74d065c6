// Command cdc measures chorus cdc beside its peers, on one Apache Kafka and one PostgreSQL that it starts for itself, in turns: chorus over
// TCP, over the server's socket, as a drop-in for Debezium, with exactly-once delivery; Debezium on Kafka Connect, warm and tuned; another
// publisher in Go; and two null runs, chorus without Kafka and pg_recvlogical to nowhere.
//
// Each run reads the same log through a copy of one slot. After it the whole topic is read and judged: a run that misses, reorders or invents a
// record counts as zero. See docs/performance.md for the figures, and `go run ./bench/cdc -h` for sizes. All listen on loopback, all folders are
// temporary; nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the sizes, and who takes part.
type options struct {
	binary   string
	rows     int // of a workload
	big      int // rows of the one large transaction
	peerRows int // of the peer that takes rows one by one
	runs     int
	rate     int // events a second of the steady load
	steady   time.Duration
	warm     time.Duration
	only     []string // contenders
	loads    []string // workloads; "latency" is one
}

func main() {
	var o options
	var only, loads string
	flag.StringVar(&o.binary, "binary", "bin/chorus", "chorus, built")
	flag.IntVar(&o.rows, "rows", 50_000, "rows of each workload (official: 500000)")
	flag.IntVar(&o.big, "big", 100_000, "rows of the one large transaction (official: 1000000)")
	flag.IntVar(&o.peerRows, "peer-rows", 10_000, "rows for the Go peer, which is slow")
	flag.IntVar(&o.runs, "runs", 3, "runs of each contender, in turns; the median counts")
	flag.IntVar(&o.rate, "rate", 2000, "latency: events a second")
	flag.DurationVar(&o.steady, "steady", 10*time.Second, "latency: how long it is measured (official: 30s)")
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "latency: warm-up before it (official: 10s)")
	flag.StringVar(&only, "only", "", "contenders, by comma: "+strings.Join(contenderNames(), ","))
	flag.StringVar(&loads, "loads", "one,hundred,json,big,latency", "workloads, by comma")
	flag.Parse()
	o.only, o.loads = list(only), list(loads)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/cdc:", err)
		stop()
		os.Exit(1)
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func run(ctx context.Context, o options) (err error) {
	for _, name := range o.only {
		if !slices.Contains(contenderNames(), name) {
			return fmt.Errorf("there is no contender %q", name)
		}
	}
	s, err := startStage(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	describe()
	for _, w := range workloads(o) {
		if slices.Contains(o.loads, w.name) {
			if err := s.drain(ctx, w); err != nil {
				return fmt.Errorf("workload %s: %w", w.name, err)
			}
		}
	}
	if slices.Contains(o.loads, "latency") {
		if err := s.latency(ctx); err != nil {
			return fmt.Errorf("latency: %w", err)
		}
	}
	return nil
}

// takesPart tells whether a contender was asked for.
func (o options) takesPart(name string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, name)
}
