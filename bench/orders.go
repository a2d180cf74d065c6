package main

import (
	"context"
	"fmt"
	"time"
)

// orders measures a steady load and the most that is taken, and checks every invariant afterwards.
func orders(ctx context.Context, o options) (err error) {
	c, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = stopped(c, err) }()
	if _, err := c.load(ctx, 500, 0); err != nil { // warm
		return err
	}
	var p50, p99, most, cost []float64
	for range o.runs {
		l, err := c.load(ctx, int(o.rate*20), o.rate)
		if err != nil {
			return err
		}
		p50, p99 = append(p50, l.Latency.P50), append(p99, l.Latency.P99)
	}
	for range o.runs {
		before := cpuSeconds(c.up.Process.Pid)
		l, err := c.load(ctx, o.count, 0)
		if err != nil {
			return err
		}
		most = append(most, l.PerSecond)
		cost = append(cost, 1000*(cpuSeconds(c.up.Process.Pid)-before)/float64(o.count))
	}
	report(fmt.Sprintf("place to confirmed at %.0f/s, p50", o.rate), "ms", p50)
	report(fmt.Sprintf("place to confirmed at %.0f/s, p99", o.rate), "ms", p99)
	report(fmt.Sprintf("finished, %d placed as fast as taken", o.count), "orders/s", most)
	report("processor time of all processes", "ms/order", cost)
	if _, err := c.tool(ctx, "verify"); err != nil {
		return fmt.Errorf("after the load: %w", err)
	}
	fmt.Println("  verify: every invariant holds")
	return nil
}

// start measures from the beginning of chorus up, on an empty folder, to the end of the first order.
func start(ctx context.Context, o options) error {
	var took []float64
	for range o.runs {
		began := time.Now()
		c, err := startCluster(ctx, o)
		if err != nil {
			return err
		}
		_, err = c.tool(ctx, "place", "--customer", "ada", "--item", "TEAPOT=1", "--wait")
		took = append(took, time.Since(began).Seconds())
		if err := stopped(c, err); err != nil {
			return err
		}
	}
	report("first order confirmed after", "s", took)
	return nil
}

// memory measures a cluster that has just started, and one that rests after a load.
func memory(ctx context.Context, o options) (err error) {
	c, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = stopped(c, err) }()
	if _, err := c.tool(ctx, "place", "--customer", "ada", "--item", "TEAPOT=1", "--wait"); err != nil {
		return err
	}
	show := func(when string) {
		mb, processes := pss(c.up.Process.Pid)
		fmt.Printf("  %-44s %10.1f MB (PSS) of %d processes\n", when, mb, processes)
	}
	show("after the first order")
	if _, err := c.load(ctx, 2000, 0); err != nil {
		return err
	}
	show("at the end of 2,000 orders")
	for _, rest := range []time.Duration{time.Minute, 2 * time.Minute, 2 * time.Minute} {
		select {
		case <-time.After(rest):
			show(fmt.Sprintf("after %s more of rest", rest))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func stopped(c *cluster, err error) error {
	if stop := c.stop(); err == nil && stop != nil {
		return fmt.Errorf("stop the cluster: %w", stop)
	}
	return err
}
