package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer sends the records of one session. Each session has a new one: an
// idempotent producer that has failed a record for good is of no more use.
type producer struct {
	client *kgo.Client
	topics map[string]*topic // by aggregate type (of a drop-in by name); used by the session's reader alone
	absent map[string]absence
	limits sync.Map        // topic to bytes (int32); the client's goroutines ask for it
	over   context.Context // has ended
	create *newTopics      // nil: topics are not made here

	servers []kgo.Opt // how to reach Kafka
}

// transactional makes a producer's records those of Kafka transactions.
type transactional struct {
	id      string
	timeout time.Duration // after which Kafka aborts one
}

// newTopics says how a topic that is not there is made.
type newTopics struct {
	partitions  int32 // 0: the broker makes it as it likes, if it does
	replication int16
}

// topic is one that Kafka was asked about and has.
type topic struct {
	name       string
	key        string // by which the producer has it
	limit      int    // bytes of a batch, uncompressed
	partitions int32
	ahead      time.Duration // how far a record's time may lie ahead of the broker's; 0 for no limit
	latest     time.Time     // of a record, when the clock was last asked
	behind     time.Duration // and behind it
	compacted  bool          // a record needs a key
}

// defaultLimit holds when the topic's limit may not be read. It is Kafka's own.
const defaultLimit = 1048588

// newProducer makes the producer of a session; with tx its records are in Kafka
// transactions.
func (s *source) newProducer(tx *transactional) (*producer, error) {
	return newProducer(s.config, s.cfg.Name, s.dropin, tx)
}

func newProducer(cfg Config, name string, d *dropin, tx *transactional) (*producer, error) {
	over, end := context.WithCancel(context.Background())
	end()
	p := &producer{over: over, topics: map[string]*topic{}, absent: map[string]absence{}, servers: []kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("chorus-cdc-" + name)}}
	secured, err := cfg.Kafka.options()
	if err != nil {
		return nil, err
	}
	p.servers = append(p.servers, secured...)
	compression := kgo.NoCompression()
	if d != nil {
		p.create = &newTopics{d.connector.Partitions, d.connector.Replication}
		switch d.connector.Compression {
		case "gzip":
			compression = kgo.GzipCompression()
		case "snappy":
			compression = kgo.SnappyCompression()
		case "lz4":
			compression = kgo.Lz4Compression()
		case "zstd":
			compression = kgo.ZstdCompression()
		}
	}
	options := append(slices.Clone(p.servers),
		kgo.RequiredAcks(kgo.AllISRAcks()), // idempotence is on by default, and keeps the order over retries
		kgo.RecordPartitioner(placed()),
		kgo.ProducerBatchCompression(compression),
		// A broker that does not know what we sent before has lost it, or its memory
		// of it. The client could go on with new numbers; another session with
		// another producer sends again what is not confirmed, and keeps the order.
		kgo.StopProducerOnDataLossDetected(),
		// At most, since most are told to leave before; see flight.leaves.
		kgo.ProducerLinger(linger),
		// A record is retried until Kafka has it or refuses it: no limit of
		// retries or time. The session bounds what is in flight, so that its
		// waiting can be interrupted; these must never be what blocks.
		kgo.MaxBufferedRecords(4*maxInFlight),
		kgo.ProducerBatchMaxBytesFn(p.limit),
		// After an outage the records should leave soon.
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Second, 50*time.Millisecond<<min(n, 6)) }),
		kgo.MetadataMinAge(250*time.Millisecond),
	)
	if tx != nil {
		options = append(options, kgo.TransactionalID(tx.id), kgo.TransactionTimeout(tx.timeout),
			kgo.ConcurrentTransactionsBackoff(2*time.Millisecond)) // the transaction before is still being marked
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	p.client = client
	return p, nil
}

// linger is how long a record may wait for others to go with it.
const linger = 5 * time.Millisecond

// leave has all that was handed to the client leave now, as far as it may have
// requests open. It waits for nothing: Flush starts what lingers, and waits only
// while its context lasts.
func (p *producer) leave() { _ = p.client.Flush(p.over) }

// limit is asked by the client when it first meets a partition of the topic,
// which is after the topic was looked up.
func (p *producer) limit(topic string) int32 {
	if n, ok := p.limits.Load(topic); ok {
		return n.(int32)
	}
	return defaultLimit
}

// refusal is a reason for which Kafka would not take a record now or later,
// until somebody does something about it.
type refusal struct {
	reason string
	record bool // it is the record's fault, not that of the topic
}

func (r refusal) Error() string { return r.reason }

// absence is a topic that was looked up in vain.
type absence struct {
	why   refusal
	until time.Time // when it may be looked up again
}

// lookUpUnless is lookUp. With remember a topic that is not there is not looked
// up again for a while: each of its records goes another way meanwhile.
func (p *producer) lookUpUnless(ctx context.Context, name string, remember bool) (*topic, error) {
	if a, ok := p.absent[name]; remember && ok && time.Now().Before(a.until) {
		return nil, a.why
	}
	if !validTopic(name) {
		return nil, refusal{fmt.Sprintf("%q cannot be a topic's name", name), true}
	}
	t, err := p.lookUp(ctx, name)
	var why refusal
	if remember && errors.As(err, &why) && len(p.absent) < 10_000 {
		p.absent[name] = absence{why, time.Now().Add(maxBackoff)}
	}
	return t, err
}

// lookUp asks Kafka about a topic. The error is a refusal when the topic is not
// there or not ours; anything else is an outage.
func (p *producer) lookUp(ctx context.Context, name string) (*topic, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	admin := kadm.NewClient(p.client)
	found, err := admin.ListTopics(ctx, name)
	if err == nil && p.create != nil && errors.Is(found[name].Err, kerr.UnknownTopicOrPartition) {
		found, err = p.makeTopic(ctx, admin, name)
	}
	if err != nil {
		return nil, fmt.Errorf("look up topic %s: %w", name, err)
	}
	d := found[name]
	switch {
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return nil, refusal{fmt.Sprintf("topic %s does not exist; create it", name), false}
	case errors.Is(d.Err, kerr.TopicAuthorizationFailed), errors.Is(d.Err, kerr.InvalidTopicException):
		return nil, refusal{fmt.Sprintf("topic %s: %v", name, d.Err), false}
	case d.Err != nil:
		return nil, fmt.Errorf("look up topic %s: %w", name, d.Err)
	case len(d.Partitions) == 0:
		return nil, fmt.Errorf("look up topic %s: it has no partitions yet", name)
	}
	t := &topic{name: name, limit: defaultLimit, partitions: int32(len(d.Partitions))}
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of topic %s: %w", name, err)
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			n, err := strconv.Atoi(kv.MaybeValue())
			switch {
			case kv.Key == "cleanup.policy":
				t.compacted = strings.Contains(kv.MaybeValue(), "compact")
			case err != nil:
			case kv.Key == "max.message.bytes":
				t.limit = max(512, min(n, 1<<30)) // what the client takes
			case kv.Key == "message.timestamp.after.max.ms" && n < 1e12:
				t.ahead = time.Duration(n) * time.Millisecond
			case kv.Key == "message.timestamp.before.max.ms" && n < 1e12:
				t.behind = time.Duration(n) * time.Millisecond
			}
		}
	}
	return t, nil
}

// validTopic is Kafka's rule.
func validTopic(name string) bool {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
