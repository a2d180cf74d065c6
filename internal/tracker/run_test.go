package tracker

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/brokertest"
	"chorus/internal/codec"
	"chorus/internal/event"
)

// produce writes the facts into their topics, those of one order and owner in order.
func produce(t testing.TB, addr string, envelopes []event.Envelope) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, len(envelopes))
	for i, e := range envelopes {
		row, err := codec.Embedded().Row(e)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = &kgo.Record{Topic: e.Owner.Topic(), Key: []byte(row.AggregateID), Value: row.Payload}
		for key, value := range headers(e) {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume runs the tracker until it has read every record of the topics, and stops it.
func consume(t testing.TB, tr *Tracker, addr, dsn string, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c, err := tr.Consumer([]string{addr}, dsn, "")
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(run) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("consume: %v", err)
		}
	}()
	all := tr.Subscribe(0)
	defer all.Close()
	for {
		var read int
		if err := tr.db.QueryRow(ctx, `SELECT coalesce(sum(next_offset), 0) FROM partition_owner`).Scan(&read); err != nil {
			t.Fatal(err)
		}
		if read >= records {
			return
		}
		if err := all.wait(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("%d of %d records were read: %v", read, records, err)
		}
	}
}

func topics() map[string]int32 {
	topics := map[string]int32{}
	for _, topic := range Topics() {
		topics[topic] = 2
	}
	return topics
}

// Five topics at any pace, with duplicates, and once more from the beginning into an empty database: the same stories (D10, G4).
func TestReplaysGiveTheSameTimelines(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	broker := brokertest.Start(t, topics())
	const orders = 40
	var all []event.Envelope
	for no := event.OrderNo(1); no <= orders; no++ {
		tale := confirmed(no)
		if no%2 == 0 {
			tale = declined(no).say(event.Shipping, event.ShipmentCancelled{Shipment: "S-1"}).say(event.Inventory, event.StockReleased{Reservation: "R-1"})
		}
		all = append(all, tale.facts...)
	}
	byOwner := map[event.Participant][]event.Envelope{}
	for _, e := range all {
		byOwner[e.Owner] = append(byOwner[e.Owner], e)
	}
	records := 0
	for _, i := range rand.Perm(len(event.Owners())) { // consequences may come long before their causes
		facts := byOwner[event.Owners()[i]]
		facts = append(facts, facts[:len(facts)/2]...)
		produce(t, broker.Addr(), facts)
		records += len(facts)
	}
	first, dsn := open(t)
	consume(t, first, broker.Addr(), dsn, records)
	second, dsn2 := open(t)
	consume(t, second, broker.Addr(), dsn2, records)

	var kept, noted int
	if err := first.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM facts), (SELECT count(*) FROM inbox)`).Scan(&kept, &noted); err != nil {
		t.Fatal(err)
	}
	if kept != len(all) || noted != 0 {
		t.Errorf("%d facts and %d rows in the inbox, want %d and none", kept, noted, len(all))
	}
	for no := event.OrderNo(1); no <= orders; no++ {
		a, err := first.Timeline(ctx, no)
		if err != nil {
			t.Fatal(err)
		}
		b, err := second.Timeline(ctx, no)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b, cmpopts.IgnoreFields(Fact{}, "FoldedAt", "Seq")); diff != "" {
			t.Errorf("order %s is told differently the second time:\n%s", no, diff)
		}
		if want := 6 + 1*int((no+1)%2); len(a.Facts) != want {
			t.Errorf("order %s has %d facts, want %d", no, len(a.Facts), want)
		}
	}
}
