package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/internal/tracker"
)

// ConsumerCmds are the commands about consumers.
type ConsumerCmds struct {
	Rewind RewindCmd `cmd:"" help:"Set where a consumer goes on in a topic."`
}

// RewindCmd moves the fence of a consumer.
type RewindCmd struct {
	Cluster
	Output
	Consumer  string `arg:"" help:"The service, as in billing; or tracker."`
	Topic     string `arg:"" help:"The topic, or its owner: orders.events, or orders."`
	To        string `help:"Where to go on: beginning, end, or an offset." required:"" placeholder:"OFFSET"`
	Partition int32  `help:"Only this partition; -1 for all." default:"-1"`
	DryRun    bool   `help:"Only show what would change." short:"n"`
	Postgres  string `help:"URL of the service's database, where there is no chorus up." env:"CHORUS_POSTGRES" placeholder:"URL"`
	Note      string `help:"Why; it is kept in the audit." placeholder:"TEXT"`
}

// Help is shown by --help.
func (*RewindCmd) Help() string {
	return `Where a consumer goes on stands in its own database, not in Kafka, so resetting the group's offsets in Kafka does nothing: this is the way. A running consumer stops within its present batch and goes on at the new place.

Going back is safe: facts that were handled are absorbed and counted as duplicates. Going forward leaves facts unhandled; verify will tell.`
}

// rewound is one partition's change.
type rewound struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1: never claimed
	To        int64  `json:"to"`
}

// Run moves it.
func (c *RewindCmd) Run(ctx context.Context, _ *slog.Logger) error {
	topics, err := topicsOf(c.Topic)
	if err != nil {
		return err
	}
	if len(topics) != 1 {
		return fmt.Errorf("rewind: one topic at a time")
	}
	if err := c.reads(topics[0]); err != nil {
		return err
	}
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	dsn, err := c.database(all)
	if err != nil {
		return err
	}
	requests, err := c.requests(ctx, all, topics[0])
	if err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	done := []rewound{}
	for _, r := range requests {
		r.Changed = c.audited(r)
		from, err := inbox.Rewind(ctx, db, r)
		if err != nil {
			return err
		}
		done = append(done, rewound{r.Topic, r.Partition, from, r.To})
	}
	if c.JSON {
		return c.printJSON(done)
	}
	word := "goes on at"
	if c.DryRun {
		word = "would go on at"
	}
	for _, d := range done {
		c.printf("%s in %s/%d %s %d; it was at %d\n", c.Consumer, d.Topic, d.Partition, word, d.To, d.From)
	}
	return nil
}

// audited records who moves the consumer, in the transaction that does.
func (c *RewindCmd) audited(r inbox.RewindRequest) func(ctx context.Context, tx pgx.Tx, from int64) error {
	type place struct {
		Offset int64 `json:"next_offset"` // -1: never claimed
	}
	return func(ctx context.Context, tx pgx.Tx, from int64) error {
		e := audit.Entry{Who: audit.User(), Action: audit.Rewind, Subject: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Why: c.Note}
		return audit.Record(ctx, tx, e, place{from}, place{r.To})
	}
}

// reads refuses a place in a topic that the consumer never reads: nobody would take notice of it.
func (c *RewindCmd) reads(topic string) error {
	who := event.Participant(c.Consumer)
	if !slices.Contains(holders(), who) {
		return fmt.Errorf("there is no consumer %s; consumers are %s", who, names(holders()))
	}
	if topics := topicsRead(who); !slices.Contains(topics, topic) {
		return fmt.Errorf("%s does not read %s; it reads %s", who, topic, strings.Join(topics, ", "))
	}
	return nil
}

// topicsRead are the topics of a consumer.
func topicsRead(who event.Participant) []string {
	if who == tracker.Name {
		return tracker.Topics()
	}
	var topics []string
	for _, owner := range choreography.Sources(who) {
		topics = append(topics, owner.Topic())
	}
	return topics
}

// database is the URL of the consumer's database: the one that was given, or the one of the chorus up in the data folder, where a service's database and role have its name.
func (c *RewindCmd) database(all addresses) (string, error) {
	if c.Postgres != "" {
		return c.Postgres, nil
	}
	if all["postgres"] == "" {
		return "", errors.New("the consumer's database is not known: --postgres, or --data of a cluster that is up")
	}
	password, err := cluster.Passwords(c.Data)
	if err != nil {
		return "", err
	}
	return pg.WithDatabase(all["postgres"], c.Consumer, c.Consumer, password(c.Consumer))
}

// requests checks the place against what the topic holds.
func (c *RewindCmd) requests(ctx context.Context, all addresses, topic string) ([]inbox.RewindRequest, error) {
	brokers, err := all.brokers()
	if err != nil {
		return nil, err
	}
	if err := all.kafkaAlive(ctx); err != nil {
		return nil, err
	}
	client, err := broker.NewClient(brokers)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	ids, err := broker.TopicIDs(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	start, err := broker.ListStartOffsets(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	end, err := broker.ListEndOffsets(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	var requests []inbox.RewindRequest
	for p := range int32(len(end[topic])) {
		if c.Partition >= 0 && c.Partition != p {
			continue
		}
		to, err := offset(c.To, start[topic][p], end[topic][p])
		if err != nil {
			return nil, fmt.Errorf("%s/%d: %w", topic, p, err)
		}
		requests = append(requests, inbox.RewindRequest{
			Consumer: c.Consumer, Topic: topic, Partition: p, TopicID: ids[topic], To: to, DryRun: c.DryRun,
		})
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s has no partition %d", topic, c.Partition)
	}
	return requests, nil
}

// offset reads an offset that the partition reaches.
func offset(text string, start, end int64) (int64, error) {
	switch text {
	case "beginning":
		return start, nil
	case "end":
		return end, nil
	}
	to, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("--to %q: want beginning, end, or an offset", text)
	}
	if to < start || to > end {
		return 0, fmt.Errorf("offset %d is not in the topic, which reaches from %d to %d", to, start, end)
	}
	return to, nil
}
