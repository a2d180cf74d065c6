package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// PartitionsError says that a topic is there with fewer partitions than wanted.
type PartitionsError struct {
	Topic string
	Have  int
	Want  int32
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions, want %d: drain the consumers, then raise it by hand", e.Topic, e.Have, e.Want)
}

// EnsureTopics makes the topics (name to number of partitions) that are missing, with the cluster's default replication. It may be run again, and at the same time by several processes, and has to be when
// it fails: just after a topic was made some of the brokers do not know it. A topic that
// exists with fewer partitions is a *PartitionsError: raising the number moves keys to other partitions, which breaks the order of what is under way, so a person has to drain first.
func EnsureTopics(ctx context.Context, brokers []string, topics map[string]int32, more ...kgo.Opt) error {
	client, err := NewClient(brokers, more...)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	have, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var faults []error
	for name, partitions := range topics {
		switch t, ok := have[name]; {
		case ok && t.Err == nil && len(t.Partitions) < int(partitions):
			faults = append(faults, &PartitionsError{name, len(t.Partitions), partitions})
		case ok && t.Err == nil:
		case ok && !errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			faults = append(faults, fmt.Errorf("look up topic %s: %w", name, t.Err))
		default:
			resp, err := admin.CreateTopic(ctx, partitions, -1, nil, name)
			if err == nil {
				err = resp.Err
			}
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				faults = append(faults, fmt.Errorf("create topic %s: %w", name, err))
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	return requireCopies(ctx, client, names)
}

// enoughCopies is how many copies make a lasting record of a topic that has this many or more to spare.
const enoughCopies = 2

// requireCopies has Kafka acknowledge a record of a topic with three copies or more only when two have it. Kafka's own default is one: the
// others may lag behind, and what the one has acknowledged is gone with it (G2). What somebody has set for the topic itself stays. (Kafka 4 writes its default down as a setting of the cluster, so that one
// does not tell that somebody chose it.)
func requireCopies(ctx context.Context, client *kgo.Client, names []string) error {
	admin := kadm.NewClient(client)
	copies, err := countCopies(ctx, client, names)
	if err != nil {
		return err
	}
	var copied []string
	for name, n := range copies {
		if n > enoughCopies {
			copied = append(copied, name)
		}
	}
	if len(copied) == 0 {
		return nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, copied...)
	if err != nil {
		return fmt.Errorf("read the configuration of topics %v: %w", copied, err)
	}
	var weak []string
	for _, c := range configs {
		if c.Err != nil {
			return fmt.Errorf("read the configuration of topic %s: %w", c.Name, c.Err)
		}
		for _, entry := range c.Configs {
			if entry.Key == minInsync && entry.Source != kmsg.ConfigSourceDynamicTopicConfig && entry.MaybeValue() == "1" {
				weak = append(weak, c.Name)
			}
		}
	}
	if len(weak) == 0 {
		return nil
	}
	value := strconv.Itoa(enoughCopies)
	answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: minInsync, Value: &value}}, weak...)
	if err != nil {
		return fmt.Errorf("set %s of topics %v: %w", minInsync, weak, err)
	}
	var faults []error
	for _, a := range answers {
		if a.Err != nil {
			faults = append(faults, fmt.Errorf("set %s of topic %s: %w", minInsync, a.Name, a.Err))
		}
	}
	return errors.Join(faults...)
}

const minInsync = "min.insync.replicas"

// countCopies asks a broker itself, not the client, which for some seconds remembers that a topic was not there. A broker may not have
// heard yet of a topic that another one has just made; that is an error, and not a topic without copies.
func countCopies(ctx context.Context, client *kgo.Client, names []string) (map[string]int, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("count the copies of topics %v: %w", names, err)
	}
	out := map[string]int{}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return nil, fmt.Errorf("count the copies of topic %s: %w", *topic.Topic, err)
		}
		for _, p := range topic.Partitions {
			out[*topic.Topic] = max(out[*topic.Topic], len(p.Replicas))
		}
	}
	return out, nil
}

// Retention returns how long each topic keeps its records; a negative duration means for ever.
func Retention(ctx context.Context, client *kgo.Client, topics ...string) (map[string]time.Duration, error) {
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of topics %v: %w", topics, err)
	}
	out := map[string]time.Duration{}
	for _, c := range configs {
		if c.Err != nil {
			return nil, fmt.Errorf("read the configuration of topic %s: %w", c.Name, c.Err)
		}
		for _, entry := range c.Configs {
			if entry.Key != "retention.ms" {
				continue
			}
			ms, err := strconv.ParseInt(entry.MaybeValue(), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("retention.ms of topic %s: %w", c.Name, err)
			}
			out[c.Name] = time.Duration(ms) * time.Millisecond
		}
	}
	return out, nil
}

// describe asks for what a claim has to know. The end is the high watermark, which no consumer can be past.
func (g *Group) describe(ctx context.Context, at place) (Partition, error) {
	p := Partition{Topic: at.topic, Partition: at.partition}
	ids, err := TopicIDs(ctx, g.member, at.topic)
	if err != nil {
		return p, err
	}
	start, err := ListStartOffsets(ctx, g.member, at.topic)
	if err != nil {
		return p, err
	}
	end, err := listOffsets(ctx, kadm.NewClient(g.member).ListEndOffsets, []string{at.topic})
	if err != nil {
		return p, err
	}
	var haveStart, haveEnd bool
	p.TopicID = ids[at.topic]
	p.Start, haveStart = start[at.topic][at.partition]
	p.End, haveEnd = end[at.topic][at.partition]
	if !haveStart || !haveEnd {
		return p, fmt.Errorf("list offsets of %s: no answer for partition %d", at.topic, at.partition)
	}
	return p, nil
}
