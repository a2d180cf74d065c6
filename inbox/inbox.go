package inbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"chorus/internal/broker"
)

// Consumer consumes topics for one Config and Handler.
type Consumer struct {
	log     *slog.Logger
	cfg     Config
	handler Handler
	group   *broker.Group
	lanes   laneSet       // the claimed partitions
	crew    *crew         // nil when each partition goes alone
	turns   chan struct{} // holds a token for each transaction under way
}

// Status is the state of one assigned partition.
type Status = broker.Status

// New checks the configuration. It contacts nobody.
func New(log *slog.Logger, cfg Config, handler Handler) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if handler == nil {
		err = errors.Join(err, errors.New("inbox: no handler"))
	}
	if err != nil {
		return nil, err
	}
	c := &Consumer{log: log.With("consumer", cfg.Consumer), cfg: cfg, handler: handler, turns: make(chan struct{}, cfg.Parallel)}
	rest := cfg.Pace
	if cfg.Together {
		c.crew, rest = newCrew(), 0 // the crew sets the pace
	}
	c.group = broker.NewGroup(c.log, broker.GroupConfig{
		Brokers: cfg.Brokers, Group: cfg.Group, Topics: cfg.Topics, InstanceID: cfg.InstanceID, Options: cfg.Kafka,
		BatchRecords: cfg.BatchRecords, BatchBytes: cfg.BatchBytes, Pace: rest, Idle: idle,
		Drain: cfg.Drain, SessionTimeout: cfg.SessionTimeout, RebalanceTimeout: cfg.RebalanceTimeout,
	}, func(ctx context.Context, p broker.Partition) (broker.Lane, error) { return c.claim(ctx, p) })
	return c, nil
}

// idle is how long a partition keeps a connection that it does not use. A connection is a process of the server and holds megabytes; a new one takes some milliseconds.
const idle = time.Minute

// Run consumes until ctx ends, and then finishes the transactions that are under way, for Config.Drain at most, and leaves the group. It may be called once.
// Brokers and database may be away at the start or at any time: it waits for them. It ends by itself when another process runs as the same Config.InstanceID.
func (c *Consumer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	defer checking.Wait()
	defer cancel()
	checking.Go(func() { c.checkRetention(ctx) })
	checking.Go(func() { c.watchFences(ctx) })
	if c.cfg.HoldKeys {
		checking.Go(func() { c.releaseLoop(ctx) })
	}
	return c.group.Run(ctx)
}

// checkRetention warns of topics that keep records longer than the inbox is sure to remember. Such a record, read again, is a dead letter and not an effect; but somebody will
// wonder. It tries until the broker answers.
func (c *Consumer) checkRetention(ctx context.Context) {
	client, err := broker.NewClient(c.cfg.Brokers, c.cfg.Kafka...)
	if err != nil {
		return // the group cannot make one either, and says so
	}
	defer client.Close()
	wait := newBackOff()
	for {
		kept, err := broker.Retention(ctx, client, c.cfg.Topics...)
		if err == nil {
			for topic, d := range kept {
				beyond := any(d - c.cfg.Horizon)
				if d < 0 {
					beyond = "for ever"
				}
				if d < 0 || d > c.cfg.Horizon {
					c.log.Warn("topic keeps records longer than the inbox remembers: what is older than the horizon is set aside as too_old when it is read again",
						"topic", topic, "retention", d, "horizon", c.cfg.Horizon, "beyond", beyond)
				}
			}
			return
		}
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Status tells about each assigned partition: what it waits for, and since when.
func (c *Consumer) Status() []Status { return c.group.Status() }

// Joined tells whether the consumer is a member of its group with an assignment, which may be empty.
func (c *Consumer) Joined() bool { return c.group.Joined() }

// Run is New and Consumer.Run in one.
func Run(ctx context.Context, log *slog.Logger, cfg Config, handler Handler) error {
	c, err := New(log, cfg, handler)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
