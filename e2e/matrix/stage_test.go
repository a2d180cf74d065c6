package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/e2e/kafka"
	"chorus/internal/pgserver"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

const topic = "matrix.events"

// stage is one PostgreSQL, one broker and two publishers, of which one stands by.
type stage struct {
	t          *testing.T
	delivery   string
	postgres   *pgserver.Server
	brokers    []string
	cluster    *kafka.Cluster // nil on the embedded broker
	embedded   *child         // nil on Apache Kafka
	publishers []*child
	reader     *reader

	rows, twice int // as last judged
}

func newStage(t *testing.T, delivery string, onKafka bool) *stage {
	t.Helper()
	s := &stage{t: t, delivery: delivery, postgres: pgtest.Server(t)}
	db := s.connect()
	for _, sql := range []string{
		outbox.Schema,
		"ALTER SYSTEM SET logical_decoding_work_mem = '64kB'", // large transactions are streamed
		"ALTER SYSTEM SET wal_sender_timeout = '3s'",
		"SELECT pg_reload_conf()",
	} {
		if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
	if onKafka {
		s.startKafka()
	} else {
		s.startEmbedded()
	}
	s.makeTopic()
	s.reader = startReader(t, s.brokers)
	for i := range 2 {
		s.publishers = append(s.publishers, s.startPublisher(i))
	}
	s.waitSlot(db)
	return s
}

// waitSlot waits until the slot is there. Of rows that are older the order of
// commits is not known, so there are none.
func (s *stage) waitSlot(db *pgx.Conn) {
	s.t.Helper()
	for deadline := time.Now().Add(within); ; s.pause(50 * time.Millisecond) {
		var there bool
		if err := db.QueryRow(s.t.Context(), `SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = 'chorus_matrix')`).Scan(&there); err != nil {
			s.t.Fatal(err)
		}
		if there {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no slot within %s", within)
		}
	}
}

func (s *stage) connect() *pgx.Conn {
	s.t.Helper()
	db, err := pgx.Connect(s.t.Context(), s.postgres.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close(context.Background()) }) // it may be gone with its server
	return db
}

func (s *stage) startKafka() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	var err error
	if s.cluster, err = kafka.Start(ctx, s.t.TempDir(), 1); err != nil {
		s.t.Fatal(err)
	}
	s.brokers = s.cluster.Brokers()
	s.t.Cleanup(func() {
		if err := s.cluster.Stop(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *stage) startEmbedded() {
	s.t.Helper()
	addr := freeAddr(s.t)
	s.brokers = []string{addr}
	s.embedded = startChild(s.t, "broker", "--dir", s.t.TempDir(), "--listen", addr, "--registry", freeAddr(s.t), "--log", "warn")
}

func (s *stage) makeTopic() {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	for {
		made, err := kadm.NewClient(client).CreateTopic(ctx, 3, 1, nil, topic)
		if err == nil {
			err = made.Err
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("make topic %s: %v", topic, err)
		}
		s.pause(100 * time.Millisecond)
	}
}

func (s *stage) startPublisher(i int) *child {
	s.t.Helper()
	config, err := json.Marshal(map[string]any{
		"sources": []any{map[string]any{"name": "matrix", "dsn": s.postgres.DSN()}},
		"brokers": s.brokers, "delivery": s.delivery, "prune_after": "-1s", "status_interval": "200ms", "drain_timeout": "2s",
		"spill_dir": s.t.TempDir(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), fmt.Sprintf("cdc-%d.json", i))
	if err := os.WriteFile(path, config, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return startChild(s.t, "cdc", "--config", path)
}

func (s *stage) publisher(random *rand.Rand) *child {
	return s.publishers[random.IntN(len(s.publishers))]
}

// restartBroker kills the broker, or has it end in order. The embedded one is
// always asked to: what a kill does to it is another test's (internal/brokertest).
func (s *stage) restartBroker(kill bool) {
	s.t.Helper()
	if s.cluster == nil {
		s.embedded.signal(syscall.SIGTERM)
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	var err error
	if kill {
		err = s.cluster.Kill(ctx, 1)
	} else {
		err = s.cluster.Stop(ctx)
	}
	if err == nil {
		err = s.cluster.Restart(ctx)
	}
	if err != nil {
		s.t.Fatalf("restart Kafka: %v", err)
	}
}

func (s *stage) restartPostgres(crash bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	var err error
	if crash {
		err = s.postgres.Kill()
	} else {
		err = s.postgres.Stop(ctx)
	}
	if err == nil {
		err = s.postgres.Start(ctx)
	}
	if err != nil {
		s.t.Fatalf("restart PostgreSQL: %v", err)
	}
}

// child is a process of chorus that is started again whenever it ends.
type child struct {
	t    *testing.T
	args []string
	log  *os.File
	over chan struct{} // closed at the end of the test
	done sync.WaitGroup

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), args[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, args: args, log: log, over: make(chan struct{})}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.done.Go(c.keep)
	t.Cleanup(func() {
		close(c.over)
		c.kill()
		c.done.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the end of what chorus %s said:\n%s", args[0], text[max(0, len(text)-20_000):])
		}
		_ = log.Close()
	})
	return c
}

func (c *child) start() error {
	cmd := exec.Command(binary, c.args...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	err := cmd.Start()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd = cmd
	return err
}

func (c *child) keep() {
	for {
		_ = c.cmd.Wait() // it was killed, or has said why
		select {
		case <-c.over:
			return
		case <-time.After(50 * time.Millisecond):
		}
		if err := c.start(); err != nil {
			c.t.Errorf("start chorus %v: %v", c.args, err)
			return
		}
	}
}

func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Process.Signal(s) // it may have ended just now
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) freeze() (thaw func()) {
	c.signal(syscall.SIGSTOP)
	return func() { c.signal(syscall.SIGCONT) }
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
