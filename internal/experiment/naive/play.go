package naive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
	"chorus/internal/cluster"
)

// Play is one showing: so many orders, and a kill -9 in the gap of one of them.
type Play struct {
	Outbox bool
	Gap    string // AfterCommit or BeforeCommit
	Orders int
	Kill   int // the order in whose gap the process is killed
}

// Books are the orders that there are, and those that others were told of.
type Books struct{ Orders, Told []int }

// Lost are orders that nobody was told of; Phantoms are told of and do not exist.
func (b Books) Lost() []int     { return without(b.Orders, b.Told) }
func (b Books) Phantoms() []int { return without(b.Told, b.Orders) }

func without(all, some []int) (rest []int) {
	for _, n := range all {
		if !slices.Contains(some, n) {
			rest = append(rest, n)
		}
	}
	return rest
}

// Show plays it: the shop is killed in the gap and started again for the orders that are left, as a supervisor would. told hears each step.
func (b *Bench) Show(ctx context.Context, p Play, told func(format string, args ...any)) (Books, error) {
	if p.Outbox {
		stop, err := b.publisher(ctx)
		if err != nil {
			return Books{}, err
		}
		defer stop()
	}
	told("The shop takes orders 1 to %d.", p.Orders)
	if err := b.killed(ctx, p); err != nil {
		return Books{}, err
	}
	told("kill -9 in the gap of order %d.", p.Kill)
	if err := b.rest(ctx, p); err != nil {
		return Books{}, fmt.Errorf("the shop, started again: %w", err)
	}
	told("It is started again and takes the rest.")
	return b.books(ctx, p)
}

// rest has a shop take the orders after the one that was lost.
func (b *Bench) rest(ctx context.Context, p Play) error {
	cmd, untie, err := b.shop(ctx, p, "--from", strconv.Itoa(p.Kill+1))
	if err != nil {
		return err
	}
	defer untie()
	return cmd.Run()
}

// shop is the process, not started yet.
func (b *Bench) shop(ctx context.Context, p Play, more ...string) (cmd *exec.Cmd, untie func(), err error) {
	args := append([]string{"experiment", "shop", "--gap", p.Gap, "--to", strconv.Itoa(p.Orders)}, more...)
	if p.Outbox {
		args = append(args, "--outbox")
	}
	return b.command(ctx, []string{"CHORUS_POSTGRES=" + b.dsn, "CHORUS_KAFKA=" + strings.Join(b.cfg.Kafka, ",")}, args...)
}

// command is another run of this program, which ends with this one, also when this one is killed.
func (b *Bench) command(ctx context.Context, env []string, args ...string) (cmd *exec.Cmd, untie func(), err error) {
	cmd = exec.CommandContext(ctx, b.cfg.Executable, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches the experiment alone, which then ends it
	untie, err = cluster.Tie(cmd)
	return cmd, untie, err
}

// killed runs the shop up to the gap and kills it there.
func (b *Bench) killed(ctx context.Context, p Play) error {
	cmd, untie, err := b.shop(ctx, p, "--stop", strconv.Itoa(p.Kill))
	if err != nil {
		return err
	}
	defer untie()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the shop: %w", err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill() // SIGKILL; when it has ended by itself, Wait says how
	err = cmd.Wait()
	if strings.TrimSpace(line) != inTheGap {
		return fmt.Errorf("the shop did not come to the gap: %w", errors.Join(readErr, err))
	}
	return nil
}

// publisher runs cdc on the demonstration's outbox. stop ends it.
func (b *Bench) publisher(ctx context.Context) (stop func(), err error) {
	cfg, err := pgx.ParseConfig(b.dsn)
	if err != nil {
		return nil, fmt.Errorf("read the demonstration's URL: %w", err)
	}
	// The password stays out of the arguments, which everybody on the machine can read.
	source := fmt.Sprintf("demo=host='%s' port=%d user=%s dbname=%s", cfg.Host, cfg.Port, cfg.User, database)
	args := []string{"--log", "error", "cdc", "run", "--source", source}
	for _, address := range b.cfg.Kafka {
		args = append(args, "--brokers", address)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd, untie, err := b.command(ctx, []string{"PGPASSWORD=" + cfg.Password}, args...)
	if err == nil {
		if err = cmd.Start(); err != nil {
			untie()
		}
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the publisher: %w", err)
	}
	return func() {
		cancel()
		_ = cmd.Wait() // it was killed
		untie()
	}, nil
}

// enough is how long the facts that are expected may take.
const enough = time.Minute

// books reads the table and the topic. With an outbox every order's fact is on its way, so they are waited for; without one, what is not there
// never comes: the handlers have ended.
func (b *Bench) books(ctx context.Context, p Play) (books Books, err error) {
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return books, fmt.Errorf("connect to the demonstration's database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, _ := conn.Query(ctx, `SELECT number FROM orders ORDER BY number`)
	if books.Orders, err = pgx.CollectRows(rows, pgx.RowTo[int]); err != nil {
		return books, fmt.Errorf("read the demonstration's orders: %w", err)
	}
	topic := topicNaive
	if p.Outbox {
		topic = topicFacts
	}
	ctx, cancel := context.WithTimeoutCause(ctx, enough, fmt.Errorf("not within %s", enough))
	defer cancel()
	for {
		if books.Told, err = b.told(ctx, topic); err != nil {
			return books, err
		}
		if !p.Outbox || len(books.Lost()) == 0 || !pause(ctx) {
			return books, context.Cause(ctx)
		}
	}
}

// told are the orders of the facts in a topic. One that was published twice is one.
func (b *Bench) told(ctx context.Context, topic string) (numbers []int, err error) {
	err = broker.Tail(ctx, broker.TailConfig{Brokers: b.cfg.Kafka, Topics: []string{topic}, Last: -1}, func(r broker.Record) error {
		n, err := strconv.Atoi(string(r.Key))
		if err != nil {
			return fmt.Errorf("a fact in %s has the key %q", topic, r.Key)
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
		return nil
	})
	slices.Sort(numbers)
	return numbers, err
}
