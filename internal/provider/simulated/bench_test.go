package simulated

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"chorus/internal/pgtest"
)

// BenchmarkCharge measures charges of one customer by 64 callers, synchronous_commit on, callers and server in one process.
func BenchmarkCharge(b *testing.B) {
	i := start(b, pgtest.Database(b))
	i.http.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k := n.Add(1)
			r, err := i.send(b.Context(), "POST", charges, fmt.Sprint("k", k), chargeOf(k, "guest", 1))
			if err != nil || r.Status != 201 {
				b.Errorf("%d %s, %v", r.Status, r.Raw, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
