package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"
)

// worker is one Kafka Connect worker for all runs, so that its virtual machine
// is warm from the second run on.
type worker struct {
	*process
	rest string
}

// connect starts the worker, once.
func (s *stage) connectWorker(ctx context.Context) (*worker, error) {
	if s.worker != nil {
		return s.worker, nil
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := spawn(nil, "bench/cdc/debezium/run", s.kafka.Brokers()[0], filepath.Join(s.dir, "connect"), fmt.Sprint(port))
	if err != nil {
		return nil, err
	}
	s.worker = &worker{process: p, rest: fmt.Sprintf("http://127.0.0.1:%d/connectors", port)}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // the first time Maven fetches the jars
	defer cancel()
	return s.worker, tick(ctx, p, func() (bool, error) {
		resp, err := http.Get(s.worker.rest)
		if err != nil {
			return false, nil
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// connector is the tuned configuration, as in a public benchmark that is fair
// to Debezium (Conduit's): large batches and queue, lz4, 50 ms of linger.
func (s *stage) connector(w workload, slot string) (map[string]string, error) {
	u, err := url.Parse(s.dsn(w.database(), false))
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	return map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput", "tasks.max": "1",
		"database.hostname": u.Hostname(), "database.port": u.Port(), "database.user": u.User.Username(), "database.password": password,
		"database.dbname": w.database(), "topic.prefix": slot, "slot.name": slot, "publication.name": "outbox",
		"publication.autocreate.mode": "disabled", "snapshot.mode": "no_data", "table.include.list": "public.outbox",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "io.debezium.converters.BinaryDataConverter",
		"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
		"extended.headers.enabled": "false",
		"max.batch.size":           "20000", "max.queue.size": "100000",
		"producer.override.compression.type": "lz4", "producer.override.linger.ms": "50", "producer.override.batch.size": "524288",
		"producer.override.buffer.memory": "134217728", "producer.override.acks": "all",
	}, nil
}

func (w *worker) call(ctx context.Context, method, path string, body any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.rest+path, &text)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("call Connect: %s %s: %s: %s; %s", method, path, resp.Status, said, tail(w.said.Bytes()))
	}
	return nil
}

// with runs a connector while something is done.
func (w *worker) with(ctx context.Context, name string, config map[string]string, do func() error) error {
	if err := w.call(ctx, http.MethodPost, "", map[string]any{"name": name, "config": config}); err != nil {
		return err
	}
	err := do()
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if e := w.call(gone, http.MethodDelete, "/"+name, nil); err == nil {
		err = e
	}
	return err
}

func runDebezium(ctx context.Context, s *stage, r *race) (out outcome, err error) {
	w, err := s.connectWorker(ctx)
	if err != nil {
		return out, err
	}
	config, err := s.connector(r.workload, r.slot)
	if err != nil {
		return out, err
	}
	pid := w.cmd.Process.Pid
	before := usageOf(pid)
	err = w.with(ctx, r.slot, config, func() (err error) {
		out.took, err = timed(ctx, w.process, r.rows, r.feed.held)
		return err
	})
	out.use = usageOf(pid)
	out.use.cpu -= before.cpu
	if s.warmed() {
		return out, err
	}
	out.note = "the worker's first"
	return out, err
}

// warmed tells whether the worker has drained something before.
func (s *stage) warmed() bool {
	defer func() { s.warmUp = true }()
	return s.warmUp
}
