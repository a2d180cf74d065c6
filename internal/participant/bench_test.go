package participant_test

import (
	"log/slog"
	"testing"
	"time"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/event"
	"chorus/internal/participant"
)

// BenchmarkConsumer is billing's whole consumer against a real PostgreSQL: three facts an order, from three topics, of which each third
// plans a charge. An operation is a fact. The server of the tests does not wait for the disk; CHORUS_TEST_POSTGRES names one that does.
func BenchmarkConsumer(b *testing.B) {
	for _, c := range []struct {
		name  string
		batch int
	}{{"batch=500", 500}, {"batch=1", 1}} {
		b.Run(c.name, func(b *testing.B) {
			base := newBase(b, event.Billing)
			base.log = slog.New(slog.DiscardHandler)
			kafka := brokertest.Start(b, topicsOf(event.Billing, 1))
			d := participant.New(b.Context(), base.log, base.pool(nil), facts(), billing())
			n := max(1, b.N/3)
			all := make([]inbox.Fact, 0, 30_000)
			for i := range n {
				number := event.OrderNo(i + 1)
				all = append(all, placed(number), screened(number, event.Clear), scheduled(number))
				if len(all) == cap(all) || i == n-1 {
					publish(b, kafka.Addr(), 1, all...)
					all = all[:0]
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			begun := time.Now()
			stop := consume(base, kafka.Addr(), d, event.Billing, func(cfg *inbox.Config) { cfg.BatchRecords = c.batch })
			eventually(b, "all facts are handled", func() bool {
				return one[int64](base, `SELECT coalesce(sum(next_offset), 0)::bigint FROM partition_owner`) == int64(3*n)
			})
			b.ReportMetric(float64(3*n)/time.Since(begun).Seconds(), "facts/s")
			b.StopTimer()
			stop()
			if calls := one[int](base, `SELECT count(*) FROM calls`); calls != n {
				b.Errorf("%d calls, want %d", calls, n)
			}
		})
	}
}
