// Package cdc runs the publisher on Apache Kafka: what the embedded broker cannot show.
//
//	CHORUS_E2E_KAFKA=1 go test ./e2e/cdc
package cdc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
	"chorus/e2e/kafka"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

// within bounds each wait of a test; the machine may be busy.
const within = 120 * time.Second

// childConfig makes this program a publisher that can be killed.
const childConfig = "CHORUS_CDC_E2E_CONFIG"

// The Kafka of all tests, and the proxy before it that is its advertised address.
var (
	cluster *kafka.Cluster
	wire    *proxy
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		os.Exit(child(text))
	}
	if os.Getenv("CHORUS_E2E_KAFKA") == "" {
		fmt.Println("runs on Apache Kafka: CHORUS_E2E_KAFKA=1")
		return
	}
	code, err := runOnKafka(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func child(text string) int {
	var cfg cdc.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := cdc.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runOnKafka(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "chorus-cdc-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if wire, err = newProxy(); err != nil {
		return 0, err
	}
	defer wire.close()
	ctx, cancel := context.WithTimeout(context.Background(), 4*within) // the first time it is fetched
	defer cancel()
	if cluster, err = kafka.Start(ctx, dir, 1, "advertised.listeners=PLAINTEXT://"+wire.addr()); err != nil {
		return 0, err
	}
	defer func() { _ = cluster.Stop(context.Background()) }()
	wire.target(cluster.Brokers()[0])
	return m.Run(), nil
}

// rig is a database with an outbox, and a source of its own.
type rig struct {
	t     *testing.T
	dsn   string
	db    *pgx.Conn
	topic string
	cfg   cdc.Config

	mu   sync.Mutex       // guards what follows
	next int              // number of the last row
	want map[string][]int // numbers of the committed rows of each key, in order
}

// newRig makes a database and an exactly-once source for it; the second as a drop-in for Debezium if that is asked for.
func newRig(t *testing.T, dropIn bool) *rig {
	t.Helper()
	r := &rig{t: t, dsn: pgtest.Database(t), want: map[string][]int{}}
	r.db = r.connect()
	var name string
	if err := r.db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	// A frozen walsender is given up soon.
	r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET wal_sender_timeout = ''2s''', current_database()); END $$`)
	source := cdc.Source{Name: name, DSN: r.dsn, Slot: "chorus_" + name}
	if dropIn {
		r.exec(`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text DEFAULT 'T', payload text)`)
		source.Debezium, r.topic = map[string]string{}, "outbox.event."+name
		source.Publication = "outbox"
		// Large transactions come while they run.
		r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET logical_decoding_work_mem = ''64kB''', current_database()); END $$`)
	} else {
		r.exec(outbox.Schema)
		r.topic = name + ".events"
	}
	r.cfg = cdc.Config{
		Sources: []cdc.Source{source}, Brokers: []string{wire.addr()}, Delivery: cdc.ExactlyOnce, PositionTopic: name + ".positions",
		PruneAfter: -1, StatusInterval: 50 * time.Millisecond,
	}
	createTopic(t, r.topic, 3)
	return r
}

func (r *rig) connect() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	mode := []any{pgx.QueryExecModeSimpleProtocol}
	if len(args) > 0 {
		mode = nil
	}
	if _, err := r.db.Exec(r.t.Context(), sql, append(mode, args...)...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

const insertRow = `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), $1, $2, 'T', $3)`

// insert commits n rows in one transaction, of one key after the other, and with a savepoint that is rolled back.
func (r *rig) insert(db *pgx.Conn, n int, keys ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	tx, err := db.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	batch := &pgx.Batch{}
	aggregateType, _, _ := strings.Cut(strings.TrimPrefix(r.topic, "outbox.event."), ".")
	row := func(key, payload string) {
		if r.cfg.Sources[0].Debezium != nil {
			batch.Queue(insertRow, aggregateType, key, payload)
		} else {
			batch.Queue(insertRow, aggregateType, key, []byte(payload))
		}
	}
	for i := range n {
		r.next++
		key := keys[i%len(keys)]
		r.want[key] = append(r.want[key], r.next)
		row(key, fmt.Sprint(r.next))
	}
	batch.Queue(`SAVEPOINT s`)
	row(keys[0], "rolled back")
	batch.Queue(`ROLLBACK TO SAVEPOINT s`)
	if err := tx.SendBatch(r.t.Context(), batch).Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := tx.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// keys of all rows: they are in all three partitions of a topic.
var keys = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}

// process is a publisher that can be killed.
type process struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func (r *rig) spawn() *process {
	r.t.Helper()
	cfg := r.cfg
	cfg.Listen = freeAddr(r.t)
	text, err := json.Marshal(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{t: r.t, addr: cfg.Listen, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	p.cmd.Stderr = logWriter{r.t}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	r.t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop ends it as an operator does.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.waitEnd()
}

func (p *process) waitEnd() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatal("publisher does not end")
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// logWriter shows what a process writes.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// status is the source's; ok is false when the process does not answer.
func (p *process) status() (s cdc.Status, ok bool) {
	resp, err := http.Get("http://" + p.addr + "/readyz")
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	var answer struct{ Sources []cdc.Status }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Sources) != 1 {
		return s, false
	}
	return answer.Sources[0], true
}

func (p *process) waitState(want cdc.State) {
	p.t.Helper()
	eventually(p.t, "state "+string(want), func() bool {
		s, ok := p.status()
		return ok && s.State == want
	})
}

// waitStalled waits until the source is not ready for a reason that holds text.
func (p *process) waitStalled(text string) {
	p.t.Helper()
	var last cdc.Status
	defer func() {
		if p.t.Failed() {
			p.t.Logf("last state: %+v", last)
		}
	}()
	eventually(p.t, "stalled by "+text, func() bool {
		s, ok := p.status()
		last = s
		return ok && s.State == cdc.Stalled && strings.Contains(s.Reason, text)
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come about within %s", what, within)
		}
	}
}
