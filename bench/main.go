// Command bench measures the targets of D13 that belong to services and consumers, each by name and each bounded, and prints machine,
// settings and medians. It works in temporary folders and leaves nothing behind.
//
//	go run ./bench door orders start memory slots flat
//
// All processes of a cluster share the machine with the measuring one, so a busy machine gives worse figures: the load before each
// measurement is printed with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one measurement.
type bench struct {
	name  string
	what  string
	limit time.Duration
	run   func(ctx context.Context, o options) error
}

// options are what all measurements share.
type options struct {
	binary string // chorus, built
	runs   int    // of which the median is taken
	rate   float64
	count  int
	sizes  []int // stored orders
}

var benches = []bench{
	{"door", "facts applied by one consumer, in batches and one by one", 5 * time.Minute, door},
	{"orders", "orders finished a second; place to confirmed", 10 * time.Minute, orders},
	{"start", "first order confirmed after chorus up", 5 * time.Minute, start},
	{"memory", "memory of the idle cluster", 10 * time.Minute, memory},
	{"slots", "five replication slots against one", 5 * time.Minute, slots},
	{"flat", "cost of an order among many stored ones", 60 * time.Minute, flat},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	o := options{}
	flag.IntVar(&o.runs, "runs", 3, "runs of each measurement; the median counts")
	flag.Float64Var(&o.rate, "rate", 100, "orders: orders a second of the steady load")
	flag.IntVar(&o.count, "count", 3000, "orders: orders in one run")
	flag.StringVar(&o.binary, "binary", "", "chorus, built; empty: built now")
	sizes := flag.String("stored", "10000,100000,1000000", "flat: stored orders")
	flag.Parse()
	for text := range strings.SplitSeq(*sizes, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1000 {
			return fmt.Errorf("--stored %s: want numbers from 1000", *sizes)
		}
		o.sizes = append(o.sizes, n)
	}
	names := flag.Args()
	if len(names) == 0 {
		names = []string{"door", "orders", "start", "memory", "slots"}
	}
	for _, name := range names {
		if !slices.ContainsFunc(benches, func(b bench) bool { return b.name == name }) {
			return fmt.Errorf("there is no benchmark %q", name)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.binary == "" {
		dir, err := os.MkdirTemp("", "chorus-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.binary = filepath.Join(dir, "chorus")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", o.binary, "./cmd/chorus")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build chorus: %w", err)
		}
	}
	describeMachine()
	var faults []error
	for _, b := range benches {
		if !slices.Contains(names, b.name) {
			continue
		}
		fmt.Printf("\n%s: %s (load %s)\n", b.name, b.what, load())
		limited, cancel := context.WithTimeout(ctx, b.limit)
		if err := b.run(limited, o); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", b.name, err))
		}
		cancel()
	}
	return errors.Join(faults...)
}

// median is the middle of the values; of an even number the lower one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// report prints the median of a figure and all of its runs.
func report(what, unit string, values []float64) {
	fmt.Printf("  %-44s %10.1f %-10s of %.1f\n", what, median(values), unit, values)
}
