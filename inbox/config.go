package inbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config is what Run needs. Brokers, Group, Topics and Postgres (or Connect) must be set.
type Config struct {
	Brokers []string // host:port
	Group   string   // Kafka consumer group
	Topics  []string

	// Consumer is the scope of the inbox. It must not change when the group does: under another name every fact is new again. Empty means Group.
	Consumer string

	// Postgres is the DSN of the database with the tables of Schema. Each partition has a connection of its own.
	Postgres string
	// Connect, when set, opens such a connection instead: for tracing, types, or another way to log in.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Owner names this process in partition_owner, for people. Empty means host:pid.
	Owner string

	BatchRecords int           // records in one transaction at most; 0 means 500
	BatchBytes   int           // bytes of keys, values and headers in one transaction, exceeded by at most one record; 0 means 4 MiB
	Pace         time.Duration // least time from one transaction of a partition to the next, unless that is full; facts that come after a pause do not wait; 0 means 20 ms
	// Together lets the partitions of this process share transactions, which then are fewer and fuller: a Handler gets facts of several partitions in one call, those of each in
	// offset order. A fact that fails fails the transaction of all, and each partition then goes alone. Not with HoldKeys.
	Together     bool
	Parallel     int           // transactions at a time in this process, at most: partitions take turns, and what comes in meanwhile makes fuller batches; 0 means as many as there are processors, but 4 at least, so that one that waits for a lock holds up nobody else
	BatchTimeout time.Duration // of one transaction; 0 means 1 minute
	Attempts     int           // how often a fact that fails for no known reason is tried alone before it is a dead letter; 0 means 3

	// Horizon is how far back the inbox is sure to remember: Prune must not be called with less. A fact that occurred before it and is not in the inbox may
	// have been handled and forgotten, so it is set aside as too_old. 0 means 30 days. It should exceed the topics' retention. A consumer whose inbox is never pruned remembers
	// everything: it may set centuries, and read history of any age.
	Horizon time.Duration

	// HoldKeys holds back the later facts of a key while an earlier one of the same topic is a dead letter: they are set aside behind it, as dead letters with the reason held. When
	// those before them have been redriven or discarded, a running consumer of this name handles them, in order. Other keys are not disturbed. Across topics there is no earlier and later.
	HoldKeys bool

	Drain            time.Duration // how long a partition may finish its batch when it is taken away or the process stops; 0 means 10 s; must be below RebalanceTimeout
	SessionTimeout   time.Duration // Kafka session; 0 means 10 s
	RebalanceTimeout time.Duration // 0 means 30 s
	InstanceID       string        // static group membership when set
	Kafka            []kgo.Opt     // TLS, SASL, client id, hooks

	// Committed, when set, is called after each commit, with the facts that were new and their verdicts, by the goroutine of their partition. It is for
	// waking somebody up: a crash before it is called loses the call.
	Committed func(facts []Fact, verdicts []Verdict)
}

// withDefaults fills in what is zero and reports all faults together.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, errors.New("no brokers"))
	}
	if c.Group == "" {
		faults = append(faults, errors.New("no group"))
	}
	if len(c.Topics) == 0 {
		faults = append(faults, errors.New("no topics"))
	}
	if c.Connect == nil {
		if config, err := pgx.ParseConfig(c.Postgres); err != nil {
			faults = append(faults, fmt.Errorf("postgres DSN: %w", err))
		} else {
			c.Connect = dial(config)
		}
	}
	if c.Consumer == "" {
		c.Consumer = c.Group
	}
	if c.Owner == "" {
		host, _ := os.Hostname() // for people only; the pid alone will do
		c.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	positive(&c.BatchRecords, 500, "batch records", &faults)
	positive(&c.BatchBytes, 4<<20, "batch bytes", &faults)
	positive(&c.Pace, 20*time.Millisecond, "pace", &faults)
	positive(&c.Parallel, max(4, runtime.GOMAXPROCS(0)), "parallel transactions", &faults)
	positive(&c.BatchTimeout, time.Minute, "batch timeout", &faults)
	positive(&c.Attempts, 3, "attempts", &faults)
	positive(&c.Horizon, 30*24*time.Hour, "horizon", &faults)
	positive(&c.Drain, 10*time.Second, "drain", &faults)
	positive(&c.SessionTimeout, 10*time.Second, "session timeout", &faults)
	positive(&c.RebalanceTimeout, 30*time.Second, "rebalance timeout", &faults)
	if c.Together && c.HoldKeys {
		faults = append(faults, errors.New("keys are held in each partition: it cannot go together with others"))
	}
	if c.Drain >= c.RebalanceTimeout {
		faults = append(faults, fmt.Errorf("drain of %s must be below the rebalance timeout of %s: the group moves on without a member that is slower", c.Drain, c.RebalanceTimeout))
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("inbox configuration: %w", err)
	}
	return c, nil
}

func positive[T int | time.Duration](value *T, zero T, name string, faults *[]error) {
	switch {
	case *value == 0:
		*value = zero
	case *value < 0:
		*faults = append(*faults, fmt.Errorf("%s of %v is negative", name, *value))
	}
}
