package tracker

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/event"
	"chorus/internal/pg"
)

// BenchmarkFold folds batches of 500 facts with their inbox rows, as the door does: each order's facts come
// in batches of their own, since each owner has its own topic.
func BenchmarkFold(b *testing.B) {
	ctx := context.Background()
	tr, _ := open(b)
	const batch = 500
	conn, err := tr.db.Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	var base event.OrderNo
	var next [][]inbox.Fact
	folded := 0
	for b.Loop() {
		if len(next) == 0 {
			b.StopTimer()
			columns := make([][]inbox.Fact, 6)
			for i := range event.OrderNo(batch) {
				for step, e := range confirmed(base + i + 1).facts {
					columns[step] = append(columns[step], record(b, e, 0))
				}
			}
			base, next = base+batch, columns
			b.StartTimer()
		}
		facts := next[0]
		next = next[1:]
		entries := make([]inbox.Entry, len(facts))
		for i, f := range facts {
			entries[i] = inbox.Entry{ID: f.ID, OccurredAt: f.OccurredAt, Topic: f.Topic, Partition: f.Partition, Offset: f.Offset}
		}
		err := pg.InTx(ctx, conn, "fold", func(tx pgx.Tx) error {
			if _, err := inbox.Insert(ctx, tx, Name, entries...); err != nil {
				return err
			}
			_, err := tr.Handle(ctx, tx, facts)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		folded += len(facts)
	}
	b.ReportMetric(float64(folded)/b.Elapsed().Seconds(), "facts/s")
}
