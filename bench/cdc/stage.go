package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/e2e/kafka"
	"chorus/internal/pgserver"
	"chorus/outbox"
)

// stage is what all contenders share: one PostgreSQL, one Apache Kafka, the
// binaries.
type stage struct {
	options
	dir      string
	postgres *pgserver.Server
	kafka    *kafka.Cluster
	null     string // chorus whose records go nowhere
	worker   *worker
	runNo    int
	warmUp   bool // the worker has drained something
}

func startStage(ctx context.Context, o options) (s *stage, err error) {
	dir, err := os.MkdirTemp("", "chorus-bench-cdc")
	if err != nil {
		return nil, err
	}
	s = &stage{options: o, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when this is root
		return s, err
	}
	s.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres"), Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "max_slot_wal_keep_size": "-1", "wal_sender_timeout": "60s",
	}})
	if err != nil {
		return s, err
	}
	if os.Getenv("CHORUS_KAFKA_HEAP") == "" {
		if err := os.Setenv("CHORUS_KAFKA_HEAP", "1g"); err != nil {
			return s, err
		}
	}
	if s.kafka, err = kafka.Start(ctx, filepath.Join(dir, "kafka"), 1); err != nil {
		return s, err
	}
	s.null = filepath.Join(dir, "chorus-null")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "discard", "-o", s.null, "./cmd/chorus")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return s, fmt.Errorf("build the null run: %w", err)
	}
	return s, nil
}

// close ends everything and deletes the folder.
func (s *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var faults []error
	if s.worker != nil {
		s.worker.stop()
	}
	if s.kafka != nil {
		faults = append(faults, s.kafka.Stop(ctx))
	}
	if s.postgres != nil {
		faults = append(faults, s.postgres.Stop(ctx))
	}
	return errors.Join(append(faults, os.RemoveAll(s.dir))...)
}

// dsn is the database's URL, over TCP or over the server's socket.
func (s *stage) dsn(database string, socket bool) string {
	text := s.postgres.TCP()
	if socket {
		text = s.postgres.DSN()
	}
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // it is ours
	}
	u.Path = "/" + database
	return u.String()
}

func (s *stage) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.dsn(database, true))
}

// database makes one with an outbox, a slot and a load in the log behind it.
func (s *stage) database(ctx context.Context, w workload) (end string, err error) {
	root, err := s.connect(ctx, "postgres")
	if err != nil {
		return "", err
	}
	defer root.Close(context.WithoutCancel(ctx))
	if _, err := root.Exec(ctx, "CREATE DATABASE "+w.database()); err != nil {
		return "", err
	}
	db, err := s.connect(ctx, w.database())
	if err != nil {
		return "", err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		outbox.Schema, "SET synchronous_commit = off",
		fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", w.database()),
		w.load, fmt.Sprintf("CALL load(%d)", w.rows), "CHECKPOINT",
	} {
		if _, err := db.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return "", fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return end, db.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&end)
}

// slot copies the workload's slot for one run.
func (s *stage) slot(ctx context.Context, w workload) (name string, drop func() error, err error) {
	db, err := s.connect(ctx, w.database())
	if err != nil {
		return "", nil, err
	}
	s.runNo++
	name = fmt.Sprintf("run_%d", s.runNo)
	if _, err := db.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2)", w.database(), name); err != nil {
		return "", nil, errors.Join(err, db.Close(ctx))
	}
	return name, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		defer db.Close(ctx)
		for { // until its owner's session has ended
			_, err := db.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
			if err == nil || ctx.Err() != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
	}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
