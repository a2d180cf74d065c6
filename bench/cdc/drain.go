package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// drain has the contenders publish a workload's backlog in turns, and prints
// the medians.
func (s *stage) drain(ctx context.Context, w workload) error {
	fmt.Printf("\n%s: %d %s (load %s)\n", w.name, w.rows, w.says, load())
	end, err := s.database(ctx, w)
	if err != nil {
		return err
	}
	results := map[string][]outcome{}
	for round := range s.runs {
		for _, c := range contenders {
			if !s.takesPart(c.name) || c.only != "" && c.only != w.name {
				continue
			}
			out, err := s.race(ctx, c, w, end)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				out.fault = err.Error()
			}
			if out.fault != "" {
				fmt.Printf("  round %d: %s counts as zero: %s\n", round+1, c.name, out.fault)
			}
			results[c.name] = append(results[c.name], out)
		}
	}
	return errors.Join(table(results), s.forget(ctx, w))
}

// race is one run of one contender, and the judgement of what it has published.
func (s *stage) race(ctx context.Context, c contender, w workload, end string) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	slot, drop, err := s.slot(ctx, w)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	r := &race{workload: w, slot: slot, end: end, rows: w.rows}
	if c.topic != "" {
		if r.feed, err = s.makeTopic(ctx, c.topic); err != nil {
			return out, err
		}
		defer r.feed.close()
	}
	if out, err = c.run(ctx, s, r); err != nil || out.fault != "" {
		return out, err
	}
	out.rows = r.rows
	if r.feed == nil || strings.HasPrefix(c.name, "null") {
		return out, nil
	}
	stream, err := r.feed.judge(ctx, s.kafka.Brokers(), r.rows)
	if err != nil {
		return out, err
	}
	out.twice = stream.Duplicates
	if faults := stream.Faults(); len(faults) > 0 {
		out.fault = strings.Join(faults, "; ")
	}
	return out, nil
}

// forget drops the workload's slot, so that no log is kept for it.
func (s *stage) forget(ctx context.Context, w workload) error {
	db, err := s.connect(ctx, w.database())
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	_, err = db.Exec(ctx, "SELECT pg_drop_replication_slot($1)", w.database())
	return err
}

// table prints the medians.
func table(results map[string][]outcome) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\trows/s\tof\tCPU s per million\tpeak MB\ttwice\t\t")
	for _, c := range contenders {
		runs := results[c.name]
		if len(runs) == 0 {
			continue
		}
		var each []string
		for _, o := range runs {
			each = append(each, fmt.Sprintf("%.1fk", o.perSecond()/1000))
		}
		mid := middle(runs)
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%.2f\t%.0f\t%d\t%s\t\n", c.says, mid.perSecond(), strings.Join(each, " "),
			mid.use.cpu*1e6/float64(max(1, mid.rows)), mid.use.peakMB, mid.twice, mid.note)
	}
	return t.Flush()
}

// middle is the run of the median speed; of an even number the lower one.
func middle(runs []outcome) outcome {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b outcome) int { return cmp.Compare(a.perSecond(), b.perSecond()) })
	return sorted[(len(sorted)-1)/2]
}

// scrape reads a metric; 0 while nobody answers.
func scrape(ctx context.Context, url, name string) int64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+"{"); ok {
			_, value, _ := strings.Cut(rest, "} ")
			f, _ := strconv.ParseFloat(value, 64)
			return int64(f)
		}
	}
	return 0
}
