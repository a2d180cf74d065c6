package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/e2e/kafka"
	"chorus/internal/broker"
)

// onKafka has the scripts run on Apache Kafka, each on one of its own, and on a real registry. Nothing is left out then.
var onKafka = os.Getenv("CHORUS_E2E_KAFKA") != ""

// registry is the one that all scripts share: they register the same schemas.
var registry *kafka.Registry

// TestKafka runs what takes more than one broker.
func TestKafka(t *testing.T) {
	if !onKafka {
		t.Skip("runs on Apache Kafka: CHORUS_E2E_KAFKA=1")
	}
	run(t, "testdata/kafka", bin)
}

// startRegistry starts the registry. It holds a schema of somebody else, so that no fact's id is that of the embedded registry.
func startRegistry(dir string) (stop func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience) // the first time it is fetched
	defer cancel()
	if registry, err = kafka.StartRegistry(ctx, dir); err != nil {
		return nil, err
	}
	stop = func() {
		if err := registry.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	for i := range 50 {
		body := fmt.Sprintf(`{"schema":"{\"type\":\"fixed\",\"name\":\"other%d\",\"size\":%d}"}`, i, i+1)
		resp, err := http.Post(fmt.Sprintf("%s/subjects/other%d/versions", registry.URL, i), "application/json", strings.NewReader(body))
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			stop()
			return nil, fmt.Errorf("register another schema: %v, %w", resp, err)
		}
	}
	return stop, nil
}

// startKafka starts the script's Kafka.
func (c *system) startKafka(nodes int) error {
	dir, err := os.MkdirTemp("", "chorus-kafka-")
	if err != nil {
		return err
	}
	c.kafkaDir = dir
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience) // the first time it is fetched
	defer cancel()
	c.kafka, err = kafka.Start(ctx, dir, nodes)
	return err
}

// servers are the flags of chorus up that name the script's servers.
func (c *system) servers() (flags []string, err error) {
	if c.postgres != nil {
		flags = append(flags, "--postgres", c.postgres.TCP())
	}
	if !onKafka {
		return flags, nil
	}
	if c.kafka == nil {
		if err := c.startKafka(1); err != nil {
			return nil, err
		}
	}
	return append(flags, "--kafka", strings.Join(c.kafka.Brokers(), ","), "--registry", registry.URL), nil
}

// broker does to Kafka what the supervisor does to the embedded broker.
func (c *system) broker(ctx context.Context, action string) error {
	switch action {
	case "kill":
		if err := c.kafka.Kill(ctx, 1); err != nil {
			return err
		}
		return c.kafka.Restart(ctx)
	case "await":
		return nil // whoever started it has waited
	}
	return fmt.Errorf("cluster %s broker: not with Apache Kafka", action)
}

func cmdKafka(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	node := 0
	if len(args) == 2 {
		node, _ = strconv.Atoi(args[1])
	}
	switch {
	case neg || len(args) == 0:
		ts.Fatalf("usage: kafka start NODES, kafka kill NODE, kafka restart, kafka config TOPIC")
	case args[0] == "start" && node > 0:
		ts.Check(c.startKafka(node))
	case args[0] == "kill" && node > 0:
		ts.Check(c.kafka.Kill(ctx, node))
	case args[0] == "config" && len(args) == 2:
		ts.Check(c.topicConfig(ctx, ts.Stdout(), args[1]))
	case args[0] == "restart":
		ts.Check(c.kafka.Restart(ctx))
	default:
		ts.Fatalf("kafka: what is %q?", args)
	}
}

// topicConfig prints what a topic is set to.
func (c *system) topicConfig(ctx context.Context, out io.Writer, topic string) error {
	client, err := broker.NewClient(c.kafka.Brokers())
	if err != nil {
		return err
	}
	defer client.Close()
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	for _, c := range configs {
		for _, entry := range c.Configs {
			fmt.Fprintf(out, "%s=%s\n", entry.Key, entry.MaybeValue())
		}
	}
	return nil
}

// clearKafka ends the script's Kafka and deletes what it has.
func (c *system) clearKafka() {
	if c.kafkaDir == "" {
		return
	}
	if c.kafka != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.kafka.Stop(ctx); err != nil {
			c.t.Error(err)
		}
	}
	if err := os.RemoveAll(c.kafkaDir); err != nil {
		c.t.Errorf("remove Kafka's data: %v", err)
	}
}
