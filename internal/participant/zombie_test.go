package participant_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/pg"
)

// The environment in which this program is a replica of billing that can be frozen.
const (
	zombiePostgres = "CHORUS_TEST_ZOMBIE_POSTGRES"
	zombieKafka    = "CHORUS_TEST_ZOMBIE_KAFKA"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(zombiePostgres); dsn != "" {
		zombie(dsn, os.Getenv(zombieKafka))
		return
	}
	os.Exit(m.Run())
}

// quick has a member that is silent put out of the group soon.
func quick(cfg *inbox.Config) {
	cfg.Drain, cfg.SessionTimeout, cfg.RebalanceTimeout = 500*time.Millisecond, 6*time.Second, 6*time.Second
}

// zombie consumes as billing. In its first transaction, when all is written and the locks are held, it says so and waits for a line on its input; it
// says what became of each transaction.
func zombie(dsn, kafka string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, err := pg.Open(ctx, dsn, pg.Options{})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	defer pool.Close()
	d := participant.New(ctx, log, pool, facts(), billing())
	wake, frozen := make(chan struct{}), false
	cfg := inbox.Config{
		Brokers: []string{kafka}, Group: string(event.Billing), Topics: participant.Topics(event.Billing), Postgres: dsn,
		Committed: func(facts []inbox.Fact, _ []inbox.Verdict) { fmt.Println("committed", len(facts)) },
	}
	quick(&cfg)
	go func() {
		err := inbox.Run(ctx, log, cfg, func(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
			verdicts, err := d.Handle(ctx, tx, facts)
			if !frozen && facts[0].Topic == event.Orders.Topic() {
				frozen = true
				fmt.Println("holding", len(facts), err)
				<-wake
				fmt.Println("awake")
			}
			return verdicts, err
		})
		fmt.Println("ended", err)
	}()
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	close(wake)
	io.Copy(io.Discard, in) // until the test lets go
}

// TestFrozenReplicaIsHarmless stops a replica with SIGSTOP in the middle of a transaction. Its partitions go to another one, which is held up by none
// of its locks; when it wakes up, its transaction has no effect (G4).
func TestFrozenReplicaIsHarmless(t *testing.T) {
	t.Parallel()
	b := newBase(t, event.Billing)
	kafka := brokertest.Start(t, topicsOf(event.Billing, 1))
	const n = 50
	var all []inbox.Fact
	for number := range event.OrderNo(n) {
		all = append(all, cancelled(number+1))
	}
	publish(t, kafka.Addr(), 1, all...)

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	// Without its own limit the server would keep the frozen transaction for ever: it is the next owner that ends it.
	cmd.Env = append(os.Environ(), zombiePostgres+"="+b.dsn+"&idle_in_transaction_session_timeout=0", zombieKafka+"="+kafka.Addr())
	cmd.Stderr = t.Output()
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		for scan := bufio.NewScanner(output); scan.Scan(); {
			lines <- scan.Text()
		}
		close(lines)
	}()
	defer func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if line := within(t, "the replica's transaction", lines); line != fmt.Sprintf("holding %d <nil>", n) {
		t.Fatalf("the replica says %q", line)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if locked := one[int](b, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`); locked != 1 {
		t.Fatalf("%d transactions are open, want the frozen replica's", locked)
	}

	d := participant.New(t.Context(), b.log, b.pool(nil), facts(), billing())
	stop := consume(b, kafka.Addr(), d, event.Billing, quick)
	eventually(t, "the other replica has handled all", func() bool { return one[int](b, `SELECT count(*) FROM inbox`) == n })
	check := func(when string) {
		t.Helper()
		if got := one[int](b, `SELECT count(*) FROM outbox WHERE type = 'PaymentVoided'`); got != n {
			t.Errorf("%s: %d voided payments, want %d", when, got, n)
		}
		if got := one[int](b, `SELECT coalesce(sum(duplicates), 0) FROM inbox`); got != 0 {
			t.Errorf("%s: %d duplicates", when, got)
		}
		if got := one[int64](b, `SELECT next_offset FROM partition_owner WHERE topic = 'orders.events'`); got != n {
			t.Errorf("%s: the fence stands at %d", when, got)
		}
	}
	check("while it is frozen")

	epoch := one[int64](b, `SELECT epoch FROM partition_owner WHERE topic = 'orders.events'`)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(input, "go on\n"); err != nil {
		t.Fatal(err)
	}
	if line := within(t, "the replica to wake up", lines); line != "awake" {
		t.Fatalf("the replica says %q", line)
	}
	// What comes later is handled once too, by whoever has the partition then.
	publish(t, kafka.Addr(), 1, cancelled(n+1))
	eventually(t, "a later fact is handled", func() bool { return one[int](b, `SELECT count(*) FROM inbox`) == n+1 })
	input.Close()
	var said []string
	for line := range lines {
		said = append(said, line)
	}
	t.Logf("epoch %d while it was frozen; the replica says: %s", epoch, strings.Join(said, "; "))
	for _, line := range said {
		if line == fmt.Sprintf("committed %d", n) {
			t.Error("the frozen transaction was committed")
		}
	}
	stop()
	if got := one[int](b, `SELECT count(*) FROM outbox WHERE type = 'PaymentVoided'`); got != n+1 {
		t.Errorf("at the end: %d voided payments, want %d", got, n+1)
	}
}
