package orders

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkPlace places orders of three lines under a key each, from 16 clients at once, over HTTP and into PostgreSQL with synchronous commits.
func BenchmarkPlace(b *testing.B) {
	r := newRig(b, nil)
	r.sell([3]string{"A", "1.25", "GBP"}, [3]string{"B", "0.85", "GBP"}, [3]string{"C", "2.55", "GBP"})
	const body = `{"customer":"ada","items":[{"sku":"A","quantity":1},{"sku":"B","quantity":6},{"sku":"C","quantity":2}],"shipping":"domestic"}`
	var n atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			got, err := r.try("POST", "/v1/orders", strings.Replace(body, "ada", fmt.Sprint("customer ", n.Add(1)%1000), 1), "Idempotency-Key", fmt.Sprint("k", n.Add(1)))
			if err != nil || got.status != 202 {
				b.Error(got, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}
