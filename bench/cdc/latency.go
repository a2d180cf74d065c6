package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/outbox"
)

// steadyContender publishes while rows come at a steady rate.
type steadyContender struct {
	name, says, topic string
	start             func(ctx context.Context, s *stage, w workload) (pid int, stop func(), err error)
}

func (c chorus) steady(_ context.Context, s *stage, w workload) (int, func(), error) {
	p, _, err := c.start(s, w, w.database())
	if err != nil {
		return 0, nil, err
	}
	return p.cmd.Process.Pid, p.stop, nil
}

// debeziumSteady is the connector of the drain, with some options changed.
func debeziumSteady(change map[string]string) func(context.Context, *stage, workload) (int, func(), error) {
	return func(ctx context.Context, s *stage, w workload) (int, func(), error) {
		wk, err := s.connectWorker(ctx)
		if err != nil {
			return 0, nil, err
		}
		config, err := s.connector(w, w.database())
		if err != nil {
			return 0, nil, err
		}
		for k, v := range change {
			config[k] = v
		}
		s.runNo++
		name := fmt.Sprintf("steady_%d", s.runNo)
		config["topic.prefix"] = name
		ready, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- wk.with(ctx, name, config, func() error { close(ready); <-done; return nil })
		}()
		select {
		case <-ready:
		case err := <-ended:
			return 0, nil, err
		}
		return wk.cmd.Process.Pid, func() { close(done); <-ended }, nil
	}
}

var steadyContenders = []steadyContender{
	{"chorus", "chorus, TCP", "bench.events", chorus{}.steady},
	{"chorus-socket", "chorus, Unix socket", "bench.events", chorus{socket: true}.steady},
	{"chorus-exactly-once", "chorus, TCP, exactly-once", "bench.events", chorus{delivery: "exactly-once"}.steady},
	{"debezium", "Debezium, tuned as for the drain", "outbox.event.bench", debeziumSteady(nil)},
	{"debezium", "Debezium, tuned for latency", "outbox.event.bench", debeziumSteady(map[string]string{"poll.interval.ms": "5", "producer.override.linger.ms": "0",
		"max.batch.size": "2048", "max.queue.size": "8192", "producer.override.compression.type": "none"})},
}

// latency measures from the return of COMMIT to the record in the hands of a
// consumer, at a steady rate that does not wait for anything (open loop).
func (s *stage) latency(ctx context.Context) error {
	fmt.Printf("\nlatency: one-row transactions at %d/s, %s after %s of warm-up (load %s)\n", s.rate, s.steady, s.warm, load())
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ms\tp50\tp90\tp99\tp99.9\tmost\tcores\tpeak MB\t")
	for i, c := range steadyContenders {
		if !s.takesPart(c.name) {
			continue
		}
		m, err := s.steadyRun(ctx, c, fmt.Sprintf("latency_%d", i))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			fmt.Fprintf(t, "%s\tcounts as nothing: %v\t\n", c.says, err)
			continue
		}
		at := func(q float64) float64 { return m.all[min(len(m.all)-1, int(q*float64(len(m.all))))] }
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.0f\t\n", c.says, at(.5), at(.9), at(.99), at(.999), at(1), m.cores, m.use.peakMB)
	}
	return t.Flush()
}

// measured is what a steady run came to: latencies in milliseconds, sorted.
type measured struct {
	all   []float64
	cores float64
	use   usage
}

func (s *stage) steadyRun(ctx context.Context, c steadyContender, database string) (m measured, err error) {
	w := workload{name: database, rows: 0, load: "SELECT 1"}
	if err := s.empty(ctx, w); err != nil {
		return m, err
	}
	f, err := s.makeTopic(ctx, c.topic)
	if err != nil {
		return m, err
	}
	defer f.close()
	pid, stop, err := c.start(ctx, s, w)
	if err != nil {
		return m, err
	}
	defer stop()
	total := int(float64(s.rate) * (s.warm + s.steady).Seconds())
	skip := int(float64(s.rate) * s.warm.Seconds())
	commits, arrivals := make([]time.Time, total+1), make([]time.Time, total+1)
	ctx, cancel := context.WithTimeout(ctx, s.warm+s.steady+time.Minute)
	defer cancel()
	reading := make(chan error, 1)
	go func() { reading <- s.arrive(ctx, f.name, arrivals) }()
	var before usage
	warm := time.AfterFunc(s.warm, func() { before = usageOf(pid) })
	defer warm.Stop()
	if err := s.write(ctx, w, commits); err != nil {
		return m, err
	}
	if err := <-reading; err != nil {
		return m, err
	}
	m.use = usageOf(pid)
	m.cores = (m.use.cpu - before.cpu) / s.steady.Seconds()
	for n := skip + 1; n <= total; n++ {
		m.all = append(m.all, max(0, float64(arrivals[n].Sub(commits[n]))/1e6)) // it may be there before COMMIT has returned
	}
	slices.Sort(m.all)
	stream, err := f.judge(ctx, s.kafka.Brokers(), total)
	if err == nil && len(stream.Faults()) > 0 {
		err = errors.New(strings.Join(stream.Faults(), "; "))
	}
	return m, err
}

// empty makes a database with an empty outbox and a slot.
func (s *stage) empty(ctx context.Context, w workload) error {
	root, err := s.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer root.Close(context.WithoutCancel(ctx))
	if _, err := root.Exec(ctx, "CREATE DATABASE "+w.database()); err != nil {
		return err
	}
	db, err := s.connect(ctx, w.database())
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, outbox.Schema, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", w.database())
	return err
}

const insertRow = `
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, causationid, hop)
VALUES (('00000000-0000-4000-8000-' || lpad(to_hex($1::int), 12, '0'))::uuid, 'bench', $2::text, 'OrderPlaced', decode(repeat(md5($2::text), 12) || '00112233aabbccdd', 'hex'), now(), $2::text, '', 0)`

// write commits the rows at their times, each whether the ones before it are
// back or not. A key has one writer, so that its numbers grow with its commits.
func (s *stage) write(ctx context.Context, w workload, commits []time.Time) error {
	const writers = 8
	begin := time.Now().Add(time.Second)
	var all sync.WaitGroup
	faults := make([]error, writers)
	for i := range writers {
		all.Go(func() {
			faults[i] = func() error {
				db, err := s.connect(ctx, w.database())
				if err != nil {
					return err
				}
				defer db.Close(context.WithoutCancel(ctx))
				for n := 1 + i; n < len(commits); n += writers {
					time.Sleep(time.Until(begin.Add(time.Duration(n) * time.Second / time.Duration(s.rate))))
					if _, err := db.Exec(ctx, insertRow, n, fmt.Sprintf("k%d", n%keys)); err != nil {
						return err
					}
					commits[n] = time.Now()
				}
				return nil
			}()
		})
	}
	all.Wait()
	return cmp.Or(faults...) // one tells it all
}

// arrive notes when each row is in the hands of a consumer.
func (s *stage) arrive(ctx context.Context, topic string, arrivals []time.Time) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Brokers()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	for left := len(arrivals) - 1; left > 0; {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return fmt.Errorf("%d rows have not come: %w", left, context.Cause(ctx))
		}
		var bad error
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := numberOf(r)
			if err != nil || n >= uint64(len(arrivals)) {
				bad = errors.Join(bad, err, fmt.Errorf("row %d", n))
			} else if arrivals[n].IsZero() {
				arrivals[n] = now
				left--
			}
		})
		if bad != nil {
			return bad
		}
	}
	return nil
}
