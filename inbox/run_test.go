package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/broker"
	"chorus/internal/brokertest"
)

// world is a database and a broker with one topic.
type world struct {
	*base
	broker *brokertest.Broker
}

func newWorld(t *testing.T, partitions int32) *world {
	return &world{base: newBase(t), broker: brokertest.Start(t, map[string]int32{"t": partitions})}
}

func (w *world) config() Config { return runConfig(w.broker.Addr(), w.dsn) }

func runConfig(addr, dsn string) Config {
	return Config{
		Brokers: []string{addr}, Group: "c", Topics: []string{"t"}, Postgres: dsn, BatchRecords: 50,
		Drain: 3 * time.Second, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
	}
}

// produce writes one fact a name, as record makes them.
func (w *world) produce(names ...string) {
	w.t.Helper()
	var batch []*kgo.Record
	for _, name := range names {
		r := record(0, name)
		out := &kgo.Record{Topic: "t", Key: []byte(name), Value: r.Value}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader(h))
		}
		batch = append(batch, out)
	}
	w.produceRaw(batch...)
}

func (w *world) produceRaw(batch ...*kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addr()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// consume runs a consumer until the returned function is called, or the test ends.
func (w *world) consume(cfg Config, h Handler) (c *Consumer, stop func()) {
	w.t.Helper()
	c = newConsumer(w.t, cfg, h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := within(w.t, "the consumer to end", done); err != nil {
			w.t.Errorf("consumer: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return c, stop
}

func (w *world) effects() int {
	return one[int](w.base, `SELECT count(DISTINCT event_id) FROM effects`)
}

// lag is the group's, as an outside observer sees it.
func (w *world) lag() (behind int64) {
	w.t.Helper()
	client, err := broker.NewClient([]string{w.broker.Addr()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	state, err := broker.GroupLag(context.Background(), client, "c", []string{"t"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range state.Lags {
		behind += l.Behind
	}
	return behind
}

// TestRunThroughEverything feeds facts, duplicates among them, while consumers come and go, the broker stops and crashes, and the database is cut off: each fact takes effect once (G4).
func TestRunThroughEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	p, dsn := newProxy(t, w.dsn)
	cfg := w.config()
	cfg.Postgres = dsn
	var all []string
	feed := func() {
		batch := names(fmt.Sprintf("%d-", len(all)), 200)
		w.produce(append(batch, batch[:50]...)...)
		all = append(all, batch...)
	}
	_, stopFirst := w.consume(cfg, apply("c"))
	feed()
	w.consume(cfg, apply("c"))
	feed()
	p.down(true)
	feed()
	p.down(false)
	w.broker.Stop()
	w.broker.Restart()
	feed()
	stopFirst()
	feed()
	w.broker.Crash()
	w.broker.Restart()
	feed()
	third, _ := w.consume(cfg, apply("c"))
	p.closeAll()
	feed()
	eventually(t, "all effects", func() bool { return w.effects() == len(all) })
	w.checkOnce("c", all...)
	eventually(t, "no lag", func() bool { return w.lag() == 0 })
	if n := one[int](w.base, `SELECT sum(duplicates) FROM inbox`); n < len(all)/4 {
		t.Errorf("%d duplicates counted, want %d at least", n, len(all)/4)
	}
	eventually(t, "the third consumer to run", func() bool {
		for _, s := range third.Status() {
			if s.State != broker.Running {
				return false
			}
		}
		return third.Joined()
	})
}

// TestRewindWhileRunning rewinds under a running consumer, which starts again from there by itself and repeats nothing.
func TestRewindWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce("a", "b", "c")
	c, _ := w.consume(w.config(), apply("c"))
	eventually(t, "the first effects", func() bool { return w.effects() == 3 })
	id := one[[16]byte](w.base, `SELECT topic_id FROM partition_owner`)
	if _, err := Rewind(t.Context(), w.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: id, To: 1}); err != nil {
		t.Fatal(err)
	}
	w.produce("later")
	eventually(t, "the later fact", func() bool { return w.effects() == 4 })
	w.checkOnce("c", "a", "b", "c", "later")
	if got := many[int](w.base, `SELECT duplicates FROM inbox ORDER BY "offset"`); fmt.Sprint(got) != "[0 1 1 0]" {
		t.Errorf("duplicates %v, want those from offset 1 on", got)
	}
	clean := func() bool {
		s := c.Status()
		return len(s) == 1 && s[0].State == broker.Running && s[0].Next == 4
	}
	eventually(t, "a clean status", clean)

	// Nothing comes any more; a rewind takes effect all the same.
	if _, err := Rewind(t.Context(), w.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: id, To: 3}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last fact again", func() bool {
		return fmt.Sprint(many[int](w.base, `SELECT duplicates FROM inbox ORDER BY "offset"`)) == "[0 1 1 1]"
	})
	eventually(t, "a clean status again", clean)
	w.checkOnce("c", "a", "b", "c", "later")
}

// TestTopicDeletedAndMadeAnew: the consumer refuses the new topic with the reason, until a person rewinds it.
func TestTopicDeletedAndMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce("a", "b")
	c, _ := w.consume(w.config(), apply("c"))
	eventually(t, "the first effects", func() bool { return w.effects() == 2 })
	client, err := broker.NewClient([]string{w.broker.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	w.broker.CreateTopic("t", 1)
	w.produce("a", "c")
	eventually(t, "the refusal", func() bool {
		s := c.Status()
		return len(s) == 1 && strings.Contains(s[0].Err, "made anew")
	})
	w.checkOnce("c", "a", "b")
	ids, err := broker.TopicIDs(t.Context(), client, "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Rewind(t.Context(), w.conn, RewindRequest{Consumer: "c", Topic: "t", TopicID: ids["t"]}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new topic's effects", func() bool { return w.effects() == 3 })
	w.checkOnce("c", "a", "b", "c")
}

// TestDeadLetterCannotBeStored is the second case of CON-05: nothing past the culprit is committed until its dead letter is stored.
func TestDeadLetterCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	if _, err := w.conn.Exec(t.Context(), `ALTER TABLE dead_letters RENAME TO elsewhere`); err != nil {
		t.Fatal(err)
	}
	w.produce("a", "b", "poison", "c")
	c, _ := w.consume(w.config(), apply("c"))
	eventually(t, "the consumer to say what is wrong", func() bool {
		s := c.Status()
		return len(s) == 1 && strings.Contains(s[0].Err, "dead_letters")
	})
	w.checkOnce("c", "a", "b")
	if next := one[int64](w.base, `SELECT next_offset FROM partition_owner`); next != 2 {
		t.Errorf("the fence is at %d, want 2", next)
	}
	if _, err := w.conn.Exec(t.Context(), `ALTER TABLE elsewhere RENAME TO dead_letters`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fact after the culprit", func() bool { return w.effects() == 3 })
	w.checkOnce("c", "a", "b", "c")
}

// TestProcesses has consumers in processes of their own: one is killed in its transaction (CON-01), one is frozen in it across a rebalance and thawed (zombie), one is
// asked to end (CON-12) and does, with exit code 0.
func TestProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	inTransaction := func() bool { // of a child, on the advisory lock that its handler waits for
		return one[int](w.base, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND xact_start IS NOT NULL`) > 0
	}
	hold := w.connect()
	lock := func() {
		if _, err := hold.Exec(t.Context(), `SELECT pg_advisory_lock(1)`); err != nil {
			t.Fatal(err)
		}
	}
	unlock := func() {
		if _, err := hold.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`); err != nil {
			t.Fatal(err)
		}
	}

	all := names("first", 100)
	w.produce(all...)
	lock()
	killed := w.process()
	eventually(t, "a process to sit in its transaction", inTransaction)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	unlock()

	polite := w.process()
	eventually(t, "the effects of the killed process's facts", func() bool { return w.effects() == len(all) })
	w.checkOnce("c", all...)
	if err := polite.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := polite.Wait(); err != nil {
		t.Errorf("a process that was asked to end: %v", err)
	}
	eventually(t, "no lag", func() bool { return w.lag() == 0 })

	lock()
	more := names("second", 100)
	w.produce(more...)
	frozen := w.process()
	eventually(t, "a process to sit in its transaction", inTransaction)
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	unlock() // its backend now waits for a client that does not move
	c, _ := w.consume(w.config(), apply("c"))
	all = append(all, more...)
	eventually(t, "the effects of the frozen process's facts", func() bool { return w.effects() == len(all) })
	eventually(t, "both partitions to be this process's", func() bool { return len(c.Status()) == 2 })
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	last := names("third", 100)
	w.produce(last...)
	all = append(all, last...)
	eventually(t, "the last effects", func() bool { return w.effects() == len(all) })
	eventually(t, "the thawed process to be a member again", func() bool { s := c.Status(); return len(s) == 1 && s[0].State == broker.Running })
	w.checkOnce("c", all...)
	if n := one[int](w.base, `SELECT sum(duplicates) FROM inbox`); n != 0 {
		t.Errorf("%d duplicates counted: somebody committed what was not his", n)
	}
}

// TestRetentionBeyondHorizon: the start-up check warns (D6).
func TestRetentionBeyondHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for horizon, want := range map[time.Duration]bool{time.Hour: true, 365 * 24 * time.Hour: false} {
		cfg := w.config()
		cfg.Horizon = horizon
		var logged strings.Builder
		c, err := New(slog.New(slog.NewTextHandler(&logged, nil)), cfg, apply("c"))
		if err != nil {
			t.Fatal(err)
		}
		c.checkRetention(t.Context())
		if got := strings.Contains(logged.String(), "topic keeps records longer"); got != want {
			t.Errorf("horizon %s: warned %v, want %v: %s", horizon, got, want, logged.String())
		}
	}
}

// process starts a consumer process, which is killed at the end of the test.
func (w *world) process() *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), "INBOX_TEST_CHILD="+w.broker.Addr()+" "+w.dsn)
	cmd.Stdout, cmd.Stderr = w.t.Output(), w.t.Output()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

// TestMain runs the tests, or, in a process that process has started, a consumer until SIGTERM.
func TestMain(m *testing.M) {
	addr, dsn, child := strings.Cut(os.Getenv("INBOX_TEST_CHILD"), " ")
	if !child {
		os.Exit(m.Run())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	err := Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), runConfig(addr, dsn), func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error) {
		verdicts, err := apply("c")(ctx, tx, facts)
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared(1)`)
		return verdicts, err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
