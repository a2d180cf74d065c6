package intent_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// BenchmarkCalls makes calls to a provider that takes 20 ms, 64 at a time, with both rows of each exchange and an answer through a door.
func BenchmarkCalls(b *testing.B) {
	dsn := pgtest.Database(b)
	if err := pg.Migrate(b.Context(), dsn, intent.Schema()); err != nil {
		b.Fatal(err)
	}
	pool, err := pg.Open(b.Context(), dsn, pg.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), answered); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		time.Sleep(20 * time.Millisecond) // the provider's latency
		io.WriteString(w, `{"id":"ch_1"}`)
	}))
	b.Cleanup(srv.Close)
	set := configured(b, "pay", srv.URL, "    concurrency: 64\n")
	for first := 0; first < b.N; first += 1000 {
		var some []intent.Planned
		for n := first; n < min(first+1000, b.N); n++ {
			some = append(some, do(event.OrderNo(n+1)))
		}
		if err := pg.InTx(b.Context(), pool, "plan", func(tx pgx.Tx) error { return intent.Plan(b.Context(), tx, some) }); err != nil {
			b.Fatal(err)
		}
	}
	w, err := intent.New(slog.New(slog.DiscardHandler), intent.Defaults(), pool, set, &door{pool: pool})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- w.Run(ctx) }()
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		if err := pool.QueryRow(b.Context(), "SELECT count(*) FROM calls WHERE ended_at IS NULL").Scan(&left); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
