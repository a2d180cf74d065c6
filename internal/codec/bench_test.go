package codec

import (
	"fmt"
	"testing"

	"chorus/internal/event"
)

// BenchmarkFact writes and reads one fact, with its envelope.
func BenchmarkFact(b *testing.B) {
	facts := []sample{
		{"OrderPlaced/3 lines", cart(3)},
		{"OrderPlaced/1100 lines", cart(1100)},
		{"PaymentTaken", event.PaymentTaken{Payment: "P-1", Processor: "standard", Amount: 2534, Currency: "GBP"}},
		{"OrderConfirmed", event.OrderConfirmed{}},
	}
	for _, format := range []Format{Avro, JSON} {
		c := newCodec(b, format)
		for _, s := range facts {
			e := envelopeOf(s.fact)
			b.Run(fmt.Sprintf("%s/%s", format, s.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					row, err := c.Row(e)
					if err != nil {
						b.Fatal(err)
					}
					key, headers, value := record(row)
					if _, err := c.Envelope(key, headers, value); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "facts/s")
			})
		}
	}
}
