package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/pgserver"
)

func topics() (all []string) {
	for _, owner := range event.Owners() {
		all = append(all, owner.Topic())
	}
	return all
}

func (c *system) brokers() ([]string, error) {
	address, err := c.address("kafka")
	return strings.Split(address, ","), err
}

func cmdRepublish(ts *testscript.TestScript, neg bool, args []string) {
	blind := len(args) == 1 && args[0] == "-blind"
	if neg || len(args) > 0 && !blind {
		ts.Fatalf("usage: republish [-blind]")
	}
	c := of(ts)
	brokers, err := c.brokers()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	before, err := c.duplicates(ctx)
	ts.Check(err)
	again, err := republish(ctx, brokers)
	ts.Check(err)
	if len(again) == 0 {
		ts.Fatalf("there is nothing to publish again")
	}
	ts.Logf("published again: %v", again)
	if !blind {
		ts.Check(c.awaitDuplicates(ctx, before, again))
	}
}

// absorbers are the consumers with an inbox that counts.
func absorbers() []event.Participant { return append(event.Owners(), choreography.Notifications) }

// duplicates is how many repetitions each consumer has absorbed so far.
func (c *system) duplicates(ctx context.Context) (map[event.Participant]int64, error) {
	all := map[event.Participant]int64{}
	for _, name := range absorbers() {
		client, err := c.participant(name)
		if err != nil {
			return nil, err
		}
		figures, err := client.Figures(ctx)
		if err != nil {
			return nil, err
		}
		all[name] = figures.Duplicates
	}
	return all, nil
}

// kind is a type of fact in the topic of its owner.
type kind struct {
	owner event.Participant
	fact  event.Type
}

func kindOf(r broker.Record) kind {
	k := kind{owner: event.Participant(strings.TrimSuffix(r.Topic, ".events"))}
	for _, h := range r.Headers {
		if h.Key == "eventType" {
			k.fact = event.Type(h.Value)
		}
	}
	return k
}

// awaitDuplicates waits until every consumer has absorbed so many records more of each kind that it hears; the others leave no trace.
func (c *system) awaitDuplicates(ctx context.Context, before map[event.Participant]int64, more map[kind]int64) error {
	for _, name := range absorbers() {
		want := before[name]
		for k, n := range more {
			if choreography.Hears(name, k.owner, k.fact) {
				want += n
			}
		}
		err := c.wait(fmt.Sprintf("%s to absorb %d duplicates", name, want), func() (bool, error) {
			now, err := c.duplicates(ctx)
			if away(err) {
				return false, nil
			}
			return now[name] >= want, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// republish appends every record of every topic once more to its partition, as it is: key, value, headers, timestamp. It returns how many of each kind.
func republish(ctx context.Context, brokers []string) (map[kind]int64, error) {
	var all []*kgo.Record
	again := map[kind]int64{}
	err := broker.Tail(ctx, broker.TailConfig{Brokers: brokers, Topics: topics(), Last: -1}, func(r broker.Record) error {
		again[kindOf(r)]++
		copied := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
		for _, h := range r.Headers {
			copied.Headers = append(copied.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		all = append(all, copied)
		return nil
	})
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return again, client.ProduceSync(ctx, all...).FirstErr()
}

func cmdRewind(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: rewind")
	}
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	brokers, err := c.brokers()
	ts.Check(err)
	before, err := c.duplicates(ctx)
	ts.Check(err)
	again := map[kind]int64{}
	ts.Check(broker.Tail(ctx, broker.TailConfig{Brokers: brokers, Topics: topics(), Last: -1}, func(r broker.Record) error {
		again[kindOf(r)]++
		return nil
	}))
	for _, consumer := range append(absorbers(), "tracker") {
		for _, topic := range hears(consumer) {
			dsn, err := c.database(string(consumer))
			ts.Check(err)
			ts.Check(c.tool(ctx, ts, []string{"consumer", "rewind", string(consumer), topic, "--to", "beginning", "--postgres", dsn}))
		}
	}
	ts.Check(c.awaitDuplicates(ctx, before, again))
}

// hears lists the topics that a consumer reads.
func hears(consumer event.Participant) []string {
	if consumer == "tracker" {
		return topics()
	}
	return participant.Topics(consumer)
}

// database is the URL of a service's database, as superuser.
func (c *system) database(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.data, "ports.json"))
	if err != nil {
		return "", err
	}
	var ports map[string]int
	if err := json.Unmarshal(text, &ports); err != nil {
		return "", err
	}
	admin, err := pgserver.Config{Dir: filepath.Join(c.data, "postgres"), Port: ports["postgres"]}.TCP()
	if err != nil {
		return "", err
	}
	return pg.WithDatabase(admin, name, "", "")
}
