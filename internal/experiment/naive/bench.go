package naive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/internal/broker"
	"chorus/internal/pg"
	"chorus/outbox"
)

// What the demonstration has of its own.
const (
	database   = "chorus_demo"
	slot       = "chorus_demo" // the publisher's, of the source named demo
	aggregate  = "demo"
	topicNaive = "naive.events"
	topicFacts = "demo.events" // where the outbox's facts go
)

// Config says where the demonstration takes place.
type Config struct {
	Admin      string // URL of the database server's superuser
	Kafka      []string
	Executable string // this program
}

// Bench is a database and two topics for a while.
type Bench struct {
	cfg Config
	dsn string
}

// Open makes them, after it has removed what an earlier one may have left.
func Open(ctx context.Context, cfg Config) (*Bench, error) {
	b := &Bench{cfg: cfg}
	var err error
	if b.dsn, err = pg.WithDatabase(cfg.Admin, database, "", ""); err != nil {
		return nil, err
	}
	if err := b.Close(ctx); err != nil {
		return nil, err
	}
	if err := b.admin(ctx, `CREATE DATABASE `+database+` TEMPLATE template0 ENCODING 'UTF8'`); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to the demonstration's database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{`CREATE TABLE orders (number int PRIMARY KEY)`, outbox.Schema} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the demonstration's tables: %w", err)
		}
	}
	return b, b.topics(ctx)
}

// topics makes the topics. A broker may not have heard yet that they were deleted a moment ago.
func (b *Bench) topics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := broker.EnsureTopics(ctx, b.cfg.Kafka, map[string]int32{topicNaive: 1, topicFacts: 1})
		if err == nil || !pause(ctx) {
			return err
		}
	}
}

// pause waits for the next try; false when there is none.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Close removes everything. Whoever is still connected is thrown out.
func (b *Bench) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := b.admin(ctx,
		`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+slot+`' AND active`,
		`DO $$ BEGIN
			FOR i IN 1..100 LOOP -- a walsender that was told to end still holds its slot for a moment
				EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '`+slot+`' AND active);
				PERFORM pg_sleep(0.05);
			END LOOP;
		END $$`,
		`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '`+slot+`'`,
		`DROP DATABASE IF EXISTS `+database+` WITH (FORCE)`)
	return errors.Join(err, b.deleteTopics(ctx))
}

// admin runs statements as the superuser, each by itself: a database is made and dropped outside of transactions.
func (b *Bench) admin(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, b.cfg.Admin)
	if err != nil {
		return fmt.Errorf("connect as the database server's superuser: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare the demonstration: %w", err)
		}
	}
	return nil
}

func (b *Bench) deleteTopics(ctx context.Context) error {
	client, err := broker.NewClient(b.cfg.Kafka)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	have, err := admin.ListTopics(ctx, topicNaive, topicFacts)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, t := range have.Sorted() {
		if t.Err != nil {
			continue // it is not there
		}
		if _, err := admin.DeleteTopics(ctx, t.Topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", t.Topic, err)
		}
	}
	return nil
}
