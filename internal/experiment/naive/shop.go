// Package naive is a shop as it is often written, to show what goes wrong with it: its handler commits the order and then publishes the fact, or
// publishes first and then commits. Whoever dies between the two has lost a fact, or has told of an order that does not exist. The same shop with
// an outbox dies in the same places and loses nothing.
//
// It is a process of its own with a database and topics of its own, and never a mode of a service: no service has a Kafka producer at all (G1).
// [Bench] makes what it needs and takes it away again; after a kill -9 the next one does.
package naive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/broker"
	"chorus/outbox"
)

// The places in which a handler may die.
const (
	AfterCommit  = "after-commit"  // the order is there; the fact is published next
	BeforeCommit = "before-commit" // the order is not there yet; the fact is published already
)

// ShopCmd is the process: it takes orders, and stops in the gap of one of them until somebody kills it.
type ShopCmd struct {
	Postgres string   `help:"URL of its database." required:"" env:"CHORUS_POSTGRES"`
	Kafka    []string `help:"Kafka brokers." required:"" env:"CHORUS_KAFKA"`
	Outbox   bool     `help:"State facts in an outbox instead of publishing them."`
	Gap      string   `help:"Where it may die." enum:"after-commit,before-commit" default:"after-commit"`
	From     int      `help:"First order." default:"1"`
	To       int      `help:"Last order." default:"10"`
	Stop     int      `help:"Order in whose gap it stops; 0 for none."`
}

// inTheGap is what it prints when it has stopped there.
const inTheGap = "in the gap"

// shop is the process at work.
type shop struct {
	ShopCmd
	db    *pgx.Conn
	kafka *kgo.Client // of the naive one; nil with an outbox
	out   io.Writer
}

// Run takes the orders.
func (c *ShopCmd) Run(ctx context.Context, _ *slog.Logger) error {
	s := shop{ShopCmd: *c, out: os.Stdout}
	var err error
	if s.db, err = pgx.Connect(ctx, c.Postgres); err != nil {
		return fmt.Errorf("naive shop: %w", err)
	}
	defer s.db.Close(context.WithoutCancel(ctx))
	if !c.Outbox {
		if s.kafka, err = broker.NewClient(c.Kafka); err != nil {
			return fmt.Errorf("naive shop: make a Kafka client: %w", err)
		}
		defer s.kafka.Close()
	}
	for no := c.From; no <= c.To; no++ {
		if err := s.take(ctx, no); err != nil {
			return fmt.Errorf("naive shop: order %d: %w", no, err)
		}
	}
	return nil
}

// take is the handler. With an outbox there is no step beside the transaction, so there is nothing to forget and nothing to say too early.
func (s *shop) take(ctx context.Context, no int) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, `INSERT INTO orders (number) VALUES ($1)`, no); err != nil {
		return err
	}
	if s.Outbox {
		if err := outbox.Append(ctx, tx, fact(no)); err != nil {
			return err
		}
	}
	if s.Gap == BeforeCommit {
		if err := s.publish(ctx, no); err != nil {
			return err
		}
		s.gap(ctx, no)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if s.Gap == BeforeCommit {
		return nil
	}
	s.gap(ctx, no)
	return s.publish(ctx, no)
}

// gap is where the process can be killed.
func (s *shop) gap(ctx context.Context, no int) {
	if no == s.Stop {
		fmt.Fprintln(s.out, inTheGap)
		<-ctx.Done()
	}
}

func (s *shop) publish(ctx context.Context, no int) error {
	if s.Outbox {
		return nil
	}
	key := []byte(strconv.Itoa(no))
	return s.kafka.ProduceSync(ctx, &kgo.Record{Topic: topicNaive, Key: key, Value: payload}).FirstErr()
}

var payload = []byte(`{"placed":true}`)

func fact(no int) outbox.Row {
	sum := sha256.Sum256([]byte("demo/OrderPlaced/" + strconv.Itoa(no)))
	return outbox.Row{
		ID: [16]byte(sum[:16]), AggregateType: aggregate, AggregateID: strconv.Itoa(no), Type: "OrderPlaced", Payload: payload,
	}
}
