//go:build controls

package participant

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/outbox"
)

var control = os.Getenv("CHORUS_CONTROL")

// kept forgets, for the control "tombstone", that an undo came before there was anything to undo: its fact has said so, and a do that
// comes later finds nothing in its way.
func kept[S any](before S, in decision.Input, d decision.Decision[S]) S {
	if _, fact := in.(decision.Delivered); !fact || control != "tombstone" {
		return d.State
	}
	for _, e := range d.Facts {
		switch e.Fact.(type) {
		case event.PaymentVoided, event.ShipmentCancelled, event.StockReleased:
			return before
		}
	}
	return d.State
}

// producer is what a service has that publishes from its handler.
var producer = sync.OnceValues(func() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("CHORUS_KAFKA"), ",")...))
})

// state has, for the control "outbox", the orders service publish its facts from the handler, beside the transaction, as services without an
// outbox do.
func (d *Door[S]) state(ctx context.Context, tx pgx.Tx, facts []outbox.Row) error {
	if control != "outbox" || d.spec.Name != event.Orders {
		return outbox.Append(ctx, tx, facts...)
	}
	client, err := producer()
	if err != nil {
		return err
	}
	for _, f := range facts {
		client.Produce(context.WithoutCancel(ctx), &kgo.Record{
			Topic: f.AggregateType + ".events", Key: []byte(f.AggregateID), Value: f.Payload,
			Headers: []kgo.RecordHeader{
				{Key: "id", Value: []byte(event.ID(f.ID).String())}, {Key: "eventType", Value: []byte(f.Type)},
				{Key: "aggregateType", Value: []byte(f.AggregateType)},
				{Key: "occurredAt", Value: []byte(f.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))},
				{Key: "correlationId", Value: []byte(f.CorrelationID)}, {Key: "causationId", Value: []byte(f.CausationID)},
				{Key: "hop", Value: []byte(strconv.Itoa(f.Hop))},
			},
		}, nil)
	}
	return nil
}
