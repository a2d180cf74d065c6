package inbox

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
	"chorus/internal/pgtest"
)

// BenchmarkLane measures facts applied per second by one lane, one row of effect a fact, by batch size (D13).
func BenchmarkLane(b *testing.B) {
	for _, size := range []int{1, 50, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			dsn := pgtest.Database(b)
			conn, err := pgx.Connect(b.Context(), dsn)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(b.Context())
			if _, err := conn.Exec(b.Context(), Schema+`CREATE TABLE effects (consumer text, event_id uuid, key text, "offset" bigint)`); err != nil {
				b.Fatal(err)
			}
			c, err := New(slog.New(slog.DiscardHandler), Config{Brokers: []string{"none:1"}, Group: "c", Topics: []string{"t"}, Postgres: dsn}, apply("c"))
			if err != nil {
				b.Fatal(err)
			}
			l, err := c.claim(b.Context(), broker.Partition{Topic: "t", TopicID: topicID, End: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			offset := int64(0)
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				batch := records(offset, names(fmt.Sprintf("f%d-", offset), size)...)
				b.StartTimer()
				if err := l.Handle(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				offset += int64(size)
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "facts/s")
		})
	}
}
