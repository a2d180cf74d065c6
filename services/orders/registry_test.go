package orders

import (
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"chorus/internal/codec"
	"chorus/internal/codec/registry"
	"chorus/internal/event"
	"chorus/services/orders/order"
)

// TestRegistryAway: a schema registry that is away for as long as it likes stops nothing that is known; what is not known waits for it, in its own
// partition (SCH-12).
func TestRegistryAway(t *testing.T) {
	t.Parallel()
	fake := srfake.NewRegistry()
	var asked atomic.Int64
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	fake.SeedSchema("of somebody else", 1, 500, sr.Schema{Schema: `"string"`}) // so that our ids are not the embedded ones
	client, err := registry.New(server.URL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := client.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, time.Hour, func(c *Config) { c.Registry = server.URL })
	if s.codec, err = codec.New(ids, codec.Avro); err != nil {
		t.Fatal(err)
	}

	away.Store(true)
	before := asked.Load()
	paid := event.PaymentTaken{Payment: "p", Processor: "x", Amount: 100, Currency: "GBP"}
	var all []event.OrderNo
	for range 20 {
		number := s.place("c", Item{"A", 1}).Number
		s.publish(number, paid)
		all = append(all, number)
	}
	for _, number := range all {
		until(t, "the payment", func() bool { return s.order(number).Status == order.Confirmed })
	}
	var value []byte
	if err := s.db.QueryRow(t.Context(), `SELECT payload FROM outbox WHERE type = 'OrderPlaced' LIMIT 1`).Scan(&value); err != nil {
		t.Fatal(err)
	}
	if id := int(binary.BigEndian.Uint32(value[1:])); id != ids["OrderPlaced"] || id < 500 {
		t.Errorf("written under id %d, the registry's is %d", id, ids["OrderPlaced"])
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("the registry was asked %d times about what is known", n)
	}

	// A value of a schema that nobody here knows waits, and holds back its own partition alone.
	stranger := s.place("c", Item{"A", 1}).Number
	good, err := s.codec.Encode(paid)
	if err != nil {
		t.Fatal(err)
	}
	unknown := append([]byte(nil), good...)
	binary.BigEndian.PutUint32(unknown[1:], 9999)
	s.publishValue(stranger, paid, unknown)
	until(t, "the registry to be asked", func() bool { return asked.Load() > before })
	for passed := 0; passed < 5; {
		number := s.place("c", Item{"A", 1}).Number
		if partitionOf(number.String(), 3) == partitionOf(stranger.String(), 3) {
			continue
		}
		s.publish(number, paid)
		until(t, "a payment in another partition", func() bool { return s.order(number).Status == order.Confirmed })
		passed++
	}
	if n := s.count(`SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters while the registry is away", n)
	}

	away.Store(false)
	until(t, "the stranger to be set aside", func() bool {
		return s.count(`SELECT count(*) FROM dead_letters WHERE reason = 'unknown_schema' AND state = 'open'`) == 1
	})
	s.publish(stranger, paid)
	until(t, "its partition to go on", func() bool { return s.order(stranger).Status == order.Confirmed })
}
