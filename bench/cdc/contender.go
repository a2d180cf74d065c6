package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// contender publishes the backlog of a slot.
type contender struct {
	name, says string
	topic      string // where its records go; empty when they go nowhere
	only       string // workload it takes part in; empty for all
	run        func(ctx context.Context, s *stage, r *race) (outcome, error)
}

// race is one run of a contender.
type race struct {
	workload workload
	slot     string
	end      string // of the log
	feed     *feed  // nil without a topic
	rows     int
}

// outcome is what is known of a run.
type outcome struct {
	took  time.Duration // from before the first record to the last
	use   usage
	note  string
	fault string // why it counts as zero
	twice int
	rows  int
}

func (o outcome) perSecond() float64 {
	if o.fault != "" || o.took <= 0 {
		return 0
	}
	return float64(o.rows) / o.took.Seconds()
}

var contenders = []contender{
	{"null-chorus", "chorus, records discarded", "bench.events", "", runNullChorus},
	{"null-recvlogical", "pg_recvlogical to nowhere, TCP", "", "", runRecvLogical},
	{"chorus", "chorus, TCP", "bench.events", "", chorus{}.run},
	{"chorus-socket", "chorus, Unix socket", "bench.events", "", chorus{socket: true}.run},
	{"chorus-exactly-once", "chorus, TCP, exactly-once", "bench.events", "", chorus{delivery: "exactly-once"}.run},
	{"chorus-dropin", "chorus as Debezium, TCP", "outbox.event.bench", "", chorus{dropin: true}.run},
	{"debezium", "Debezium on Connect, tuned", "outbox.event.bench", "", runDebezium},
	{"watermill", "Watermill SQL to Kafka", "bench.watermill", "one", runWatermill},
}

func contenderNames() []string {
	var names []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

// timed waits until a count, which begins with the contender, has reached the
// rows, and returns how long that took from the last moment at which there was
// none: a run is never taken for faster than it was.
func timed(ctx context.Context, p *process, rows int, count func(context.Context) (int64, error)) (time.Duration, error) {
	none := time.Now()
	err := tick(ctx, p, func() (bool, error) {
		asked := time.Now()
		n, err := count(ctx)
		if n == 0 {
			none = asked
		}
		return n >= int64(rows), err
	})
	return time.Since(none), err
}

// chorus is a way to run it.
type chorus struct {
	binary   string // the stage's by default
	socket   bool
	dropin   bool
	delivery string
}

// config writes the configuration file of a run.
func (c chorus) config(s *stage, w workload, slot, listen string) (string, error) {
	source := map[string]any{"name": "bench", "dsn": s.dsn(w.database(), c.socket), "slot": slot, "publication": "outbox"}
	if c.dropin {
		source["debezium"] = map[string]string{"publication.autocreate.mode": "disabled", "value.converter": "io.debezium.converters.BinaryDataConverter",
			"key.converter": "org.apache.kafka.connect.storage.StringConverter", "slot.name": slot, "publication.name": "outbox"}
	}
	config := map[string]any{"sources": []any{source}, "brokers": s.kafka.Brokers(), "prune_after": "-1s", "listen": listen}
	if c.delivery != "" {
		config["delivery"] = c.delivery
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, slot+".json")
	return path, os.WriteFile(path, text, 0o600)
}

func (c chorus) start(s *stage, w workload, slot string) (p *process, metrics string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	path, err := c.config(s, w, slot, listen)
	if err != nil {
		return nil, "", err
	}
	binary := s.binary
	if c.binary != "" {
		binary = c.binary
	}
	p, err = spawn(nil, binary, "cdc", "run", "--config", path, "--log", "warn")
	return p, "http://" + listen + "/metrics", err
}

func (c chorus) run(ctx context.Context, s *stage, r *race) (outcome, error) {
	p, metrics, err := c.start(s, r.workload, r.slot)
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	count := r.feed.held
	if c.delivery != "" { // the broker also counts the markers of transactions
		count = func(ctx context.Context) (int64, error) { return scrape(ctx, metrics, "chorus_cdc_records_total"), nil }
	}
	took, err := timed(ctx, p, r.rows, count)
	return outcome{took: took, use: usageOf(p.cmd.Process.Pid)}, err
}

// runNullChorus reads and makes records, and discards them.
func runNullChorus(ctx context.Context, s *stage, r *race) (outcome, error) {
	p, metrics, err := chorus{binary: s.null}.start(s, r.workload, r.slot)
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	took, err := timed(ctx, p, r.rows, func(ctx context.Context) (int64, error) {
		return scrape(ctx, metrics, "chorus_cdc_records_total"), nil
	})
	return outcome{took: took, use: usageOf(p.cmd.Process.Pid)}, err
}

// runRecvLogical has PostgreSQL's own client read the stream.
func runRecvLogical(ctx context.Context, s *stage, r *race) (outcome, error) {
	tool, err := exec.LookPath("pg_recvlogical")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_recvlogical")
		if found == nil {
			return outcome{fault: "there is no pg_recvlogical"}, nil
		}
		tool = slices.Max(found)
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, tool, "-d", s.dsn(r.workload.database(), false), "--slot", r.slot, "--start", "-f", "/dev/null", "--no-loop",
		"-o", "proto_version=1", "-o", "publication_names=outbox", "--endpos", r.end)
	if out, err := cmd.CombinedOutput(); err != nil {
		return outcome{}, fmt.Errorf("pg_recvlogical: %w: %s", err, out)
	}
	use := usage{cpu: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	return outcome{took: time.Since(began), use: use}, nil
}

// runWatermill forwards a part of the rows from a table of its own.
func runWatermill(ctx context.Context, s *stage, r *race) (outcome, error) {
	binary := filepath.Join(s.dir, "peer")
	if _, err := os.Stat(binary); err != nil {
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
		build.Dir = "bench/cdc/peer"
		if out, err := build.CombinedOutput(); err != nil {
			return outcome{fault: fmt.Sprintf("it cannot be built here: %.200s", out)}, nil
		}
	}
	r.rows = min(r.rows, s.peerRows)
	db, err := s.connect(ctx, r.workload.database())
	if err != nil {
		return outcome{}, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, fmt.Sprintf(watermillRows, r.rows)); err != nil {
		return outcome{}, fmt.Errorf("make the rows for Watermill: %w", err)
	}
	p, err := spawn(nil, binary, "-dsn", s.dsn(r.workload.database(), false), "-broker", s.kafka.Brokers()[0], "-topic", r.feed.name)
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	took, err := timed(ctx, p, r.rows, r.feed.held)
	return outcome{took: took, use: usageOf(p.cmd.Process.Pid), note: fmt.Sprintf("%d rows", r.rows)}, err
}

// Watermill's own table, with the rows of the outbox in the order of their numbers.
const watermillRows = `
DO $$ BEGIN
DROP TABLE IF EXISTS watermill, watermill_offsets;
CREATE TABLE watermill ("offset" BIGSERIAL, uuid VARCHAR(36) NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  payload BYTEA, metadata JSON, transaction_id xid8 NOT NULL, PRIMARY KEY (transaction_id, "offset"));
INSERT INTO watermill (uuid, payload, metadata, transaction_id)
SELECT id, payload, json_build_object('key', aggregateid), pg_current_xact_id() FROM outbox ORDER BY id LIMIT %d;
END $$`
