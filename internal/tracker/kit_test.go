package tracker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

const patience = 30 * time.Second

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// story is an order's facts as its services state them, one second apart, each caused by the one before unless said otherwise.
type story struct {
	no    event.OrderNo
	facts []event.Envelope
}

func (s *story) say(owner event.Participant, f event.Fact) *story {
	e := event.Envelope{
		Order: s.no, Owner: owner, Fact: f, Hop: len(s.facts),
		OccurredAt: start.Add(time.Duration(len(s.facts)) * time.Second),
	}
	generation := 0
	if len(s.facts) > 0 {
		e.CausationID = s.facts[len(s.facts)-1].ID
	}
	for _, before := range s.facts {
		if before.Owner == owner && before.Fact.Type() == f.Type() {
			generation++
		}
	}
	e.ID = event.Derive(start, owner, s.no, string(f.Type()), generation)
	s.facts = append(s.facts, e)
	return s
}

func placed(no event.OrderNo) *story {
	s := &story{no: no}
	return s.say(event.Orders, event.OrderPlaced{
		Customer: "ada", Currency: "EUR", Total: 1250, Shipping: event.Domestic, Deadline: start.Add(15 * time.Minute),
		Lines: []event.Line{{SKU: "85123A", Quantity: 5, UnitPrice: "2.50"}},
	})
}

func paid(no event.OrderNo) *story {
	return placed(no).
		say(event.Inventory, event.StockReserved{Reservation: "R-1"}).
		say(event.Fraud, event.OrderScreened{Score: 12, Verdict: event.Clear}).
		say(event.Shipping, event.ShipmentScheduled{Shipment: "S-1", Carrier: "post"}).
		say(event.Billing, event.PaymentTaken{Payment: "P-1", Processor: "standard", Amount: 1250, Currency: "EUR"})
}

func confirmed(no event.OrderNo) *story { return paid(no).say(event.Orders, event.OrderConfirmed{}) }

func declined(no event.OrderNo) *story {
	return placed(no).
		say(event.Inventory, event.StockReserved{Reservation: "R-1"}).
		say(event.Fraud, event.OrderScreened{Score: 95, Verdict: event.Reject, Reason: "known thief"}).
		say(event.Shipping, event.ShipmentScheduled{Shipment: "S-1", Carrier: "post"}).
		say(event.Billing, event.PaymentDeclined{Reason: "insufficient funds"})
}

// read turns envelopes into facts of a timeline.
func read(envelopes []event.Envelope) []Fact {
	facts := make([]Fact, len(envelopes))
	for i, e := range envelopes {
		facts[i] = Fact{ID: e.ID, Type: e.Fact.Type(), Owner: e.Owner, OccurredAt: e.OccurredAt, CausationID: e.CausationID, Hop: e.Hop, Said: e.Fact}
	}
	return facts
}

// record gives an envelope the form in which the inbox hands it over.
func record(t testing.TB, e event.Envelope, offset int64) inbox.Fact {
	t.Helper()
	row, err := codec.Embedded().Row(e)
	if err != nil {
		t.Fatal(err)
	}
	f := inbox.Fact{
		ID: row.ID, Type: row.Type, Key: row.AggregateID, Value: row.Payload, OccurredAt: row.OccurredAt,
		Topic: e.Owner.Topic(), Offset: offset, Timestamp: row.OccurredAt,
	}
	for key, value := range headers(e) {
		f.Headers = append(f.Headers, inbox.Header{Key: key, Value: []byte(value)})
	}
	return f
}

func headers(e event.Envelope) map[string]string {
	return map[string]string{
		"id": e.ID.String(), "eventType": string(e.Fact.Type()), "aggregateType": string(e.Owner),
		"occurredAt":    e.OccurredAt.Format("2006-01-02T15:04:05.000000Z"),
		"correlationId": e.Order.String(), "causationId": e.CausationID.String(), "hop": event.OrderNo(e.Hop).String(),
	}
}

// open returns a tracker on a database of its own, and its URL.
func open(t testing.TB) (*Tracker, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	dsn := pgtest.Database(t)
	return on(t, ctx, dsn), dsn
}

// on returns a tracker on that database.
func on(t testing.TB, ctx context.Context, dsn string) *Tracker {
	t.Helper()
	if err := pg.Migrate(ctx, dsn, Schema()); err != nil {
		t.Fatal(err)
	}
	db, err := pg.Open(ctx, dsn, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(ctx, inbox.Schema); err != nil {
		t.Fatal(err)
	}
	tr, err := New(ctx, slog.New(slog.DiscardHandler), db, codec.Embedded(), choreography.DefaultDurations())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// fold puts the facts in, as one batch.
func (t *Tracker) fold(tb testing.TB, envelopes ...event.Envelope) {
	tb.Helper()
	facts := make([]inbox.Fact, len(envelopes))
	for i, e := range envelopes {
		facts[i] = record(tb, e, int64(i))
	}
	err := pg.InTx(context.Background(), t.db, "fold", func(tx pgx.Tx) error {
		_, err := t.Handle(context.Background(), tx, facts)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	t.committed(facts, nil)
}
