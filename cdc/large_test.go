package cdc_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/e2e/kafka"
)

// largeRows is how many rows TestMemoryOfAHugeTransaction has; it is not run without.
// Ten million take some minutes and 10 GB of disk.
const largeRows = "CHORUS_CDC_LARGE_ROWS"

// One transaction of so many rows, to Apache Kafka, under 256 MB of memory.
func TestMemoryOfAHugeTransaction(t *testing.T) {
	rows, _ := strconv.ParseInt(os.Getenv(largeRows), 10, 64)
	if rows == 0 {
		t.Skip(largeRows + " is not set")
	}
	ctx := context.Background() // so that Kafka is ended after a failure, too
	node, err := kafka.Start(ctx, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Kill(ctx, 1) })
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 6, 1, nil, "orders.events"); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.cfg.Brokers = node.Brokers()
	p := r.spawn()
	p.waitHere("caught up", func(s readiness) bool { return s.Sources[0].State == "caught up" })
	began := time.Now()
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT gen_random_uuid(), 'orders', (n % 10000)::text, 'OrderPlaced', convert_to(rpad(n::text, 200, 'x'), 'UTF8')
		  FROM generate_series(1, $1::bigint) AS n`, rows)
	inserted := time.Since(began)
	end := r.end()
	var disk, memory int64
	p.waitHere("the whole transaction", func(s readiness) bool {
		if h := s.Sources[0].Held; h != nil {
			disk, memory = max(disk, h.DiskBytes), max(memory, h.MemoryBytes)
		}
		return r.confirmed() >= end
	})
	took := time.Since(began)
	offsets, err := admin.ListEndOffsets(ctx, "orders.events")
	if err != nil {
		t.Fatal(err)
	}
	var published int64
	offsets.Each(func(o kadm.ListedOffset) { published += o.Offset })
	peak := p.peak()
	t.Logf("%d rows: inserted in %s, published %s after their commit; peak memory %d MB, of these held %d kB; files %d MB",
		rows, inserted.Round(time.Second), (took - inserted).Round(time.Second), peak, memory>>10, disk>>20)
	if published != rows {
		t.Errorf("%d records, want %d", published, rows)
	}
	if peak > 256 {
		t.Errorf("peak memory of %d MB", peak)
	}
}

// waitHere waits as long as it takes: for what is large.
func (p *running) waitHere(what string, done func(readiness) bool) {
	p.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Hour)
	for {
		if s, ok := p.ready(); ok && done(s) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			p.t.Fatalf("%s did not come about", what)
		}
	}
}
