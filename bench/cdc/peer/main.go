// Command peer forwards rows from Watermill's PostgreSQL table to Kafka, as its users do who need an outbox: a Watermill SQL subscriber, a
// Watermill Kafka publisher, acks from all replicas. It is a module of its own, so that its libraries stay out of chorus's.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	dsn := flag.String("dsn", "", "database")
	broker := flag.String("broker", "", "Kafka")
	topic := flag.String("topic", "", "topic, of Kafka and of Watermill")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := forward(ctx, *dsn, *broker, *topic); err != nil {
		log.Fatal(err)
	}
}

func forward(ctx context.Context, dsn, broker, topic string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	// Tuned for this: large batches, no waiting between polls.
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(pool), sql.SubscriberConfig{
		PollInterval: 5 * time.Millisecond,
		SchemaAdapter: sql.DefaultPostgreSQLSchema{
			GenerateMessagesTableName: func(string) string { return "watermill" },
			GeneratePayloadType:       func(string) string { return "BYTEA" },
			SubscribeBatchSize:        1000,
		},
		OffsetsAdapter:   sql.DefaultPostgreSQLOffsetsAdapter{GenerateMessagesOffsetsTableName: func(string) string { return "watermill_offsets" }},
		InitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	config := kafka.DefaultSaramaSyncPublisherConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:               []string{broker},
		Marshaler:             kafka.NewWithPartitioningMarshaler(func(_ string, m *message.Message) (string, error) { return m.Metadata.Get("key"), nil }),
		OverwriteSaramaConfig: config,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	messages, err := subscriber.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	for m := range messages {
		if err := publisher.Publish(topic, m); err != nil {
			m.Nack()
			continue
		}
		m.Ack()
	}
	return publisher.Close()
}
