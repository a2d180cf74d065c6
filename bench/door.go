package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/cluster/embedded"
	"chorus/internal/participant"
	"chorus/internal/pgserver"
)

// door measures inbox.Run from a topic into a table: each fact has one row of effect. The time runs from the first effect to the last.
func door(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "chorus-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when this is root
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return err
	}
	defer server.Stop(context.WithoutCancel(ctx))
	broker, err := embedded.OpenBroker(ctx, slog.New(slog.DiscardHandler), filepath.Join(dir, "broker"), "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer broker.Close()

	var batched, single []float64
	for i := range o.runs {
		for _, size := range []int{500, 1} {
			n := 200 * max(size, 20) // 100,000 in batches, 4,000 one by one: some seconds each
			rate, err := consume(ctx, server, broker, fmt.Sprintf("t%d-%d", i, size), size, n)
			if err != nil {
				return err
			}
			if size == 1 {
				single = append(single, rate)
			} else {
				batched = append(batched, rate)
			}
		}
	}
	report("one partition, batches of 500", "facts/s", batched)
	report("one partition, one transaction a fact", "facts/s", single)
	fmt.Printf("  %-44s %10.1f times\n", "batches are faster by", median(batched)/median(single))
	return nil
}

func consume(ctx context.Context, server *pgserver.Server, broker *embedded.Broker, name string, size, n int) (rate float64, err error) {
	if err := broker.Cluster().CreateTopic(name, 1, nil); err != nil {
		return 0, err
	}
	if err := produce(ctx, broker.Addr(), name, n); err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, inbox.Schema+`CREATE TABLE IF NOT EXISTS effects (event_id uuid, key text, value bytea); TRUNCATE inbox, effects`); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var first, last time.Time
	seen := 0
	err = inbox.Run(ctx, slog.New(slog.DiscardHandler), inbox.Config{
		Brokers: []string{broker.Addr()}, Group: name, Topics: []string{name}, Postgres: server.DSN(), BatchRecords: size,
		Committed: func(facts []inbox.Fact, _ []inbox.Verdict) { // by one goroutine: there is one partition
			if seen == 0 {
				first = time.Now()
			}
			if seen += len(facts); seen >= n {
				last = time.Now()
				stop()
			}
		},
	}, effect)
	if err != nil || seen < n {
		return 0, errors.Join(err, context.Cause(ctx))
	}
	var effects int
	if err := conn.QueryRow(context.WithoutCancel(ctx), `SELECT count(DISTINCT event_id) FROM effects HAVING count(*) = count(DISTINCT event_id)`).Scan(&effects); err != nil || effects != n {
		return 0, fmt.Errorf("%d effects of %d facts: %w", effects, n, err)
	}
	return float64(n-size) / last.Sub(first).Seconds(), nil
}

// effect is a handler with one row a fact, written in one statement.
func effect(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	ids, keys, values := make([][16]byte, len(facts)), make([]string, len(facts)), make([][]byte, len(facts))
	for i, f := range facts {
		ids[i], keys[i], values[i] = f.ID, f.Key, f.Value
	}
	_, err := tx.Exec(ctx, `INSERT INTO effects SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[])`, ids, keys, values)
	return nil, err
}

// produce writes n facts of 200 bytes.
func produce(ctx context.Context, addr, topic string, n int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	value := make([]byte, 200)
	records := make([]*kgo.Record, n)
	now := []byte(time.Now().UTC().Format(time.RFC3339Nano))
	for i := range records {
		records[i] = &kgo.Record{Key: fmt.Append(nil, i/4), Value: value, Headers: []kgo.RecordHeader{
			{Key: "id", Value: []byte(participant.NewID().String())}, {Key: "eventType", Value: []byte("Measured")}, {Key: "occurredAt", Value: now},
		}}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
